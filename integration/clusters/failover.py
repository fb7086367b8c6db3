"""How long the lock's next holder waits when something dies: on clusters of three, over many kills.

::

    python -m integration.clusters.failover --kills 50 --store etcd-3.5 --store zookeeper-3.8

Four things happen, each as often as asked for, with a blocking and an asyncio client side by side:

- ``holder killed``: the holder's process is killed (kill -9); measured until the next one holds.
- ``leader killed``: the holder keeps its lock; measured until the store confirms that, and it is then
  released and handed over.
- ``member killed``: the same, with the member that the holder is attached to.
- ``released``: measured from the call of release until the next one holds.

Ends with status 1 if any took longer than is promised (L1), but for what the machine was late meanwhile, or
a hold was lost that should not be.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from integration.clusters.labs import MADE, ClusterLab, cluster_of
from integration.faults.actors import APIS, Held
from integration.lateness import PutOff
from recipes._run.clock import boot_time

__all__ = ["Figures", "measured"]

KILLED_SESSION_S = 2.0
"""The session of holders that are killed: as short as may be, so that much can be seen in little time."""
LASTING_SESSION_S = 9.0
"""The session of those that are to outlive others: longer than an election takes on a busy machine."""
LANES = 2
RELEASED_WITHIN_S = 1.0


@dataclass
class Took:
    """How long it took once until the next one held, and how late the machine was meanwhile."""

    seconds: float
    late_s: float


@dataclass
class Figures:
    """What one kind of death came to, in seconds."""

    kind: str
    bound_s: float
    took: list[Took] = field(default_factory=list)

    def __str__(self) -> str:
        p50, most = statistics.median(one.seconds for one in self.took), max(one.seconds for one in self.took)
        counted = f"{len(self.took):4} times"
        times = f"p50 {p50:6.3f} s   max {most:6.3f} s, {self._most_in_time_s:6.3f} s but for the machine"
        return f"{self.kind:15} {counted}   {times}   bound {self.bound_s:.1f} s"

    @property
    def kept(self) -> bool:
        """Whether the bound was kept, each time, but for what the machine was late."""
        return self._most_in_time_s <= self.bound_s

    @property
    def _most_in_time_s(self) -> float:
        return max(max(0.0, one.seconds - one.late_s) for one in self.took)


class Stopwatch:
    """Measures from its making on, and also how late this machine and the members of the cluster are."""

    def __init__(self, lab: ClusterLab) -> None:
        self._pace = lab.pace
        self._members = PutOff(*(member.pid for member in lab.server.members))
        self.began_at = boot_time()

    def took(self) -> Took:
        """Return what it came to so far."""
        ended_at = boot_time()
        late_s = self._pace.late_s(self.began_at, ended_at) + self._members.seconds
        return Took(ended_at - self.began_at, late_s)


def measured(store: str, kills: int) -> list[Figures]:
    """Return the figures of each kind, on a cluster of its own."""
    kinds: list[Callable[[list[ClusterLab], int], Figures]] = [
        _holders_killed,
        partial(_members_killed, "leader killed", lambda held: cluster.leader()),
        partial(_members_killed, "member killed", lambda held: attached_to(cluster, held)),
        _released,
    ]
    found = []
    with cluster_of(store) as cluster:
        for kind in kinds:
            with _labs(cluster) as labs:
                found.append(kind(labs, kills))
    return found


def attached_to(cluster: Any, held: Held) -> Any:
    """Return the member that the holder's session is attached to."""
    runtime = held.owner.client._runtime
    if cluster.kind == "etcd":
        port = runtime.backend._endpoints.current().port
        return next(member for member in cluster.members if member.port == port)
    session = f"sid=0x{held.owner.client.session.id}"
    return next(member for member in cluster.members if session in member.ask("cons"))


@contextmanager
def _labs(cluster: Any) -> Iterator[list[ClusterLab]]:
    prefix = f"t-{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                ClusterLab(cluster, f"{prefix}/{api}", api, lambda _text: None, threading.Barrier(1))
            )
            for api in APIS
        ]


