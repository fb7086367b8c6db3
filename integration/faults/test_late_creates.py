"""Fault 41: a create that arrives long after it was given up, when its client has gone on by another way.

Each client knows two ways to the server. The first keeps a create back, as a kernel or a proxy does
that goes on delivering; the client asks again by the second, and goes on. What is kept back arrives
when nothing is under way any more, as far as any clock could say.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import pytest

import recipes
from integration import servers
from integration.faults.actors import Actor, actor
from integration.faults.labs import Lab, at_once
from integration.faults.looking import creates, hold_fault
from integration.harness.process import url_of
from integration.harness.wire import Match, Request
from integration.opening import open_patiently
from integration.proxy import Proxy

SOON_S = 20.0
LATE_S = 75.0  # longer than the minute for which tombstones once stood
LANDS_S = 1.0  # what arrives at a server has its effect sooner
ENDS = ("granted", "left")
SEVERAL = pytest.mark.parametrize("server", servers.CONSENSUS, indirect=True)
"""A URL of Redis names one server, so one way: see `integration/redis_faults/test_late.py`."""


class TwoWays(Lab):
    """A lab with two ways to the server."""

    session_s = 12.0  # ZooKeeper leaves a silent way within a third of that

    @cached_property
    def second(self) -> Proxy:
        """The way to go when the first is silent."""
        return self._stack.enter_context(Proxy.of(self.server))

    def client(self) -> Actor:
        """Return a client that goes by the first way, which works, and knows the second."""
        ways = [self.proxy.address, self.second.address]
        scheme = self.server.url("").partition(":")[0]
        options: dict[str, Any] = {"session_timeout": self.session_s, "request_timeout": self.session_s / 2}
        one = actor(self.api, url_of(scheme, ways, self.prefix), **options)
        self._stack.callback(one.close)
        open_patiently(one)
        return one

    def heal(self) -> None:
        super().heal()
        if "second" in self.__dict__:
            self.second.heal()


class First:
    """Matches the first request that another match does, by whichever way it goes, and no other."""

    def __init__(self, match: Match) -> None:
        self.seen = False
        self._match = match
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> bool:
        with self._lock:
            if self.seen or not self._match(request):
                return False
            self.seen = True
            return True


def keep_back(lab: TwoWays, one: Actor, end: str) -> Callable[[], None]:
    """Have a create kept back, whose client is granted by the other way and releases, or leaves.

    Returns what lets it arrive.
    """
    first = First(creates(lab.server))  # by whichever way it goes
    traps = [(way, way.hold_request(match=first)) for way in (lab.proxy, lab.second)]
    if end == "granted":
        held = one.acquire(lab.name, timeout=SOON_S)
        assert held.verify()
        assert held.release()
    while end == "left" and not first.seen:  # on a busy machine a call may leave before it has asked
        with contextlib.suppress(recipes.LockTimeout):
            one.acquire(lab.name, timeout=0.2).release()
    assert first.seen
    assert servers.eventually(lambda: one.client.pending_cleanups == 0, SOON_S)
    assert lab.contenders_become(0)

    def arrive() -> None:
        for way, trap in traps:
            way.release(trap)

    return arrive


def nobody_comes(lab: TwoWays, one: Actor) -> None:
    """See that no contender comes of what arrives now, and that everybody goes on."""
    assert not servers.eventually(lab.contenders, LANDS_S), "a contender that nobody owns"
    for client in (lab.actor(), one):
        held = client.acquire(lab.name, timeout=SOON_S)
        assert len(lab.contenders()) == 1
        assert held.release()
    assert not lab.seen.of("session.lost")


@SEVERAL
@at_once(TwoWays, end=ENDS)
def test_fault_41_a_create_arrives_late_by_a_way_that_was_left(lab: TwoWays, end: str) -> None:
    one = lab.client()
    arrive = keep_back(lab, one, end)
    arrive()
    nobody_comes(lab, one)


@pytest.mark.parametrize("server", servers.ETCDS, indirect=True)
@at_once(TwoWays, end=ENDS)
def test_fault_41_a_create_arrives_when_its_tombstone_was_swept(lab: TwoWays, end: str) -> None:
    one = lab.client()
    protocol = one.client._runtime.state.session.protocol
    arrive = keep_back(lab, one, end)
    tombstones = f"/{protocol.session_id}/"
    assert [key for key in everything(lab) if tombstones in key]

    protocol.most_tombstones = 0
    arrive_too = keep_back(lab, one, end)
    assert not [key for key in everything(lab) if tombstones in key]

    arrive()
    arrive_too()
    nobody_comes(lab, one)


def everything(lab: TwoWays) -> list[str]:
    """Return all keys of a lab, those of sessions too."""
    return list(servers.leftovers(lab.server, lab.prefix).contenders)


@pytest.mark.long
@SEVERAL
@at_once(TwoWays, end=ENDS)
def test_fault_41_a_create_arrives_after_more_than_a_minute(lab: TwoWays, end: str) -> None:
    one = lab.client()
    arrive = keep_back(lab, one, end)
    hold_fault(LATE_S)
    arrive()
    nobody_comes(lab, one)
