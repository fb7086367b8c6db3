"""A recipe that admits two holders, added by one predicate: nothing else of the package knows of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from integration import servers
from integration.conftest import FIXTURES
from integration.stores import store_on
from recipes import AsyncLock, Lock, LockTimeout, WouldDeadlock
from recipes._contract.rule import Nearest, Rule
from tests.contract.apis import Running
from tests.contract.stores import MemoryStore, Store
from tests.contract.tap import Act
from tests.contract.world import SHORT, Party, World, until

TWO = Rule(kind="P", blocked_by=Nearest(2), depth=2)


class Pair(Lock):
    """Two at a time, in threads."""

    _rule = TWO


class AsyncPair(AsyncLock):
    """Two at a time, in tasks."""

    _rule = TWO


@pytest.fixture(params=["memory", *FIXTURES])
def store(request: pytest.FixtureRequest, prefix: str) -> Iterator[Store]:
    """Yield a place on each store in turn, the one in memory too."""
    one: Store
    if request.param == "memory":
        one = MemoryStore()
    else:
        server: servers.Server = request.getfixturevalue(FIXTURES[request.param])
        one = store_on(server.start(), prefix)
    yield one
    one.close()


def pair(party: Party, name: str = "x") -> Any:
    """Return the recipe on a client."""
    runtime = party.client._runtime
    return (AsyncPair if party.api.is_async else Pair)(runtime, name)


def acquire(party: Party, timeout: float | None = 10) -> Any:
    """Acquire as this thread."""
    lock = pair(party)
    return party.api.do(lambda: lock.acquire(timeout=timeout))


def queue_up(party: Party, timeout: float | None = 20) -> Running:
    """Acquire beside the test, and wait until it waits."""
    lock = pair(party)
    with party.tap.one_more():
        return party.api.start(lambda: lock.acquire(timeout=timeout))


def try_acquire(party: Party) -> Any:
    """Try as this thread."""
    return party.api.do(pair(party).try_acquire)


def test_two_hold_and_a_third_waits_for_either(world: World) -> None:
    for first_to_go in (0, 1):
        a, b, c = (world.client() for _ in range(3))
        grants = [acquire(a), acquire(b)]
        assert all(grant.held for grant in grants)
        assert try_acquire(c) is None
        with pytest.raises(LockTimeout):
            acquire(c, timeout=0.2)
        waiting = queue_up(c)
        (a, b)[first_to_go].release(grants[first_to_go])
        third = waiting.result(6)
        assert third.token > grants[1].token
        assert grants[1 - first_to_go].held
        for party, grant in ((c, third), ((b, a)[first_to_go], grants[1 - first_to_go])):
            assert party.verify(grant)
            party.release(grant)
        assert world.store.everything() == []


def test_never_more_than_two_and_at_times_two(world: World) -> None:
    clients = [world.client() for _ in range(3)]
    inside: set[Any] = set()
    most: list[int] = []
    tokens: list[int] = []
    counting = threading.Lock()
    met = threading.Event()

    def body(grant: Any) -> None:
        with counting:
            inside.add(grant)
            most.append(len(inside))
            tokens.append(grant.token)
            if len(inside) == 2:
                met.set()
        met.wait(5)  # the first stays until somebody is beside it
        grant.check()
        with counting:
            inside.remove(grant)

    def work(party: Party) -> None:
        for _ in range(6):
            lock = pair(party)
            party.api.enter(lambda lock=lock: lock, body)

    for running in [world.api.spawn(lambda c=client: work(c)) for client in clients for _ in range(2)]:
        running.result(60)
    assert max(most) == 2
    assert len(set(tokens)) == 36
    assert world.store.everything() == []


def test_waiters_are_served_in_order_of_arrival(world: World) -> None:
    clients = [world.client() for _ in range(3)]
    held = [(clients[0], acquire(clients[0])), (clients[1], acquire(clients[1]))]
    waiting = [queue_up(clients[n % 3]) for n in range(6)]
    for n, running in enumerate(waiting):
        party, grant = held.pop(n % 2)  # now the older, now the younger of the two
        party.release(grant)
        held.append((clients[n % 3], running.result()))
        assert [later.done for later in waiting[n + 1 :]] == [False] * (5 - n)


def test_timeouts_and_giving_up_leave_nothing(world: World) -> None:
    a, b, c, d = (world.client() for _ in range(4))
    grants = [acquire(a), acquire(b)]
    between, last = queue_up(c, timeout=3.0), queue_up(d)
    assert isinstance(between.error(), LockTimeout)
    with pytest.raises(LockTimeout):
        acquire(c, timeout=0)
    assert c.wait_clean()
    assert len(world.store.contenders("x")) == 3
    b.release(grants[1])
    assert last.result(10).held


def test_a_lost_reply_and_an_interrupt_leave_nothing(world: World) -> None:
    a, b = world.client(), world.client()
    kept = acquire(a)
    for act in (Act.LOSE_REPLY, Act.INTERRUPT_BEFORE, Act.INTERRUPT_AFTER):
        fault = b.tap.fail(act)
        try:
            grant = acquire(b, timeout=5)
        except world.api.interrupts:
            assert act is not Act.LOSE_REPLY
        else:
            b.release(grant)
        assert fault.fired.is_set()
        assert b.wait_clean()
        assert len(world.store.contenders("x")) == 1
    assert a.verify(kept)


def test_an_owner_may_hold_two_and_would_wait_for_itself_at_the_third(world: World) -> None:
    client = world.client()
    first, second = acquire(client), acquire(client)
    with pytest.raises(WouldDeadlock):
        acquire(client)
    assert first.held
    assert second.held


def test_a_holder_whose_session_ends_makes_room(world: World) -> None:
    a, b, c = world.client(**SHORT), world.client(), world.client()
    lost, kept = acquire(a), acquire(b)
    waiting = queue_up(c)
    world.store.end_session(a.client)
    assert waiting.result(15).held
    assert a.wait_lost(lost, 10)
    assert not a.release(lost)
    assert kept.held
    assert until(lambda: len(world.store.contenders("x")) == 2, 5)
