"""A holder that hangs with a live session: in a busy loop, or in a read that nothing ends.

Run as ``python -m integration.faults.stuck FACE URL SESSION_S HOW MAX_HOLD_S SECONDS``. It says when
it asked and when it acquired, hangs for so many seconds without a look at its grant, and tells what it
sees then.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from typing import Any

from integration.opening import opened, opened_in_tasks
from recipes._run.clock import boot_time


def hang(asked_at: float, how: str, seconds: float) -> None:
    """Let this thread do nothing of use."""
    print(json.dumps([asked_at, boot_time()]), flush=True)
    if how == "busy loop":
        until = boot_time() + seconds
        while boot_time() < until:
            pass
    else:
        read, _ = os.pipe()
        select.select([read], [], [], seconds)


def seen(grant: Any) -> str:
    """Return what the holder sees when it goes on."""
    return json.dumps({"held": grant.held, "reason": grant.lost_reason, "token": grant.token})


async def tasks(url: str, session_s: float, how: str, max_hold_s: float, seconds: float) -> None:
    """Hang in the loop of an asyncio client, which then renews nothing."""
    async with await opened_in_tasks(url, session_timeout=session_s) as client:
        asked_at = boot_time()
        grant = await client.lock("stuck", max_hold=max_hold_s).acquire()
        hang(asked_at, how, seconds)
        print(seen(grant), flush=True)
        print(json.dumps(await grant.release()), flush=True)


def blocking(url: str, session_s: float, how: str, max_hold_s: float, seconds: float) -> None:
    """Hang in the thread that holds."""
    with opened(url, session_timeout=session_s) as client:
        asked_at = boot_time()
        grant = client.lock("stuck", max_hold=max_hold_s).acquire()
        hang(asked_at, how, seconds)
        print(seen(grant), flush=True)
        print(json.dumps(grant.release()), flush=True)


if __name__ == "__main__":
    _, api, address, length, manner, most, lasts = sys.argv
    print("ready", flush=True)
    if api == "blocking":
        blocking(address, float(length), manner, float(most), float(lasts))
    else:
        asyncio.run(tasks(address, float(length), manner, float(most), float(lasts)))