def _holders_killed(labs: list[ClusterLab], kills: int) -> Figures:
    figures = Figures("holder killed", labs[0].failover_after_s(KILLED_SESSION_S))

    def lane(lab: ClusterLab, number: int) -> None:
        rival = lab.client(session_timeout=LASTING_SESSION_S)
        for turn in range(number, kills, LANES):
            name = f"killed/{turn}"
            holder = lab.worker(session_s=KILLED_SESSION_S)
            token = holder.ask("acquire", name, 10)
            waiting = rival.start_acquire(name)
            lab.seen.wait("lock.queued", name=name)
            since_kill = Stopwatch(lab)
            holder.kill()
            held = waiting.result(20)
            figures.took.append(since_kill.took())
            assert held.token > token
            assert held.release()

    _beside_each_other(lane, [(lab, number) for lab in labs for number in range(LANES)])
    return figures


def _members_killed(kind: str, choose: Callable[[Held], Any], labs: list[ClusterLab], kills: int) -> Figures:
    cluster = labs[0].server
    figures = Figures(kind, labs[0].failover_after_s(LASTING_SESSION_S))
    options = {"session_timeout": LASTING_SESSION_S}
    clients = [(lab, lab.client(**options), lab.client(**options)) for lab in labs]
    for turn in range(kills):
        name = f"{kind.replace(' ', '-')}/{turn}"
        ready = []
        for lab, one, other in clients:
            held, waiting = one.acquire(name), other.start_acquire(name)
            lab.seen.wait("lock.queued", name=name)
            ready.append((lab, held, waiting))
        member = choose(ready[turn % len(ready)][1])
        since_kill = Stopwatch(labs[0])  # the pace is the same for all labs of a process
        member.kill()

        def survive(lab: ClusterLab, held: Held, waiting: Any, since_kill: Stopwatch = since_kill) -> None:
            assert lab.when_served(held.verify), "the hold should survive"
            assert held.held
            assert not waiting.done()
            assert held.release()
            following = waiting.result(20)
            figures.took.append(since_kill.took())
            assert following.token > held.token
            assert following.release()
            for one in (held, following):  # one death at a time: who renews must have come through
                assert lab.renewed_since(one, since_kill.began_at), "the session should be renewed elsewhere"

        _beside_each_other(survive, ready)
        cluster.start()
        cluster.leader()
    for lab in labs:
        lost = [(one.session, one.reason) for one in lab.seen.of("session.lost")]
        assert not lost, f"no session should be lost to the death of a member: {lost}"
    return figures


def _released(labs: list[ClusterLab], times: int) -> Figures:
    figures = Figures("released", RELEASED_WITHIN_S)
    for lab in labs:
        one, other = lab.client(), lab.client()
        for turn in range(times):
            name = f"released/{turn}"
            held, waiting = one.acquire(name), other.start_acquire(name)
            lab.seen.wait("lock.queued", name=name)
            since_release = Stopwatch(lab)
            assert held.release()
            following = waiting.result(20)
            figures.took.append(since_release.took())
            assert following.token > held.token
            assert following.release()
    return figures


def _beside_each_other(work: Callable[..., None], cases: list[tuple[Any, ...]]) -> None:
    with ThreadPoolExecutor(len(cases)) as pool:
        for done in [pool.submit(work, *case) for case in cases]:
            done.result()


def main() -> int:
    """Measure, print, and say whether all was as promised."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=50, help="of each kind, for each of the two faces")
    parser.add_argument("--store", action="append", help="etcd-3.4, etcd-3.5 or zookeeper-3.8", default=[])
    arguments = parser.parse_args()
    kept = True
    for store in arguments.store or MADE:
        for figures in measured(store, arguments.kills):
            print(f"{store:14} {figures}", flush=True)
            kept = kept and figures.kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
