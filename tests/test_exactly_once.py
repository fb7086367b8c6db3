"""A thousand additions come to a thousand in memory, whatever the test kit does to them."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

import recipes
from recipes import testing

ADDS, LANES = 1000, 4
REPLY_EVERY, REQUEST_EVERY, EXPIRES_EVERY = 5, 50, 100


class Tally:
    """What the calls came to; and what befalls each next one."""

    def __init__(self, store: testing.Store, client: recipes.Client | recipes.AsyncClient) -> None:
        self.store, self.client = store, client
        self.sums: list[int] = []
        self.unknown = 0
        self._asked = count(1)

    def fault(self) -> None:
        """Lose the reply of every fifth write, every fiftieth request, and end a session now and then."""
        asked = next(self._asked)
        if asked % REPLY_EVERY == 0:
            self.store.drop_reply(self.client, "write")
        if asked % REQUEST_EVERY == 1:
            self.store.drop_request(self.client, "write")
        if asked % EXPIRES_EVERY == 2:
            self.store.drop_reply(self.client, "write")
            with contextlib.suppress(ValueError):  # it has none just now
                self.store.expire(self.client)

    def judge(self, found: int) -> None:
        """See that each addition counted once, or nobody can tell."""
        assert len(self.sums) + self.unknown == ADDS
        assert len(set(self.sums)) == len(self.sums)
        assert len(self.sums) <= found <= ADDS
        assert self.unknown <= ADDS // EXPIRES_EVERY * LANES


def test_threads_add_a_thousand_times() -> None:
    with testing.Store() as store, store.clock.jumping(), ThreadPoolExecutor(LANES) as pool:
        client = store.connect().open()
        counter, tally = client.counter("orders"), Tally(store, client)

        def lane() -> None:
            for _ in range(ADDS // LANES):
                tally.fault()
                try:
                    tally.sums.append(counter.add())
                except recipes.OutcomeUnknown:
                    tally.unknown += 1

        for one in [pool.submit(lane) for _ in range(LANES)]:
            one.result()
        tally.judge(counter.get())


def test_tasks_add_a_thousand_times() -> None:
    async def add() -> None:
        async with testing.Store() as store:
            client = store.connect_async()
            counter, tally = client.counter("orders"), Tally(store, client)

            async def lane() -> None:
                for _ in range(ADDS // LANES):
                    tally.fault()
                    try:
                        tally.sums.append(await counter.add())
                    except recipes.OutcomeUnknown:
                        tally.unknown += 1

            await client.open()
            lanes = asyncio.gather(*(lane() for _ in range(LANES)))
            while not lanes.done():
                await store.clock.advance_async(0.1)
            await lanes
            tally.judge(await counter.get())

    asyncio.run(add())


@pytest.mark.parametrize("operation", ["read", "write"])
def test_a_lost_reply_to_a_read_or_a_write_is_asked_for_again(operation: testing.Operation) -> None:
    with testing.Store() as store:
        client = store.connect()
        value = client.value("a")
        value.set(b"before")
        store.drop_reply(client, operation)
        value.set(b"after")
        found = value.get()
        assert found is not None
        assert found.data == b"after"
