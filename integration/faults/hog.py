"""A holder that computes without a pause, and lets no other thread or task run.

Run as ``python -m integration.faults.hog FACE URL SESSION_S``. It tells when it saw for the last time
that it holds, when it saw that it does not, and its deadline then; then it lets the rest run, and acquires
again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from integration.opening import opened, opened_in_tasks
from recipes._run.clock import boot_time

ENOUGH_S = 10.0
TOLD_S = 20.0


def hog(grant: Any) -> None:
    """Compute until it is not held any more, and report."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    print("ready", flush=True)
    began = now = boot_time()
    seen_at = began
    while grant.held and now < began + ENOUGH_S:
        seen_at, now = now, boot_time()  # read before it was looked at
    over_at = boot_time()
    sys.setswitchinterval(usual)
    deadline = grant._hold.session.clock.deadline
    print(json.dumps({"seen_at": seen_at, "over_at": over_at, "deadline": deadline}), flush=True)


async def tasks(url: str, session_s: float) -> None:
    """Hold with an asyncio client."""
    async with await opened_in_tasks(url, session_timeout=session_s) as client:
        grant = await client.lock("hogged").acquire()
        hog(grant)
        told = await grant.lost.wait(TOLD_S)
        again = await client.lock("hogged").acquire(timeout=30)
        print(json.dumps({"told": told, "again": again.held}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)


def blocking(url: str, session_s: float) -> None:
    """Hold with a blocking client."""
    with opened(url, session_timeout=session_s) as client:
        grant = client.lock("hogged").acquire()
        hog(grant)
        told = grant.lost.wait(TOLD_S)
        again = client.lock("hogged").acquire(timeout=30)
        print(json.dumps({"told": told, "again": again.held}), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    _, api, address, length = sys.argv
    if api == "blocking":
        blocking(address, float(length))
    else:
        asyncio.run(tasks(address, float(length)))
