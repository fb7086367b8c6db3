"""One member is dead, silent or takes no connections: clients go to another, and keep their locks."""

from __future__ import annotations

import pytest

from integration.clusters.labs import SESSION_S, ClusterLab, on_clusters
from integration.faults.looking import taking
from integration.harness.hub import HERE
from integration.harness.process import eventually
from recipes._run.clock import boot_time

REQUEST_S = 5.0
RESTARTS_SESSION_S = 12.0
"""Of a session that is to last while one member after the other is away: longer than an election takes."""
SOON_S = 2.0
TOLD_S = 1.0


def patience(lab: ClusterLab) -> dict[str, float]:
    """Return the timeouts of a client whose way falls silent."""
    longer = 2 if lab.server.scheme == "zookeeper" else 1  # it leaves a silent way after a third of a session
    return {"session_timeout": longer * SESSION_S, "request_timeout": longer * REQUEST_S}


@on_clusters(how=("cut", "blackhole"))
def test_the_member_in_use_goes_away(lab: ClusterLab, how: str) -> None:
    follower = lab.server.others(lab.server.leader())[0]
    options = patience(lab)
    request_s = options["request_timeout"]
    holder, waiter, joiner = (lab.attached(follower, **options) for _ in range(3))
    held = holder.actor.acquire(lab.name)
    waiting = waiter.actor.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)

    for one in (holder, waiter, joiner):
        getattr(one.at, how)()
    gone_at = boot_time()

    with taking(request_s / 2):  # of the first call that finds out; those after it know
        assert joiner.actor.acquire("another").release()
    lab.figure(f"the first call took {boot_time() - gone_at:.2f} s (of {request_s:g} s at most)")
    with taking(SOON_S):
        assert joiner.actor.acquire("another").release()
    assert lab.renewed_since(held, gone_at)
    assert held.held
    assert not waiting.done()
    assert holder.requests_elsewhere()
    assert eventually(waiter.requests_elsewhere, request_s)  # it renews at moments of its own
    released_at = boot_time()
    assert held.release()
    granted = waiting.result(20)
    took_s = boot_time() - released_at
    lab.figure(f"hand-over {1000 * took_s:.1f} ms, all on other members")
    assert took_s < TOLD_S + lab.pace.late_s(released_at)  # told by a watch that has moved as well
    assert granted.token > held.token
    for event in ("lock.lost", "lock.requeued", "session.lost"):
        assert not lab.seen.of(event)


@on_clusters()
def test_members_go_away_one_after_the_other_and_come_back(lab: ClusterLab) -> None:
    holder = lab.attached(lab.server.members[0], session_timeout=6.0)
    held = holder.actor.acquire(lab.name)
    for proxy in [*holder.proxies.values(), holder.at]:
        gone_at = boot_time()
        proxy.cut()
        assert lab.renewed_since(held, gone_at)
        with taking(1.0):
            assert held.verify()
        proxy.heal()
    assert not lab.seen.of("session.lost")
    assert held.release()


@pytest.mark.long
@pytest.mark.hub
@on_clusters()
def test_a_member_takes_no_connections(lab: ClusterLab) -> None:
    cluster = lab.server
    follower = cluster.others(cluster.leader())[0]
    options = patience(lab)
    holder = lab.client(follower, *cluster.others(follower), **options)
    held = holder.acquire(lab.name)
    gone_at = lab.once(
        lambda: cluster.hub.cut(HERE, cluster.members.index(follower) + 1)
    )  # what is sent is dropped
    for _ in range(3):  # ZooKeeper's clients begin with any
        with taking(options["request_timeout"]):
            late = lab.client(follower, *cluster.others(follower), **options)
            assert late.acquire("another").release()
    lab.figure(f"three clients opened in {boot_time() - gone_at:.2f} s")
    assert lab.renewed_since(held, gone_at)
    assert held.release()
    assert not lab.seen.of("session.lost")
    lab.once(cluster.hub.heal)


@pytest.mark.long
@on_clusters()
def test_fault_10_every_member_is_restarted_in_turn(lab: ClusterLab) -> None:
    holder, waiter = (lab.client(session_timeout=RESTARTS_SESSION_S) for _ in range(2))
    held = holder.acquire(lab.name)
    waiting = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    for member in lab.server.members:
        restarted_at = lab.once(member.restart)
        assert lab.renewed_since(held, restarted_at)
        assert lab.when_served(held.verify)
    assert held.held
    assert not waiting.done()
    for event in ("lock.lost", "lock.requeued", "session.lost"):
        assert not lab.seen.of(event)
    assert held.release()
    assert waiting.result(20).token > held.token
