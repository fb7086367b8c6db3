"""Fault 41 on clusters: a create arrives by the member that its session has left.

etcd refuses it by what the client left behind. On ZooKeeper the leader does, since the session has moved;
and a member closes the former connection of a session that comes back to it.
"""

from __future__ import annotations

from integration import servers
from integration.clusters.labs import ClusterLab, on_clusters
from integration.faults.looking import creates

SOON_S = 15.0
LANDS_S = 1.0


@on_clusters(back=(False, True))
def test_fault_41_a_create_arrives_by_the_member_that_was_left(lab: ClusterLab, back: bool) -> None:
    member = lab.server.others(lab.server.leader())[0]
    one = lab.attached(member)
    one.actor.acquire(lab.name).release()
    trap = one.at.hold_request(match=creates(member))
    held = one.actor.acquire(lab.name, timeout=SOON_S)
    assert trap.sprung.is_set()
    assert one.requests_elsewhere()
    assert held.verify()
    assert held.release()
    if back:
        for proxy in one.others():
            proxy.cut()
        assert one.actor.acquire(lab.name, timeout=SOON_S).release()
    assert servers.eventually(lambda: one.actor.client.pending_cleanups == 0, SOON_S)
    assert lab.contenders_become(0)

    one.at.release(trap)
    assert not servers.eventually(lab.contenders, LANDS_S), "a contender that nobody owns"
    for proxy in one.others():
        proxy.heal()
    for actor in (lab.client(), one.actor):
        held = actor.acquire(lab.name, timeout=SOON_S)
        assert len(lab.contenders()) == 1
        assert held.release()
    assert not lab.seen.of("session.lost")
