"""What is asked of Redis, counted where requests are asked and on the wire: a command for each step."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import recipes
from integration.counting import on_the_wire, trips, used
from integration.proxy import Proxy
from integration.stores import RedisStore
from recipes.stores.redis.tasks import MOST_AT_ONCE
from tests.contract.world import World, until

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", ["redis-7"], indirect=True),
]
JOINED, REMOVED, RENEWED = ("join",), ("remove",), ("PEXPIRE", "touch")


def written(store: RedisStore) -> int:
    """Return how many writes the server has counted."""
    return int(store.operator.info("persistence")["rdb_changes_since_last_save"])


@pytest.mark.parametrize("take", ["acquire", "try_acquire"])
@pytest.mark.parametrize("side", ["", "reader", "writer"])
def test_uncontended_acquire_and_release_take_one_command_each(
    proxy: Proxy, world: World, store: RedisStore, take: str
) -> None:
    party = used(world, url=proxy.url(store.prefix))
    with proxy.counting() as acquiring, party.tap.counting() as acquired:
        grant = getattr(party, take)("x")
    with proxy.counting() as releasing, party.tap.counting() as released:
        party.release(grant)
    assert trips(acquired) == [JOINED]
    assert trips(released) == [REMOVED]
    assert acquiring.requests == {"join": 1}
    assert releasing.requests == {"remove": 1}
    assert acquiring.connections == releasing.connections == 0


def test_try_of_a_held_lock_is_one_command_and_writes_nothing(
    proxy: Proxy, world: World, store: RedisStore
) -> None:
    holder, party = used(world), used(world, url=proxy.url(store.prefix))
    holder.acquire("x")
    before = written(store)
    with proxy.counting() as counts, party.tap.counting() as seen:
        assert party.try_acquire("x") is None
    assert trips(seen) == [JOINED]
    assert on_the_wire(counts) == 1, counts
    assert written(store) == before
    assert party.wait_clean()


@pytest.mark.parametrize("length", [2, 200])
def test_joining_takes_one_command_and_a_hand_over_none_but_the_release(world: World, length: int) -> None:
    holder, parties = used(world), [used(world) for _ in range(3)]
    grant: Any = holder.acquire("x")
    waiting = []
    for number in range(length):
        party = parties[number % 3]
        with party.tap.counting() as joined:
            waiting.append((party, party.queue_up("x", timeout=None)))
        assert trips(joined) == [JOINED]
    before = [len(party.tap.asked_by_callers()) for party in parties]
    with holder.tap.counting() as released:
        holder.release(grant)
    grant = waiting[0][1].result()
    assert grant.held
    assert trips(released) == [REMOVED]
    assert [len(party.tap.asked_by_callers()) for party in parties] == before
    assert sum(party.tap.waiting for party in parties) == length - 1


@pytest.mark.parametrize("length", [2, 200])
def test_waiting_asks_nothing_and_takes_no_connection(
    proxy: Proxy, world: World, store: RedisStore, length: int
) -> None:
    holder, party = used(world), used(world, url=proxy.url(store.prefix))
    names = [f"lock {n}" for n in range(length)]
    for name in names:
        holder.acquire(name)
    threads = threading.active_count()
    waiting = [party.acquiring(name, timeout=None) for name in names]
    party.tap.wait_parked(length)
    if world.api.is_async:
        assert threading.active_count() == threads
    quiet = threading.Event()
    with proxy.counting() as counts:
        quiet.wait(1.0)  # nothing is what is waited for
    assert counts.requests == {}
    assert counts.connections == 0
    for grant in list(holder.client.grants):
        holder.release(grant)
    assert all(running.result().held for running in waiting)


def test_a_renewal_is_one_round_trip_for_all_that_is_held_and_awaited(world: World) -> None:
    holder, party = used(world), world.client(session_timeout=3)
    grants = [party.acquire(f"held {n}") for n in range(3)]
    holder.acquire("awaited")
    waiting = party.queue_up("awaited")
    since = len(party.tap.asked)
    renewals = [*RENEWED, *(RENEWED[1],) * 3]
    assert until(lambda: [*renewals] in [[*one.parts] for one in party.tap.asked[since:]], 5)
    assert {one.parts[0] for one in party.tap.asked[since:]} == {"PEXPIRE"}
    assert all(grant.held for grant in grants)
    assert not waiting.done


def test_a_burst_takes_a_bounded_number_of_connections(store: RedisStore) -> None:
    async def burst() -> int:
        async with recipes.connect_async(store.url(), **store.options) as client:
            grants = await asyncio.gather(*(client.lock(f"lock {n}").acquire() for n in range(500)))
            seen = int(store.operator.info("clients")["connected_clients"])
            await asyncio.gather(*(grant.release() for grant in grants))
            return max(seen, int(store.operator.info("clients")["connected_clients"])) - before

    before = int(store.operator.info("clients")["connected_clients"])
    assert asyncio.run(burst()) <= 2 * MOST_AT_ONCE + 2
