"""A server that loses what it had, runs full, stands still, or sees another time."""

from __future__ import annotations

import pytest

import recipes
from integration.harness.process import eventually
from integration.redis_faults.conftest import SESSION_S, Lab
from integration.redis_faults.nodes import Clocked
from recipes._run.clock import boot_time
from tests.pace import Pace

SOON_S = 20.0
NOTICED_S = SESSION_S / 3 + 1
"""By the next renewal."""
DAY_S = 86400


def test_fault_47_all_is_flushed_while_a_lock_is_held(lab: Lab) -> None:
    held = lab.client().acquire(lab.name)
    with Pace() as pace:
        began = boot_time()
        lab.server.ask("FLUSHALL")
        other = lab.client().acquire(lab.name, timeout=SOON_S)
        assert other.token > held.token
        assert held.wait_lost(SOON_S)
        assert boot_time() - began < NOTICED_S + pace.late_s(began)
    assert held.release() is False
    assert other.verify()


def test_fault_47_the_keys_of_a_held_lock_are_evicted(lab: Lab) -> None:
    held = lab.client().acquire(lab.name)
    used = int(lab.server.info("memory")["used_memory"])
    lab.server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", used + (1 << 20))
    junk = "x" * (1 << 16)
    numbers = iter(range(1 << 20))

    def evicted() -> bool:
        for _ in range(50):
            lab.server.ask("SET", f"junk:{next(numbers)}", junk)
        return not lab.server.ask("EXISTS", lab.key)

    assert eventually(evicted, SOON_S)
    assert held.wait_lost(SOON_S)
    lab.server.ask("CONFIG", "SET", "maxmemory", 0)
    other = lab.client().acquire(lab.name, timeout=SOON_S)
    assert other.token > held.token
    assert held.release() is False


