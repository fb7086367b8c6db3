"""A master that was replaced, and goes on for those who have not noticed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from integration.faults.actors import APIS, Actor, actor
from integration.needing import needed
from integration.opening import open_patiently
from integration.proxy import Proxy
from integration.redis_faults.nodes import Kept, becomes
from integration.redis_faults.places import Trio
from tests.pace import taking

SESSION_S = 10.0
LONG_SESSION_S = 60.0
"""None is renewed while the master is replaced: by its renewal a client would notice that."""
HAND_OVER_S = 2.0
SOON_S = 60.0
NAME = "nightly"


class Patient(Trio):
    """One whose master is not replaced where a busy machine lets it stand still."""

    down_ms = 3000


class Chain:
    """A master, its replica, and a replica of that; two clients, each on a way of its own to the master."""

    def __init__(self, api: str, prefix: str, done: contextlib.ExitStack) -> None:
        self.prefix, self.done = prefix, done
        made = [self.done.enter_context(needed("redis-7", Kept)) for _ in range(3)]
        self.master, self.replica, self.last = made
        for one, its in ((self.replica, self.master), (self.last, self.replica)):
            one.ask("REPLICAOF", its.host, its.port)
            becomes("each should follow the one before it", lambda one=one, its=its: one.follows(its.port))
        self.ways = [self.done.enter_context(Proxy.of(self.master)) for _ in range(2)]
        self.clients = [self._client(api, way) for way in self.ways]

    def _client(self, api: str, way: Proxy) -> Actor:
        options = {
            "session_timeout": SESSION_S,
            "restart_grace": SESSION_S,
            "request_timeout": 1,
            "replicas": 1,
        }
        one = actor(api, f"redis://{way.address}/0/{self.prefix}", **options)
        self.done.callback(one.close)
        open_patiently(one)
        return one

    def renewed(self, number: int, after: float | None = None) -> float:
        """Wait for a client's next renewal that counts, or for one after that moment; returns its moment."""
        clock = self.clients[number].client._runtime.state.session.clock
        moment: float = clock.counted if after is None else after
        becomes("it should be renewed", lambda: clock.counted > moment)
        return float(clock.counted)


@pytest.fixture(params=APIS)
def chain(request: pytest.FixtureRequest, prefix: str) -> Iterator[Chain]:
    with contextlib.ExitStack() as done:
        yield Chain(request.param, prefix, done)


@pytest.mark.long
def test_fault_47_who_is_next_on_a_master_that_was_replaced_holds_beside_nobody(chain: Chain) -> None:
    """The holder has gone to the new master. The old one takes it for dead, and grants; the new is asked."""
    held = chain.clients[0].acquire(NAME, timeout=SOON_S)
    waiting = chain.clients[1].start_acquire(NAME, timeout=2 * SOON_S)
    becomes("both should be known everywhere", lambda: len(chain.last.contenders(chain.prefix)) == 2)
    last = chain.renewed(0)
    chain.ways[0].lead_to(chain.replica)
    chain.ways[0].reset()
    chain.renewed(1, last + SESSION_S / 4)  # so it outlasts what the old master knows of the holder
    chain.replica.ask("REPLICAOF", "NO", "ONE")
    chain.renewed(0)
    queue = f"{{{chain.prefix}:{NAME}}}:queue"
    becomes("the old one should drop the holder", lambda: chain.master.ask("ZCARD", queue) == 1)
    chain.ways[1].lead_to(chain.replica)
    chain.ways[1].reset()
    for _ in range(3):
        chain.renewed(0)
        assert held.verify()
        assert not waiting.done()
    assert held.release()
    later = waiting.result(SOON_S)
    assert later.token > held.token
    assert later.verify()


@pytest.mark.long
@pytest.mark.parametrize("api", APIS)
def test_fault_47_a_waiter_is_notified_by_the_new_master_while_the_former_lives(
    api: str, prefix: str
) -> None:
    """The former master is cut off from all but its clients, and answers the one that listens there."""
    options = {"session_timeout": LONG_SESSION_S, "restart_grace": 0, "request_timeout": 1, "replicas": 1}
    with needed("redis-7", Patient) as place, contextlib.ExitStack() as done:
        holder, waiter = (actor(api, place.url(prefix), **options) for _ in range(2))
        for one in (holder, waiter):
            done.callback(one.close)
            open_patiently(one)
        held = holder.acquire(NAME, timeout=SOON_S)
        waiting = waiter.start_acquire(NAME, timeout=2 * SOON_S)
        queue = f"{{{prefix}:{NAME}}}:queue"
        first = place.leading()
        becomes("both should queue", lambda: first.ask("ZCARD", queue) == 2)
        done.callback(place.hub.heal)  # before the clients are closed
        place.cut_off(first)
        following = place.leading(instead_of=first)
        bells = ("PUBSUB", "CHANNELS", f"{prefix}:~bell:*")
        assert len(first.ask(*bells)) == 2
        becomes("both should listen to it", lambda: len(following.ask(*bells)) == 2)
        with taking(HAND_OVER_S):
            assert held.release()
            later = waiting.result(SOON_S)
        assert later.token > held.token
        assert later.release()
