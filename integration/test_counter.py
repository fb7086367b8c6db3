"""The contract at the end of ZooKeeper's counter (fault 20): its numbers stick there, or turn negative.

What sorts by them alone then lets two hold at once, or turns the order round.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from integration import servers
from integration.harness.finding import find_zookeeper
from integration.harness.worn import LAST, WornZooKeeper
from integration.stores import ServerStore, ZooKeeperStore
from recipes._contract.names import encode
from tests.contract.exclusion import Exclusion
from tests.contract.world import World, until

NAMES = ("x", "y", "a name")
PLACES = 64


@pytest.fixture(scope="module")
def worn(zookeeper: servers.ZooKeeper) -> Iterator[tuple[WornZooKeeper, Iterator[str]]]:
    """Yield a worn ZooKeeper and prefixes that nobody used; where there is one, there is the other."""
    prefixes = [f"worn-{n}" for n in range(PLACES)]
    nodes = [f"/{prefix}/{encode(name)}" for prefix in prefixes for name in NAMES]
    with WornZooKeeper("worn", find_zookeeper(), nodes) as one:
        yield one, iter(prefixes)


@pytest.fixture
def store(worn: tuple[WornZooKeeper, Iterator[str]]) -> Iterator[ServerStore]:
    """Yield a place on it."""
    server, prefixes = worn
    one = ZooKeeperStore(server, next(prefixes))
    yield one
    one.close()


def numbers(world: World) -> list[str]:
    """Return the numbers of those who stand in the queue, first come first."""
    return [path.rpartition("-lock-")[2] for path in world.store.contenders("x")]


@pytest.mark.long
class TestExclusionAtTheEnd(Exclusion):
    """See the base."""


def test_the_number_sticks_and_one_holds(world: World) -> None:
    a, b = world.client(), world.client()
    seen: list[str] = []
    waiting: Any = None
    grant = a.acquire("x")
    for _ in range(6):
        waiting = b.queue_up("x")
        seen += numbers(world)
        assert len(world.store.contenders("x")) == 2
        a.release(grant)
        grant, (a, b) = waiting.result(), (b, a)
    assert seen.count(str(LAST)) > 2, seen
    assert a.verify(grant)


def test_numbers_stick_or_turn_negative_and_the_order_stays(world: World) -> None:
    """Creates that are under way together count on; those that come alone do not."""
    clients = [world.client() for _ in range(3)]
    tokens: list[int] = []

    grant = clients[0].acquire("x")
    coming = [client.acquiring("x", timeout=60) for client in clients * 8]
    assert until(lambda: len(world.store.contenders("x")) == 25, 30)
    order = world.store.contenders("x")
    seen = numbers(world)
    assert len(set(seen)) < 25 or any(number.startswith("-") for number in seen), seen
    left = dict(enumerate(coming))
    for _ in itertools.repeat(None, 24):
        world.api.do(grant.release)
        assert until(lambda: any(running.done for running in left.values()), 30)
        (number,) = [n for n, running in left.items() if running.done]
        grant = left.pop(number).result()
        assert grant.token > max(tokens, default=0)
        tokens.append(grant.token)
        assert world.store.contenders("x") == order[len(tokens) :]
