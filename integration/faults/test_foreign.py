"""Fault 31: what others put among the contenders: malformed, foreign, unknown, without a session."""

from __future__ import annotations

import pytest

import recipes
from integration import servers
from integration.faults.labs import LASTING_S, Lab, at_once
from integration.faults.looking import hold_fault
from integration.stores import store_on
from recipes._contract.names import encode

pytestmark = [
    pytest.mark.long,
    pytest.mark.parametrize("server", servers.CONSENSUS, indirect=True),
]  # those of Redis are in ``sharing/``
SOON_S = 20.0
SESSION_S = 6.0  # a waiter reads again within that time
DATA = (b"\xff\x00 no text", b"downgraded", b"{" * 1000)


@at_once(kind=("foreign", "orphan", "malformed"))
def test_fault_31_who_is_no_contender_of_ours(lab: Lab, kind: str) -> None:
    """It is waited for if it may be somebody's, never deleted, and told of once."""
    store = store_on(lab.server, lab.prefix)
    try:
        foreign = store.plant(lab.name, kind)
        blocks = kind != "malformed" or store.malformed_blocks
        one = lab.actor(session_timeout=SESSION_S)
        if blocks:
            assert one.try_acquire(lab.name) is None
            for _ in range(3):
                with pytest.raises(recipes.LockTimeout):
                    one.acquire(lab.name, timeout=0.2)
            before = len(lab.seen.of("lock.queued", name=lab.name))  # of those that had the time to queue
            waiting = one.start_acquire(lab.name)
            lab.seen.wait("lock.queued", name=lab.name, count=before + 1)
            hold_fault(SESSION_S + 0.5)  # it reads again, periodically
            assert not waiting.done()
            assert foreign in store.contenders(lab.name)
            told = lab.seen.of("store.stranger")
            store.remove(foreign)
            held = waiting.result(SOON_S)
        else:
            held = one.acquire(lab.name, timeout=SOON_S)
            for _ in range(3):
                assert held.release()
                held = one.acquire(lab.name, timeout=SOON_S)
            assert foreign in store.contenders(lab.name)
            told = lab.seen.of("store.stranger")
            store.remove(foreign)
        assert held.verify()
        # An orphan has no session that could end, so somebody has to see to it.
        wanted = 0 if kind == "foreign" and isinstance(lab.server, servers.Etcd) else 1
        assert len([one for one in told if foreign in str(one.reason)]) == wanted
    finally:
        store.open.close()


@at_once()
def test_fault_31_data_that_mean_nothing(lab: Lab) -> None:
    """Somebody writes into the contenders of a holder and of a waiter: nothing comes of it."""
    held = lab.actor(session_timeout=LASTING_S).acquire(lab.name)
    reader = lab.actor(session_timeout=LASTING_S)
    waiting = reader.start(reader.client.rwlock(lab.name).reader.acquire, timeout=4 * SOON_S)
    lab.seen.wait("lock.queued", name=lab.name)
    behind = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, count=2)
    standing = lab.contenders()
    for data in DATA:
        for contender in standing:
            if data != b"downgraded" or "/R-" in contender or "-R-" in contender:
                write(lab, contender, data)
    hold_fault(LASTING_S)  # all are renewed, and both that wait read again
    assert held.held
    assert held.verify()
    assert not waiting.done()
    assert not behind.done()
    assert held.release()
    shared = waiting.result(SOON_S)
    assert not behind.done()
    assert reader.call(shared.release)
    assert behind.result(SOON_S).verify()
    for event in ("lock.lost", "session.lost", "lock.requeued"):
        assert not lab.seen.of(event)


def write(lab: Lab, contender: str, data: bytes) -> None:
    """Write into a contender, and leave it what it is."""
    if isinstance(lab.server, servers.Etcd):
        from integration.harness.etcd import encoded

        body = {"key": encoded(contender), "value": encoded(data), "ignore_lease": True}
        lab.server.ask("/v3/kv/put", body)
    else:
        assert encode(lab.name) in contender
        with servers.kazoo_client(lab.server) as client:
            client.set(contender, data)
