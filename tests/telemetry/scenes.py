"""What happens while telemetry looks on: the same for both APIs, on any store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import recipes

__all__ = ["APIS", "blocking", "waiting_tasks"]

NAME = "reports/nightly"


def blocking(url: str) -> int:
    """One holds, two wait: the first gets it, the second gives up; then a reader comes.

    Returns how many were told to queue: the second may give up before, on a slow machine.
    """
    told = 1
    with recipes.connect(url) as client, recipes.connect(url) as other:
        holder = client.lock(NAME).acquire()
        queued = threading.Event()

        def tell(transition: recipes.events.Transition) -> None:
            if transition.event == "lock.queued":
                queued.set()

        end = recipes.events.subscribe(tell)
        waiter = threading.Thread(target=lambda: other.lock(NAME).acquire().release())
        waiter.start()
        assert queued.wait(30)
        end()
        try:
            other.lock(NAME).acquire(timeout=0.05)
        except recipes.LockTimeout as late:
            told += late.position is not None
        holder.release()
        waiter.join(30)
        with client.rwlock(NAME).reader:
            return told


def waiting_tasks(url: str) -> int:
    """The same in asyncio."""
    return asyncio.run(_waiting_tasks(url))


async def _waiting_tasks(url: str) -> int:
    told = 1
    async with recipes.connect_async(url) as client, recipes.connect_async(url) as other:
        holder = await client.lock(NAME).acquire()
        loop, queued = asyncio.get_running_loop(), asyncio.Event()

        def tell(transition: recipes.events.Transition) -> None:
            if transition.event == "lock.queued":
                loop.call_soon_threadsafe(queued.set)

        async def wait() -> None:
            await (await other.lock(NAME).acquire()).release()

        end = recipes.events.subscribe(tell)
        waiter = asyncio.create_task(wait())
        await asyncio.wait_for(queued.wait(), 10)
        end()
        try:
            await other.lock(NAME).acquire(timeout=0.05)
        except recipes.LockTimeout as late:
            told += late.position is not None
        await holder.release()
        await waiter
        async with client.rwlock(NAME).reader:
            return told


APIS: dict[str, Callable[[str], int]] = {"blocking": blocking, "asyncio": waiting_tasks}
