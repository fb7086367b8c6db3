"""One holder at a time, in order of arrival, with tokens that rise (S1, S2, S3, S5, L3)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from recipes import LockLost, LockTimeout, WouldDeadlock
from tests.contract.world import World


class Exclusion:
    """What a lock is for."""

    def test_who_comes_second_waits_for_the_first(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        assert grant.held
        assert b.try_acquire("x") is None
        with pytest.raises(LockTimeout):
            b.acquire("x", timeout=0.2)
        assert b.wait_clean()
        waiting = b.queue_up("x")
        assert not waiting.done
        assert a.release(grant)
        second = waiting.result()
        assert second.held
        assert not grant.held
        assert len(world.store.contenders("x")) == 1

    def test_no_two_hold_at_once_and_tokens_rise_from_holder_to_holder(self, world: World) -> None:
        clients = [world.client() for _ in range(3)]
        inside: list[Any] = []
        tokens: list[int] = []

        def body(grant: Any) -> None:
            inside.append(grant)
            assert inside == [grant]
            grant.check()
            tokens.append(grant.token)
            inside.remove(grant)

        def work(lock: Any) -> None:  # two threads, or tasks, share each
            for _ in range(6):
                world.api.enter(lambda: lock, body)

        locks = [client.lock("x") for client in clients]
        for running in [world.api.spawn(lambda one=lock: work(one)) for lock in locks for _ in range(2)]:
            running.result(60)
        assert len(tokens) == 36
        assert tokens == sorted(set(tokens))
        assert world.store.everything() == []

    @pytest.mark.needs("has_queue")
    def test_waiters_are_served_in_order_of_arrival(self, world: World) -> None:
        clients = [world.client() for _ in range(3)]
        grant = clients[0].acquire("x")
        waiting = [clients[n % 3].queue_up("x") for n in range(6)]
        tokens = [grant.token]
        for n, running in enumerate(waiting):
            clients[n % 3].release(grant)
            grant = running.result()
            assert [later.done for later in waiting[n + 1 :]] == [False] * (5 - n)
            tokens.append(grant.token)
        assert tokens == sorted(set(tokens))

    def test_one_who_gives_up_in_the_middle_holds_up_nobody(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        grant = a.acquire("x")
        between = b.queue_up("x", timeout=3.0)
        last = c.queue_up("x")
        assert isinstance(between.error(), LockTimeout)
        assert not last.done
        a.release(grant)
        assert last.result(5).held

    def test_tokens_rise_across_clients_sessions_and_a_directory_made_again(self, world: World) -> None:
        tokens = []
        for _ in range(3):
            client = world.client()
            for _ in range(2):
                grant = client.acquire("x")
                tokens.append(grant.token)
                client.release(grant)
            client.close()
            world.store.remove_directory("x")
        assert tokens == sorted(set(tokens))

    def test_a_lock_whose_directory_was_removed_works_as_before(self, world: World) -> None:
        a, b = world.client(), world.client()
        lock = a.lock("x")
        for _ in range(3):
            grant = world.api.do(lambda: lock.acquire(timeout=5))
            waiting = b.queue_up("x")
            a.release(grant)
            b.release(waiting.result())
            world.store.remove_directory("x")
        assert world.api.do(lock.try_acquire).held

    def test_a_second_acquire_changes_nothing_about_the_first_grant(self, world: World) -> None:
        client = world.client()
        grant = client.acquire("x")
        token, before = grant.token, world.store.contenders("x")
        with pytest.raises(WouldDeadlock) as refused:
            client.acquire("x", timeout=1)
        assert refused.value.token == token
        assert client.try_acquire("x") is None
        beside = client.acquiring("x", timeout=0.3)  # another thread, or task
        assert isinstance(beside.error(), LockTimeout)
        assert client.wait_clean()
        assert world.store.contenders("x") == before
        assert (grant.held, grant.token, client.verify(grant)) == (True, token, True)
        assert client.client.grants == [grant]
        assert client.release(grant)

    def test_two_owners_of_one_client_take_turns_at_one_lock_object(self, world: World) -> None:
        client = world.client()
        lock = client.lock("x")
        first = world.api.do(lock.acquire)
        second = world.api.start(lambda: lock.acquire(timeout=10))
        client.tap.wait_parked()
        assert not second.done
        client.release(first)
        assert second.result().token > first.token

    def test_two_locks_of_one_owner_do_not_meet(self, world: World) -> None:
        client = world.client()
        grants = [client.acquire(name) for name in ("x", "y")]
        assert all(grant.held for grant in grants)
        assert sorted(grant.name for grant in client.client.grants) == ["x", "y"]
        assert [client.release(grant) for grant in grants] == [True, True]
        assert client.client.grants == []

    def test_try_takes_what_is_free_and_never_queues(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.try_acquire("x")
        assert grant.held
        assert b.try_acquire("x") is None
        assert b.wait_clean()
        assert len(world.store.contenders("x")) == 1
        a.release(grant)
        again = b.try_acquire("x")
        assert again.token > grant.token

    def test_try_does_not_overtake_who_waits(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        grant = a.acquire("x")
        waiting = b.queue_up("x")
        assert c.try_acquire("x") is None
        a.release(grant)
        holder = waiting.result()
        assert c.try_acquire("x") is None
        b.release(holder)

    def test_release_tells_whether_it_was_held_and_does_nothing_twice(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        assert a.release(grant)
        other = b.acquire("x")
        assert not a.release(grant)
        assert not grant.held
        assert grant.lost_reason is None
        assert not grant.lost.is_set()
        with pytest.raises(LockLost, match="released"):
            grant.check()
        assert not a.verify(grant)
        assert b.verify(other)

    def test_another_owner_may_release(self, world: World) -> None:
        client = world.client()
        grant = client.acquire("x")
        assert world.api.start(grant.release).result()
        assert client.acquire("x", timeout=5).token > grant.token

    def test_a_grant_whose_last_reference_is_dropped_stays_held(self, world: World) -> None:
        a, b = world.client(), world.client()
        a.acquire("x")
        assert b.try_acquire("x") is None
        (grant,) = a.client.grants
        assert grant.held
        assert a.release(grant)

    def test_with_releases_and_lets_the_bodys_own_error_out(self, world: World) -> None:
        a, b = world.client(), world.client()

        def body(grant: Any) -> None:
            assert grant.held
            assert b.try_acquire("x") is None
            raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            a.enter("x", body)
        assert world.store.contenders("x") == []
        assert a.enter("x", lambda grant: grant.token) > 0
        lock = a.lock("x")
        assert world.api.enter(lambda: lock.acquire(timeout=5), lambda grant: grant.held)
        b.acquire("x")
        with pytest.raises(LockTimeout):
            world.api.enter(lambda: lock.acquire(timeout=0.1), lambda grant: grant.held)

    def test_a_resource_that_refuses_smaller_tokens_is_safe_from_a_late_writer(self, world: World) -> None:
        a, b = world.client(), world.client()
        register = Register()
        late = a.acquire("x")
        assert register.write(late.token, "a")
        world.store.remove(world.store.contenders("x")[0])  # as if its session had ended
        grant = b.acquire("x")
        assert register.write(grant.token, "b")
        assert not register.write(late.token, "a, too late")
        assert register.value == "b"

    def test_a_grant_knows_its_lock_and_how_long_it_is_proven(self, world: World) -> None:
        client = world.client(session_timeout=6)
        grant = client.acquire("a name")
        assert grant.name == "a name"
        assert 0 < grant.remaining <= client.client.session.timeout
        assert client.client.session.state == "held"
        grant.check()
        client.release(grant)
        assert grant.remaining == 0


class Register:
    """A resource that is fenced: the example of the documentation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest = 0
        self.value = ""

    def write(self, token: int, value: str) -> bool:
        with self._lock:
            if token < self._newest:
                return False
            self._newest, self.value = token, value
            return True
