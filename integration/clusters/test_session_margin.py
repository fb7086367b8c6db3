"""A ZooKeeper session of two ticks, the shortest there is: given up before the leader ends it (S2).

A follower passes on to the leader every half tick whom it heard from. Here it is killed, at a moment
that has nothing to do with that, with clients attached to it that know no other member. Each counts
on what was answered last; the leader deletes their nodes when it has not heard of them for long enough.
"""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from integration import servers
from integration.clusters.labs import ClusterLab
from integration.faults.actors import APIS, Actor
from integration.faults.looking import hold_fault
from recipes._programs.lease import SessionClock
from recipes._run.clock import boot_time

TICK_MS = 2000  # as is usual
SESSION_S = 2 * TICK_MS / 1000
CLIENTS = 10
KILLS = 16
RATES = 1.1
"""How much faster the clocks of the servers may run (A3)."""


class Deletions:
    """When the leader deleted which node, by an own client of it; each has the clock of who made it."""

    def __init__(self, leader: Any, clocks: Mapping[str, SessionClock], stack: ExitStack) -> None:
        self._clocks = clocks
        self.at: dict[str, float] = {}
        self._all = threading.Event()
        self._missing = set(clocks)
        client = stack.enter_context(servers.kazoo_client(leader, timeout_s=30))
        for path, clock in clocks.items():
            looked_at = boot_time()
            there = client.exists(path, watch=self._on_event)
            assert there or clock.deadline <= looked_at, "it should be there until its client is away"

    def _on_event(self, event: Any) -> None:
        self.at[event.path] = boot_time()
        self._missing.discard(event.path)
        if not self._missing:
            self._all.set()

    def early(self) -> list[str]:
        """Return the nodes that were deleted before their clients gave their sessions up."""
        return [path for path, clock in self._clocks.items() if self.at.get(path, math.inf) < clock.deadline]

    def wait(self) -> None:
        """Wait until all are deleted."""
        assert self._all.wait(10 * SESSION_S), f"still there: {self._missing}"


@pytest.mark.long
@pytest.mark.timeout(2700)
def test_fault_39_sessions_of_two_ticks_are_given_up_in_time(
    prefix: str, figure: Callable[[str], None]
) -> None:
    found: list[tuple[float, SessionClock]] = []
    for turn in range(
        KILLS
    ):  # an ensemble for each: how its batches lie to its ticks stays as it was at the start
        found += deleted(APIS[turn % 2], f"{prefix}/{turn}")
    after_last_s = min(at - clock._answered[-1][0] for at, clock in found)
    after_counted_s = min(at - clock.counted for at, clock in found)
    spare_s = min(at - clock.counted - RATES * (clock.deadline - clock.counted) for at, clock in found)
    figure(f"{len(found)} sessions of {SESSION_S:g} s: deleted {after_last_s:.2f} s and more after the last")
    figure(
        f"answered renewal was sent, {after_counted_s:.2f} s after the one that counts, and {spare_s:.2f} s"
    )
    figure("after the deadline of a clock that is 10 % slow")
    assert after_counted_s >= SESSION_S
    assert spare_s > 0


def deleted(api: str, prefix: str) -> list[tuple[float, SessionClock]]:
    """Kill a follower; return when the leader deleted the node of each client, and the client's clock."""
    cluster = servers.ZooKeeperCluster("zookeeper-margin", servers.zookeeper_38().java, tick_ms=TICK_MS)
    with cluster, ExitStack() as stack:
        leader = cluster.leader()
        follower = cluster.others(leader)[0]
        alone = (cluster, prefix, api, lambda _text: None, threading.Barrier(1))
        lab = stack.enter_context(ClusterLab(*alone))
        clients = [lab.client(follower, session_timeout=SESSION_S) for _ in range(CLIENTS)]
        turns = (killed(leader, follower, clients, f"lock-{turn}") for turn in itertools.count())
        return next(filter(None, turns))


def killed(leader: Any, follower: Any, clients: list[Actor], name: str) -> list[tuple[float, SessionClock]]:
    """Kill a follower; return as `deleted` does, nothing if a client gave up its session before that."""
    with ExitStack() as stack:
        holds = [one.acquire(f"{name}-{number}").grant._hold for number, one in enumerate(clients)]
        clocks: dict[str, SessionClock] = {hold.entry.ref: hold.session.clock for hold in holds}
        deletions = Deletions(leader, clocks, stack)
        began = boot_time()
        assert servers.eventually(
            lambda: all(clock.counted > began or given_up(clock) for clock in clocks.values()), 2 * SESSION_S
        )
        hold_fault(random.random() * TICK_MS / 1000)  # until somewhere between two batches
        follower.kill()
        too_late = any(map(given_up, clocks.values()))
        if too_late:
            assert deletions.early() == []
        else:
            deletions.wait()
        follower.start()
        return [] if too_late else [(deletions.at[path], clock) for path, clock in clocks.items()]


def given_up(clock: SessionClock) -> bool:
    """Whether its client has given its session up by now, as it does where a machine stands still."""
    return clock.deadline <= boot_time()
