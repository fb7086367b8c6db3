"""A holder that looks at its grant without a pause, and lets no other thread run.

Run as ``python -m integration.faults.spinner FACE URL SESSION_S``. It is to be stopped while it
spins; it tells what it saw first when it went on, and acquires again at once.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from integration.opening import opened, opened_in_tasks
from recipes._run.clock import boot_time

LONG_S = 4.0  # a machine may stand still for three seconds; the stop lasts longer


def spin(grant: Any) -> None:
    """Look until long went by between two readings of the clock, and then once more."""
    sys.setswitchinterval(1000)
    print("ready", flush=True)
    looked_at = boot_time()
    while (now := boot_time()) - looked_at < LONG_S:
        looked_at = now
        if not grant.held:
            break
    print("true after the stop" if grant.held else "false at first sight", flush=True)


async def tasks(url: str, session_s: float) -> None:
    """Hold with an asyncio client."""
    async with await opened_in_tasks(url, session_timeout=session_s) as client:
        spin(await client.lock("spinning").acquire())
        print(f"again {(await client.lock('spinning').acquire(timeout=20)).held}", flush=True)


def blocking(url: str, session_s: float) -> None:
    """Hold with a blocking client."""
    with opened(url, session_timeout=session_s) as client:
        spin(client.lock("spinning").acquire())
        print(f"again {client.lock('spinning').acquire(timeout=20).held}", flush=True)


if __name__ == "__main__":
    _, api, address, length = sys.argv
    if api == "blocking":
        blocking(address, float(length))
    else:
        asyncio.run(tasks(address, float(length)))
