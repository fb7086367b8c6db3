"""A script that holds a lock and ends without closing anything.

Run as ``python -m integration.faults.forgetful FACE URL SESSION_S HOW``; it goes on to its end when
it is told to. HOW is "quiet", or "waiting" if another thread (or task) waits for the lock
all the while.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading

import recipes


def blocking(url: str, session_s: float, how: str) -> None:
    """Forget a blocking client."""
    client = recipes.connect(url, session_timeout=session_s)
    while client.session.state != "held":  # loading the transport may take a request's time on a busy machine
        with contextlib.suppress(recipes.StoreUnavailable):
            client.open()
    grant = client.lock("forgotten").acquire()
    if how == "waiting":
        threading.Thread(target=client.lock("forgotten").acquire, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.readline()
    print(grant.held, flush=True)


async def tasks(url: str, session_s: float, how: str) -> None:
    """Forget an asyncio client."""
    client = recipes.connect_async(url, session_timeout=session_s)
    while client.session.state != "held":
        with contextlib.suppress(recipes.StoreUnavailable):
            await client.open()
    grant = await client.lock("forgotten").acquire()
    waiting = None
    if how == "waiting":
        waiting = asyncio.ensure_future(client.lock("forgotten").acquire())
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    print(grant.held, waiting is not None and waiting.done(), flush=True)


if __name__ == "__main__":
    _, api, address, length, mode = sys.argv
    if api == "blocking":
        blocking(address, float(length), mode)
    else:
        asyncio.run(tasks(address, float(length), mode))
