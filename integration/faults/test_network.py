"""The network drops one direction, or is slow; the whole store is stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import recipes
from integration import servers
from integration.faults.labs import LASTING_S, SESSION_S, Lab, at_once
from integration.faults.looking import hold_fault, keepalives, taking
from integration.faults.test_connection import told_at
from integration.faults.workers import Worker
from integration.harness.netns import Network
from integration.lateness import PutOff
from integration.needing import needed
from integration.proxy import Proxy
from recipes._run.clock import boot_time

SOON_S = 20.0
STOP_S = 8.0
STOPPED_SESSION_S = 6.0  # of a holder that is to live until the stop, and to end within it


@pytest.mark.long
@at_once()
def test_fault_04_stop_of_the_whole_store(lab: Lab) -> None:
    held = lab.actor(session_timeout=STOPPED_SESSION_S).acquire(lab.name)
    waiting = lab.actor().start_acquire(lab.name, timeout=60)
    lab.seen.wait("lock.queued", name=lab.name)
    fresh = lab.actor()
    told = told_at(held)
    if lab.together.wait() == 0:
        lab.server.pause()
    lab.together.wait()
    stopped_at = boot_time()

    assert held.wait_lost(SOON_S)
    late_s = told.result(5) - held.deadline
    lab.figure(f"loss told {1000 * late_s:.0f} ms after the local deadline")
    assert 0 <= late_s <= 0.5 + lab.pace.late_s(held.deadline)
    assert held.held is False
    with taking(1.25, at_least_s=1.0), pytest.raises(recipes.LockTimeout):
        fresh.acquire("another", timeout=1.0)
    hold_fault(stopped_at + STOP_S - boot_time())
    assert not waiting.done()
    late = PutOff(lab.server.pid)
    if lab.together.wait() == 0:
        lab.server.resume()
    lab.together.wait()
    resumed_at = boot_time()

    granted = waiting.result(40)
    took_s = boot_time() - resumed_at
    lab.figure(f"granted {took_s:.2f} s after SIGCONT of the store")
    late_s = lab.pace.late_s(resumed_at) + late.seconds
    assert took_s <= lab.failover_s + 1 + late_s  # its session was over before that
    assert granted.token > held.token
    assert granted.verify()
    assert held.release() is False
    assert held.verify() is False
    assert len(lab.seen.of("lock.lost", name=lab.name)) == 1
    assert lab.contenders_become(1)


@at_once(way=("up", "down"))
def test_fault_07_08_one_direction_dropped(lab: Lab, way: str) -> None:
    held = lab.actor(proxied=True).acquire(lab.name)
    caller = lab.actor(proxied=True)
    last_one = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    told = told_at(held)
    assert lab.proxy.expect(keepalives(lab.server)).sprung.wait(SOON_S)

    lab.proxy.blackhole("up" if way == "up" else "down")
    cut_at = boot_time()
    with taking(1.25), pytest.raises(recipes.LockTimeout):  # L6; its create lands if ``way`` is down
        caller.acquire("another", timeout=1.0)
    granted = last_one.result(30)
    granted_at = boot_time()

    assert held.held is False
    assert held.deadline <= cut_at + SESSION_S - 0.5  # no send since then was answered
    assert 0 <= told.result(5) - held.deadline <= 0.5 + lab.pace.late_s(held.deadline)  # L7
    assert held.deadline <= granted_at  # S2
    lab.figure(f"{way}: next holder {granted_at - cut_at:.2f} s after it began")
    # The servers, too, share this machine with other tests.
    assert granted_at - cut_at <= lab.failover_s + 1.0 + lab.pace.late_s(cut_at)
    lab.proxy.heal()
    assert lab.contenders_become(1)  # nothing of the call that timed out, nor of the old session
    assert held.release() is False
    assert granted.verify()


@pytest.fixture
def network() -> Iterator[Network]:
    """Yield a network of its own for a client; skips without root, which in CI is a failure."""
    with needed("a network namespace", Network) as one:
        yield one


@pytest.mark.long
@pytest.mark.parametrize("towards", ["here", "there"])
def test_fault_07_08_one_direction_dropped_by_the_network(lab: Lab, network: Network, towards: str) -> None:
    lab.session_s = 6.0
    with (
        Proxy.of(lab.server, at=network.here) as way,
        Worker("faults.worker", lab.api, way.url(lab.prefix), lab.session_s, wrap=network.command) as holder,
    ):
        token = holder.ask("acquire", lab.name, SOON_S)
        waiting = lab.actor(session_timeout=LASTING_S).start_acquire(lab.name)
        lab.seen.wait("lock.queued", name=lab.name)
        hold_fault(lab.session_s)  # some renewals get through
        assert holder.ask("state")["held"] is True
        late = [PutOff(one.pid) for one in (holder, lab.server)]
        network.drop(towards=towards)
        cut_at = boot_time()
        granted = waiting.result(30)
        granted_at = boot_time()
        assert holder.ask("state")["held"] is False
        assert servers.eventually(lambda: holder.ask("lost_at") is not None, SOON_S)
        lost_at = holder.ask("lost_at")
        holder_late_s, server_late_s = (one.seconds for one in late)
        lab.figure(f"lost {lost_at - cut_at:.2f} s, next holder {granted_at - cut_at:.2f} s after it began")
        assert lost_at <= cut_at + lab.session_s + holder_late_s
        assert holder.ask("deadline") <= granted_at  # S2
        assert lost_at <= granted_at + holder_late_s
        # The kernel's own repeats of what was sent before may reach the server a little later; where only
        # its answers are dropped, so does the renewal that is due next, a third of the session later at most.
        renewed_s = lab.session_s / 3 if towards == "there" else 0.0
        allowed_s = lab.failover_s + renewed_s + 0.5 + lab.pace.late_s(cut_at) + server_late_s
        assert granted_at - cut_at <= allowed_s
        network.heal()
        assert holder.ask("release", within_s=SOON_S) is False
        assert granted.verify()
        assert granted.token > token
        assert granted.release()
        assert holder.ask("acquire", lab.name, 30) > granted.token  # it finds its way back
        assert holder.ask("release") is True


@pytest.mark.long
@at_once()
def test_fault_09_slow_network(lab: Lab) -> None:
    session_s = 10.0
    options = {"session_timeout": session_s, "request_timeout": 4.0}
    lab.proxy.delay(0.275, jitter=0.225)  # 50 to 500 ms, each way
    holder, waiter = (lab.actor(proxied=True, **options) for _ in range(2))
    held = holder.acquire(lab.name)
    for timeout_s in (0.3, 1.0):
        with taking(timeout_s + 0.25, at_least_s=timeout_s), pytest.raises(recipes.LockTimeout):
            waiter.acquire(lab.name, timeout=timeout_s)  # L6
    waiting = waiter.start_acquire(lab.name, timeout=60)
    hold_fault(1.5 * session_s)
    assert held.held
    assert held.verify()
    assert not waiting.done()
    released_at = boot_time()
    assert held.release() is True
    granted = waiting.result(SOON_S)
    lab.figure(f"hand-over {boot_time() - released_at:.2f} s over 50 to 500 ms each way")
    assert granted.token > held.token
    assert granted.release() is True
    for event in ("lock.lost", "session.lost", "lock.requeued"):
        assert not lab.seen.of(event)
    lab.proxy.heal()
    assert lab.contenders_become(0)