def test_fault_21_memory_is_used_up(lab: Lab) -> None:
    """What is held is renewed and released, what waits granted, a value deleted; what is new is refused."""
    one, other = lab.client(session_timeout=9.0), lab.client(session_timeout=9.0)
    kept, released, taken = (one.acquire(name) for name in ("kept", "released", "taken"))
    waiting = other.start_acquire("taken")
    party = other.start(other.client.barrier("meeting", 2).wait)
    assert eventually(lambda: len(lab.contenders()) == 5, SOON_S)
    old = one.client.value("old")
    one.call(old.set, b"x")
    lab.server.ask("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(recipes.StoreFull):
        one.acquire("another", timeout=SOON_S)
    with pytest.raises(recipes.StoreFull):
        one.call(one.client.value("v").set, b"new")
    assert one.call(old.delete)
    assert one.call(old.get) is None
    assert eventually(lambda: not one.client.pending_cleanups, SOON_S)
    assert not lab.server.ask("KEYS", "*:x:*"), "what was refused for lack of room leaves no key"
    assert released.release()
    assert not kept.wait_lost(12.0), "it should be renewed"
    assert not waiting.done(), "it looks at the queue now and then, and is not thrown out"
    assert not party.done()
    assert kept.verify()
    assert taken.release()
    assert waiting.result(SOON_S).release()
    lab.server.ask("CONFIG", "SET", "maxmemory", 0)
    assert lab.client().acquire("released", timeout=SOON_S).token > released.token
    assert {one.call(one.client.barrier("meeting", 2).wait), party.result(SOON_S)} == {0, 1}


def test_fault_04_the_server_stands_still_for_longer_than_a_session(lab: Lab) -> None:
    held = lab.client().acquire(lab.name)
    with Pace() as pace:
        lab.server.pause()
        began = boot_time()
        assert held.wait_lost(SOON_S)
        assert boot_time() - began < SESSION_S + 0.5 + pace.late_s(began)
    lab.server.resume()
    other = lab.client().acquire(lab.name, timeout=SOON_S)
    assert other.token > held.token
    assert held.held is False


def test_fault_47_a_restart_without_data_while_a_lock_is_held(lab: Lab) -> None:
    """With a grace nothing is granted before what was held has ended."""
    grace_s = SESSION_S
    held = lab.client(restart_grace=grace_s).acquire(lab.name, timeout=SOON_S)
    lab.server.kill()
    lab.server.wipe()
    started = boot_time()
    lab.server.start()
    lost_at: list[float] = []
    held.grant.lost.add_callback(lambda _: lost_at.append(boot_time()))
    other = lab.client(restart_grace=grace_s).acquire(lab.name, timeout=SOON_S)
    granted_at = boot_time()
    assert eventually(lambda: lost_at, SOON_S)
    assert held.deadline < granted_at
    assert granted_at - started > grace_s - 0.5
    assert other.token > held.token


def test_fault_47_the_next_one_is_granted_at_once_without_a_grace(lab: Lab) -> None:
    """So that the label says it, and it is seen that the grace is what prevents it."""
    held = lab.client(session_timeout=40).acquire(lab.name)  # whose next renewal comes in 13 s
    lab.server.kill()
    lab.server.wipe()
    lab.server.start()
    other = lab.client().acquire(lab.name, timeout=SOON_S)
    both = held.held
    assert both
    assert other.token > held.token
    assert held.wait_lost(SOON_S)


class TestClocks:
    """The server's wall clock is set."""

    @pytest.fixture
    def kind(self) -> type[Clocked]:
        return Clocked

    @pytest.fixture
    def clocked(self, lab: Lab) -> Clocked:
        assert isinstance(lab.server, Clocked)
        return lab.server

    def test_fault_48_set_forward_while_a_lock_is_held(self, lab: Lab, clocked: Clocked) -> None:
        held = lab.client().acquire(lab.name)
        clocked.set_clock(3600)
        other = lab.client().acquire(lab.name, timeout=SOON_S)
        assert other.token > held.token
        assert held.wait_lost(SOON_S)
        clocked.set_clock(0)
        assert other.release() in (True, False)
        assert lab.client().acquire(lab.name, timeout=SOON_S).token > other.token

    def test_fault_48_two_days_ahead_and_put_right_and_a_day_without_use(
        self, lab: Lab, clocked: Clocked
    ) -> None:
        tokens = []
        for ahead_s in (0, 2 * DAY_S, 0, DAY_S + 3600, 2 * DAY_S + 3600, 2 * DAY_S, 4 * DAY_S):
            clocked.set_clock(ahead_s)
            client = lab.client()
            grant = client.acquire(lab.name, timeout=SOON_S)
            tokens.append(grant.token)
            grant.release()
            client.close()
        assert tokens == sorted(set(tokens))

    @pytest.mark.parametrize("promoted", [False, True], ids=["start", "failover"])
    def test_fault_48_set_back_to_before_its_start(self, lab: Lab, clocked: Clocked, promoted: bool) -> None:
        """It grants after the grace all the same, on a connection that it had too, and on a new one."""
        clocked.set_clock(3600)
        clocked.kill()
        clocked.start()
        if promoted:
            clocked.ask("REPLICAOF", clocked.host, 1)
            clocked.ask("REPLICAOF", "NO", "ONE")
        before = lab.client(restart_grace=SESSION_S)
        grant = before.acquire(lab.name, timeout=SOON_S)
        assert grant.release()
        clocked.set_clock(0)
        began = boot_time()
        for client in (before, lab.client(restart_grace=SESSION_S)):
            with Pace() as pace:
                asked_at = boot_time()
                later = client.acquire(lab.name, timeout=SOON_S)
                granted_at = boot_time()
                late_s = pace.late_s(asked_at)
            assert granted_at - began >= SESSION_S - 0.5
            if client is not before:  # it is waited for once
                assert granted_at - asked_at < SESSION_S / 2 + late_s
            assert later.token > grant.token
            grant = later
            assert grant.release()
