"""A store in memory lets the loop go on at each request, as a server does: what polls it starves nobody."""

from __future__ import annotations

import asyncio

import recipes


def test_who_polls_is_stopped_by_its_timeout() -> None:
    async def poll() -> int:
        async with recipes.connect_async("memory://") as client:
            lock, polls = client.lock("x"), 0
            async with client.lock("x"):
                try:
                    async with asyncio.timeout(0.05):
                        while await lock.try_acquire() is None:
                            polls += 1
                except TimeoutError:
                    return polls
        return 0

    assert asyncio.run(asyncio.wait_for(poll(), 60)) > 0


def test_the_holder_has_its_turn_while_others_poll() -> None:
    async def both() -> None:
        async with recipes.connect_async("memory://") as client:
            lock = client.lock("x")
            held = await lock.acquire()

            async def poll() -> None:
                while (grant := await lock.try_acquire()) is None:
                    pass
                await grant.release()

            polling = asyncio.create_task(poll())
            await asyncio.sleep(0)
            await held.release()
            await polling

    asyncio.run(both())
