"""The connection is cut: shorter than the session, longer, and for nine tenths of it."""

from __future__ import annotations

import threading
from concurrent.futures import Future

import pytest

import recipes
from integration import servers
from integration.faults.actors import Actor, Held
from integration.faults.labs import LASTING_S, REQUEST_S, SESSION_S, Lab, at_once
from integration.faults.looking import hold_fault
from integration.harness.process import eventually
from recipes._run.clock import boot_time


@at_once()
def test_fault_05_cut_shorter_than_the_session(lab: Lab) -> None:
    session_s = 12.0  # so that the periodic re-read, 7 s and more, is not what wakes the waiter
    options = {"session_timeout": session_s, "request_timeout": 5.0}  # a reconnect may back off for a second
    holder, waiter = (lab.actor(proxied=True, **options) for _ in range(2))
    held = holder.acquire(lab.name)
    next_one = waiter.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    last_one = lab.actor(session_timeout=session_s).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=2)
    standing = lab.contenders()

    lab.proxy.cut()
    hold_fault(1.0)
    lab.proxy.heal()

    assert held.held
    assert held.verify()  # waits until it is connected again
    hold_fault(1.2)  # within this the waiter has watched again
    assert lab.contenders() == standing
    assert not next_one.done()
    assert not last_one.done()
    released_at = boot_time()
    assert held.release()
    granted = next_one.result(20)
    took_s = boot_time() - released_at
    lab.figure(f"hand-over {1000 * took_s:.1f} ms after a cut of 1 s")
    assert took_s < 2.5 + lab.pace.late_s(released_at)  # told by a watch: it reads again later than that
    assert not last_one.done()
    assert granted.release()
    assert last_one.result(20).token > granted.token > held.token
    for event in ("lock.lost", "lock.requeued"):
        assert not lab.seen.of(event, name=lab.name)
    assert not lab.seen.of("session.lost")


@at_once(how=("cut", "blackhole"))
def test_fault_06_cut_longer_than_the_session(lab: Lab, how: str) -> None:
    held = lab.actor(proxied=True).acquire(lab.name)
    next_one = lab.actor(proxied=True).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=1)
    last_one = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name, position=2)
    granted_at: list[float] = []
    last_one.add_done_callback(lambda _: granted_at.append(boot_time()))
    told = told_at(held)

    getattr(lab.proxy, how)()
    cut_at = boot_time()

    assert held.wait_lost(20)
    assert not held.held
    late_s = told.result(5) - held.deadline
    lab.figure(f"loss told {1000 * late_s:.1f} ms after the local deadline")
    assert 0 <= late_s <= 0.5 + lab.pace.late_s(held.deadline)  # L7, with nothing healed yet
    # A re-read that is under way keeps the waiter for a request timeout at most.
    lab.seen.wait("lock.requeued", name=lab.name, within_s=SESSION_S + REQUEST_S + 5)
    # The store frees the lock at its own time, and the waiter has lost its place.
    passed_on = last_one.result(30)
    assert eventually(lambda: granted_at, 5)
    assert granted_at[0] - cut_at <= lab.failover_s + lab.pace.late_s(cut_at)  # L1
    assert not next_one.done()

    lab.proxy.heal()
    lab.seen.wait("lock.queued", name=lab.name, attempt=2)
    assert not next_one.done()
    assert passed_on.verify()
    assert passed_on.release()
    assert next_one.result(20).token > passed_on.token > held.token
    assert held.release() is False
    assert held.verify() is False
    assert len(lab.seen.of("lock.lost", name=lab.name)) == 1


def told_at(held: Held) -> Future[float]:
    """Return when the loss is told to a callback, which happens once."""
    told: Future[float] = Future()
    held.grant.lost.add_callback(lambda _: told.set_result(boot_time()))  # a second time would raise
    return told


@at_once(how=("cut", "blackhole"))
def test_fault_40_cut_for_most_of_the_session(lab: Lab, how: str) -> None:
    holder = lab.actor(proxied=True)
    held = holder.acquire(lab.name)
    waiting = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    assert lab.contenders_become(2)

    getattr(lab.proxy, how)()
    cut_at = boot_time()
    hold_fault(0.9 * SESSION_S)
    assert held.held is False  # given up, a little before the store may have
    lab.proxy.heal()

    granted = waiting.result(30)
    granted_at = boot_time()
    lab.figure(f"{how} of {0.9 * SESSION_S} s: next holder {granted_at - cut_at:.2f} s after it began")
    assert granted_at - cut_at <= lab.failover_s + lab.pace.late_s(cut_at)
    assert lab.contenders_become(1)

    over = boot_time() + 1.5 * SESSION_S  # all that was held back, and all reconnects, lie before that
    while boot_time() < over:
        assert held.held is False
        assert held.grant.lost.is_set()
        hold_fault(0.05)
    assert held.verify() is False
    assert held.release() is False
    assert granted.held
    assert granted.verify()
    assert granted.release()
    again = holder.acquire(lab.name, timeout=20)  # the client goes on, with another session
    assert again.token > granted.token
    assert not held.held


@pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True)
def test_fault_40_a_try_to_connect_again_that_arrives_late_ends_the_session(lab: Lab) -> None:
    """ZooKeeper takes it for a sign of life, whoever has given up since."""
    holder = lab.actor(proxied=True, session_timeout=40.0)
    assert holder.acquire(lab.name).held
    zookeeper = holder.client._runtime.state.session.connection._session
    session, handler = f"{zookeeper._client.client_id[0]:#x}", zookeeper._handler

    lab.proxy.blackhole()
    lab.proxy.reset()
    assert eventually(lambda: lab.proxy.connections and handler._unheard and handler._asked_at, 20)
    holder.close()  # there is no answer to wait for
    assert eventually(lambda: handler._socket.fileno() < 0, 20)
    assert session in servers.sessions(lab.server)
    lab.proxy.heal()

    assert eventually(lambda: session not in servers.sessions(lab.server), 20)
    assert lab.contenders_become(0)


@at_once(how=("cut", "blackhole"), timeout_s=(0.3, 1.0))
def test_promise_l6_timeouts_are_kept_with_a_silent_store(lab: Lab, how: str, timeout_s: float) -> None:
    session_s = 15.0  # it does not end meanwhile
    known, waiting = (lab.actor(proxied=True, session_timeout=session_s) for _ in range(2))
    fresh = lab.actor(proxied=True, is_open=False, session_timeout=session_s)
    held = lab.actor(session_timeout=session_s).acquire("held")
    known.acquire("free").release()
    took_s: list[float] = []
    beyond_s: list[float] = []  # but for what the machine was late by

    def expire(one: Actor, name: str) -> None:
        began = boot_time()
        try:
            one.acquire(name, timeout=timeout_s)
        except recipes.LockTimeout:
            took_s.append(boot_time() - began)
            beyond_s.append(took_s[-1] - timeout_s - lab.pace.late_s(began))

    getattr(lab.proxy, how)()
    attempts = ((known, "free"), (fresh, "free"), (waiting, "held"))
    threads = [threading.Thread(target=expire, args=attempt) for attempt in attempts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(took_s) == len(threads)
    lab.figure(f"{1000 * (max(took_s) - timeout_s):.0f} ms late at most")
    assert timeout_s <= min(took_s)
    assert max(beyond_s) <= 0.25

    lab.proxy.heal()
    assert lab.contenders_become(1)
    assert held.verify()
