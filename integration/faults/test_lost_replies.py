"""The store did it, and the client never heard: creates, deletes, and a session's start and end."""

from __future__ import annotations

import pytest

import recipes
from integration import servers
from integration.faults.labs import LASTING_S, REQUEST_S, Lab, at_once
from integration.faults.looking import creates, deletes, ends, keepalives, opens, taking, token_of
from integration.harness.wire import Match

LOSSES = (False, True)
SOON_S = 20


@at_once(silent=LOSSES)
def test_fault_12_reply_to_create_lost_and_the_lock_is_free(lab: Lab, silent: bool) -> None:
    client = lab.actor(proxied=True, session_timeout=LASTING_S)
    first = client.acquire(lab.name)
    assert first.release()

    trap = lab.proxy.drop_reply(match=creates(lab.server), silent=silent)
    held = client.acquire(lab.name, timeout=SOON_S)

    assert trap.sprung.is_set()
    (own,) = lab.contenders()  # one, and it is the one that was made first
    assert held.token == token_of(lab.server, own) > first.token
    assert held.verify()
    assert lab.actor().try_acquire(lab.name) is None
    assert held.release()
    assert lab.contenders_become(0)


@at_once(silent=LOSSES)
def test_fault_12_reply_to_create_lost_in_a_queue(lab: Lab, silent: bool) -> None:
    held = lab.actor(session_timeout=LASTING_S).acquire(lab.name)
    waiter = lab.actor(proxied=True, session_timeout=LASTING_S)
    trap = lab.proxy.drop_reply(match=creates(lab.server), silent=silent)
    waiting = waiter.start_acquire(lab.name)

    lab.seen.wait("lock.queued", name=lab.name, position=1)
    assert trap.sprung.is_set()
    standing = lab.contenders()
    assert len(standing) == 2
    last_one = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=2)
    assert held.release()
    granted = waiting.result(SOON_S)
    assert granted.token == token_of(lab.server, next(path for path in lab.contenders() if path in standing))
    assert not last_one.done()
    assert granted.release()
    assert last_one.result(SOON_S).token > granted.token
    assert len(lab.contenders()) == 1


@at_once()
def test_fault_12_create_lands_after_the_caller_has_left(lab: Lab) -> None:
    client = lab.actor(proxied=True)
    client.acquire(lab.name).release()

    trap = lab.proxy.hold_request(match=creates(lab.server))
    for _ in range(SOON_S):
        with pytest.raises(recipes.LockTimeout):
            client.acquire(lab.name, timeout=0.2)
        if trap.sprung.wait(1):  # else it had no time left to ask
            break
    assert trap.sprung.is_set()
    if isinstance(lab.server, servers.Etcd):  # ZooKeeper's withdrawal waits behind the create
        assert servers.eventually(lambda: client.client.pending_cleanups == 0, SOON_S)
    lab.proxy.release(trap)

    assert trap.gate.landed.wait(SOON_S)
    assert servers.eventually(lambda: client.client.pending_cleanups == 0, SOON_S)
    other = lab.actor()
    assert lab.contenders_become(0)
    held = other.acquire(lab.name, timeout=5)  # nobody stands in its way, now or a moment later
    assert held.verify()
    assert len(lab.contenders()) == 1


@at_once(silent=LOSSES)
def test_fault_13_reply_to_delete_lost(lab: Lab, silent: bool) -> None:
    client = lab.actor(proxied=True, session_timeout=LASTING_S)
    held = client.acquire(lab.name)
    waiting = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)

    trap = lab.proxy.drop_reply(match=deletes(lab.server), silent=silent)
    with taking(REQUEST_S + 0.25):
        assert held.release() is True  # it was held, and the lock is given back

    assert trap.sprung.is_set()
    granted = waiting.result(SOON_S)
    assert servers.eventually(lambda: client.client.pending_cleanups == 0, SOON_S)
    assert held.release() is False
    assert granted.verify()  # asking again deleted nobody else's
    (own,) = lab.contenders()
    assert token_of(lab.server, own) == granted.token
    assert not lab.seen.of("lock.lost", name=lab.name)


@at_once(silent=LOSSES)
def test_fault_14_reply_to_a_try_lost(lab: Lab, silent: bool) -> None:
    client = lab.actor(proxied=True, request_timeout=2)
    client.acquire(lab.name).release()

    trap = lab.proxy.drop_reply(match=creates(lab.server), silent=silent)
    try:
        held = client.try_acquire(lab.name)
    except recipes.StoreUnavailable:  # it waits for one request timeout, and there was silence
        held = None
        if not silent:
            raise
    assert trap.sprung.is_set()
    if held is None:
        assert lab.contenders_become(0)
    else:
        (own,) = lab.contenders()
        assert held.token == token_of(lab.server, own)
        assert held.release()
        assert lab.contenders_become(0)


@at_once(silent=LOSSES, which=("first", "second"))
def test_fault_14_reply_to_the_start_of_a_session_lost(lab: Lab, silent: bool, which: str) -> None:
    # ZooKeeper has no second request, and its orphan has no name by which it could be ended.
    etcd = isinstance(lab.server, servers.Etcd)
    match: Match = creates(lab.server) if etcd and which == "second" else opens(lab.server)
    before = servers.sessions(lab.server)
    lab.together.wait()
    trap = lab.proxy.drop_reply(match=match, silent=silent)
    client = lab.actor(proxied=True, is_open=False, session_timeout=15 if etcd else 8.0)
    held = client.acquire(lab.name, timeout=30)

    assert trap.sprung.is_set()
    assert held.verify()
    assert len(lab.contenders()) == 1
    lab.together.wait()
    used = lab.together.parties
    # Ended on etcd, long before its time; ZooKeeper's ends by itself.
    within_s = 5 if etcd else 8 + SOON_S
    assert servers.eventually(lambda: len(servers.sessions(lab.server) - before) == used, within_s)
    assert held.verify()
    lab.together.wait()


@at_once(silent=LOSSES)
def test_fault_14_reply_to_a_renewal_lost(lab: Lab, silent: bool) -> None:
    session_s = 12.0  # of a short session a silent renewal leaves too little for another
    held = lab.actor(proxied=True, session_timeout=session_s).acquire(lab.name)
    trap = lab.proxy.drop_reply(match=keepalives(lab.server), silent=silent)
    assert trap.sprung.wait(SOON_S)
    before = held.deadline
    assert servers.eventually(lambda: held.deadline > before, session_s)  # renewed by another
    assert held.verify()
    for event in ("session.lost", "lock.lost"):
        assert not lab.seen.of(event)


@at_once(silent=LOSSES)
def test_fault_14_reply_to_the_end_of_a_session_lost(lab: Lab, silent: bool) -> None:
    before = servers.sessions(lab.server)
    lab.together.wait()
    client = lab.actor(proxied=True, session_timeout=15)
    client.acquire(lab.name)
    trap = lab.proxy.drop_reply(match=ends(lab.server), silent=silent)
    with taking(5):
        client.call(client.client.close)
    assert trap.sprung.is_set()
    assert lab.contenders() == []
    lab.together.wait()
    assert servers.eventually(lambda: not servers.sessions(lab.server) - before, 5)
    lab.together.wait()
