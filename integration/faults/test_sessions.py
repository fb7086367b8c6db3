"""Sessions that the store ends, moves or numbers in a way that no client can ask for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from integration import servers
from integration.faults.labs import Lab, at_once
from integration.faults.looking import hold_fault
from integration.harness.embedded import LAST, EmbeddedZooKeeper
from integration.needing import needed
from recipes._run.clock import boot_time
from tests.histories.checks import Visit, faults

SOON_S = 20.0
LONG_S = 9.0  # a renewal comes after 3 s, the periodic re-read after 6.3 s and more
HEARD_S = 5.0
NODE = "nightly%2Fjob"  # as the name is encoded
CROWD = 12


@pytest.fixture(scope="module")
def embedded() -> Iterator[EmbeddedZooKeeper]:
    """Yield a ZooKeeper with a control channel, started once."""
    with needed("the embedded ZooKeeper", EmbeddedZooKeeper) as one:
        yield one


@pytest.fixture(params=["etcd34", "etcd35", "etcd_grpc", "embedded"])
def server(request: pytest.FixtureRequest) -> servers.Server:
    """Return each server on which sessions can be ended from outside."""
    one: servers.Server = request.getfixturevalue(request.param)
    return one.start()


def end(server: servers.Server, session: str) -> None:
    """End a session on the store, behind its client's back."""
    if isinstance(server, servers.Etcd):
        server.revoke(str(int(session, 16)))
    else:
        assert isinstance(server, EmbeddedZooKeeper)
        server.expire(session)


def path(lab: Lab) -> str:
    """Return the node of the lab's lock."""
    return f"/{lab.prefix}/{NODE}"


@at_once(asked=(False, True))
def test_fault_15_session_ended_on_the_server(lab: Lab, asked: bool) -> None:
    one = lab.actor(session_timeout=LONG_S)
    held, also = one.acquire(lab.name), one.acquire("another")
    waiting = lab.actor(session_timeout=LONG_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    session = one.client.session.id
    renewal_s = one.client.session.timeout / held.grant._hold.session.protocol.renewals_per_ttl

    end(lab.server, session)
    ended_at = boot_time()
    if asked:
        assert held.verify() is False
        assert held.held is False
    for each in (held, also):  # what nobody verifies is told by the next renewal
        assert each.wait_lost(SOON_S)
        assert boot_time() - ended_at <= renewal_s + 0.5 + lab.pace.late_s(ended_at)
        assert each.held is False
    lab.figure(f"told {boot_time() - ended_at:.2f} s after the session was ended")
    assert held.grant.lost_reason
    assert held.verify() is False
    assert held.release() is False
    granted = waiting.result(SOON_S)
    assert granted.token > held.token
    assert granted.verify()
    lab.seen.wait("lock.lost", count=2)
    assert len(lab.seen.of("lock.lost", name=lab.name)) == 1
    assert one.acquire("another", timeout=SOON_S).token > also.token  # with another session
    assert one.client.session.id != session
    assert not also.held


@at_once()
def test_fault_18_session_expired_while_waiting(lab: Lab) -> None:
    held = lab.actor(session_timeout=LONG_S).acquire(lab.name)
    waiter = lab.actor(session_timeout=LONG_S)
    waiting = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    behind = lab.actor(session_timeout=LONG_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=2)

    end(lab.server, waiter.client.session.id)
    lab.seen.wait("lock.requeued", name=lab.name, within_s=HEARD_S)  # not by reading again
    lab.seen.wait("lock.queued", name=lab.name, attempt=2)
    assert lab.contenders_become(3)
    assert held.release()
    second = behind.result(SOON_S)
    assert not waiting.done()  # at the tail
    assert second.verify()
    assert second.release()
    third = waiting.result(SOON_S)
    assert third.token > second.token > held.token
    assert third.verify()
    assert len(lab.seen.of("lock.requeued")) == 1


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@at_once()
def test_fault_18_session_moved(lab: Lab) -> None:
    assert isinstance(lab.server, EmbeddedZooKeeper)
    holder, waiter = (lab.actor(session_timeout=LONG_S, request_timeout=3) for _ in range(2))
    held = holder.acquire(lab.name)
    waiting = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    standing = lab.contenders()
    sessions = [one.client.session.id for one in (holder, waiter)]
    for session in sessions:
        lab.server.move(session)
    hold_fault(1.5)  # renewals are refused, and the connections are closed each time
    assert held.held
    for session in sessions:
        lab.server.move_back(session)
    assert held.verify()
    assert lab.contenders() == standing
    assert [one.client.session.id for one in (holder, waiter)] == sessions
    assert held.release()
    assert waiting.result(SOON_S).verify()
    for event in ("session.lost", "lock.lost", "lock.requeued"):
        assert not lab.seen.of(event)


@pytest.mark.parametrize("server", ["embedded"], indirect=True)
@at_once(start=(LAST - 4, -4 - LAST // 2, -5))
def test_fault_20_sequence_counter_at_its_end(lab: Lab, start: int) -> None:
    """It sticks at its end, or has wrapped, and then counts up to zero."""
    assert isinstance(lab.server, EmbeddedZooKeeper)
    clients = [lab.actor(session_timeout=LONG_S) for _ in range(4)]  # none has to queue again
    held = clients[0].acquire(lab.name)  # at 0, before all that follow
    lab.server.count_from(path(lab), start)
    visits: list[Visit] = []
    inside = threading.Lock()
    first = Visit(True, held.token, boot_time(), boot_time(), 0.0)
    waiting = []
    for number in range(CROWD):
        one = clients[number % len(clients)]
        asked = boot_time()
        call = one.start_acquire(lab.name)
        lab.seen.wait("lock.queued", name=lab.name, count=number + 1)
        waiting.append((asked, call))
    numbers = [int(one.rpartition("lock-")[2]) for one in lab.contenders()]
    lab.figure(f"numbers {sorted(numbers)}")
    assert min(numbers) < 0 or len(set(numbers)) < len(numbers)
    visits.append(Visit(True, held.token, first.asked, first.granted, boot_time()))
    assert held.release()
    for asked, call in waiting:
        one = call.result(2 * SOON_S)  # in order of arrival, L3
        granted = boot_time()
        assert inside.acquire(blocking=False), "two hold at once"
        assert one.verify()
        hold_fault(0.01)
        assert sum(call.done() for _, call in waiting) == len(visits)
        inside.release()
        visits.append(Visit(True, one.token, asked, granted, boot_time()))
        assert one.release()
    assert faults(visits) == []
    assert lab.actor().try_acquire(lab.name) is not None
