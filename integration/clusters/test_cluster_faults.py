"""Members are killed, the leader or so many that no majority is left, and one is cut off from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from typing import Any

import pytest

import recipes
from integration import servers
from integration.clusters.labs import ClusterLab, on_clusters
from integration.faults.looking import taking
from integration.faults.test_connection import told_at
from integration.harness.etcd import encoded
from recipes._run.clock import boot_time

QUORUM_SESSION_S = 12.0
BACK_S = 3.0
"""For the members to elect a leader, and for clients to find it."""
ELECTION_S = 1.0
CUT_SESSION_S = 12.0
"""ZooKeeper leaves a silent way after a third of it, and the rest is for the way to another member."""


@on_clusters(attached_to=("the leader", "a follower"))
def test_fault_10_kill_of_the_leader(lab: ClusterLab, attached_to: str) -> None:
    leader = lab.server.leader()
    member = leader if attached_to == "the leader" else lab.server.others(leader)[0]
    holder, waiter = (lab.attached(member, session_timeout=QUORUM_SESSION_S).actor for _ in range(2))
    held = holder.acquire(lab.name)
    waiting = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)

    killed_at = lab.once(leader.kill)

    assert lab.when_served(held.verify)
    lab.figure(
        f"verified {boot_time() - killed_at:.2f} s after the leader's death (session {QUORUM_SESSION_S:g} s)"
    )
    assert lab.renewed_since(held, killed_at)
    assert held.held
    assert not waiting.done()
    for event in ("lock.lost", "lock.requeued"):
        assert not lab.seen.of(event, name=lab.name)
    assert not lab.seen.of("session.lost")
    assert waiter.call(waiter.client.lock("another").try_acquire)  # its watch is where its calls are
    released_at = boot_time()
    assert held.release()
    granted = waiting.result(20)
    lab.figure(f"hand-over {1000 * (boot_time() - released_at):.1f} ms, by the new leader")
    assert granted.token > held.token
    lab.once(lab.server.start)


@on_clusters()
def test_fault_11_quorum_lost_and_back(lab: ClusterLab) -> None:
    holder, waiter = (lab.client(session_timeout=QUORUM_SESSION_S) for _ in range(2))
    held = holder.acquire(lab.name)
    next_one = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    told = told_at(held)
    leader = lab.server.leader()
    killed = [leader, lab.server.others(leader)[0]]

    lab.once(lambda: [member.kill() for member in killed])

    with pytest.raises(recipes.StoreUnavailable):
        waiter.call(waiter.client.lock("another").try_acquire)  # the one that is left may not know yet
    for call in (held.verify, lambda: holder.try_acquire("another")):
        began = boot_time()
        with taking(1.0), pytest.raises(recipes.StoreUnavailable):
            call()
        lab.figure(f"without a quorum a call fails in {boot_time() - began:.2f} s")
    with taking(0.75), pytest.raises(recipes.LockTimeout):
        holder.acquire("another", timeout=0.5)
    assert held.held
    assert held.wait_lost(2 * QUORUM_SESSION_S)
    late_s = told.result(5) - held.deadline
    lab.figure(f"loss told {1000 * late_s:.1f} ms after the local deadline")
    assert 0 <= late_s <= 0.5 + lab.pace.late_s(held.deadline)
    with taking(1.0), pytest.raises(recipes.StoreUnavailable):
        holder.try_acquire("another")

    lab.once(lab.server.start)
    back_at = boot_time()
    last_one = lab.client(session_timeout=QUORUM_SESSION_S).start_acquire(lab.name)
    (granted,), (waiting,) = wait((next_one, last_one), 60, FIRST_COMPLETED)
    first = granted.result()
    # ZooKeeper starts every session anew, that of the former holder too.
    bound_s = lab.failover_after_s(QUORUM_SESSION_S) + BACK_S
    assert boot_time() - back_at <= bound_s + lab.pace.late_s(back_at)
    lab.figure(f"granted {boot_time() - back_at:.2f} s after the members were started again")
    assert first.token > held.token
    assert first.verify()
    assert not waiting.done()
    assert not held.held
    assert not held.release()
    assert first.release()
    assert waiting.result(20).token > first.token


@pytest.mark.long
@pytest.mark.hub
@on_clusters(known=("the follower", "all members"))
def test_fault_39_follower_cut_off_with_the_client_attached_to_it(lab: ClusterLab, known: str) -> None:
    cluster = lab.server
    leader = cluster.leader()
    follower, third = cluster.others(leader)
    if known == "the follower":
        victim = lab.client(follower, session_timeout=CUT_SESSION_S)
    else:
        victim = lab.attached(follower, session_timeout=CUT_SESSION_S).actor
    rival = lab.client(leader, third, session_timeout=CUT_SESSION_S)
    held = victim.acquire(lab.name)
    told = told_at(held)
    waiting = rival.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    (contender, _) = lab.contenders()
    with still_believing(follower) as believes:
        cut_at = lab.once(lambda: cluster.cut_off(follower))
        if known == "the follower":
            granted = waiting.result(40)
            granted_at = boot_time()
            assert believes(contender), (
                "the member that is cut off should not know that the session has ended"
            )
    if known == "all members":
        assert lab.renewed_since(held, cut_at, CUT_SESSION_S)
        assert lab.when_served(held.verify)
        assert not lab.seen.of("session.lost")
        assert not waiting.done()
        assert held.release()
        granted = waiting.result(20)
    else:
        assert held.deadline <= granted_at  # S2
        assert not held.held
        late_s = told.result(5) - held.deadline
        lab.figure(f"loss told {granted_at - told.result(5):.2f} s before the next holder had it")
        assert 0 <= late_s <= 0.5 + lab.pace.late_s(held.deadline)  # L7
        bound_s = lab.failover_after_s(CUT_SESSION_S) + ELECTION_S
        assert granted_at - cut_at <= bound_s + lab.pace.late_s(cut_at)
    assert granted.token > held.token
    lab.once(cluster.hub.heal)
    assert lab.when_served(granted.verify)
    assert not held.held
    assert granted.release()
    assert lab.when_served(lambda: victim.acquire(lab.name, timeout=30)).token > granted.token


@contextmanager
def still_believing(member: Any) -> Iterator[Callable[[str], bool]]:
    """Yield what asks ``member`` alone, without the others, whether a contender is there."""
    if isinstance(member, servers.ZooKeeper):
        with servers.kazoo_client(member, timeout_s=30) as client:
            yield lambda path: client.exists(path) is not None
        return

    def read(key: str) -> bool:
        found = member.ask("/v3/kv/range", {"key": encoded(key), "serializable": True})
        return bool(found.get("kvs"))

    yield read
