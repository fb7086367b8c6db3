"""How many may wait, and what a waiter does when its place in the queue is gone."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from recipes import LockTimeout, QueueFull, SessionLost, StoreTimeout, StoreUnavailable
from tests.contract.interrupts import LOSSES, STRIKES, by_caller, by_caller_or_waiting, each_step
from tests.contract.tap import RECEIVE, Act, Asked
from tests.contract.world import SHORT, World, until, without_waiting


class Waiting:
    """The options of waiting."""

    @pytest.mark.needs("has_queue")
    def test_no_more_wait_than_may(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        grant = a.acquire("x", max_waiters=0)
        first, second = (b.queue_up("x", max_waiters=2) for _ in range(2))
        before = world.store.contenders("x")
        with pytest.raises(QueueFull) as refused:
            c.acquire("x", timeout=5, max_waiters=2)
        assert (refused.value.lock, refused.value.max_waiters, refused.value.position) == ("x", 2, 3)
        assert world.store.contenders("x") == before
        assert c.client.pending_cleanups == 0
        third = c.queue_up("x", max_waiters=3)
        a.release(grant)
        b.release(first.result())
        late = a.queue_up("x", max_waiters=2)  # one has left, and one holds
        b.release(second.result())
        c.release(third.result())
        assert late.result().held
        (told,) = world.heard.of("lock.cancelled")
        assert told.reason == "QueueFull"

    def test_a_busy_lock_and_a_silent_store_are_two_errors(self, world: World) -> None:
        a, b, fresh = world.client(), world.client(), world.client(is_open=False)
        grant = a.acquire("x")
        with pytest.raises(LockTimeout) as busy:
            without_waiting(b, lambda: b.acquire("x", timeout=0))
        assert not isinstance(busy.value, StoreUnavailable)
        for timeout in (0.5, 8.0):  # where the machine is busy, a first answer may take long
            with pytest.raises(LockTimeout) as busy:
                b.acquire("x", timeout=timeout)
            if not isinstance(busy.value, StoreUnavailable):
                break
        assert not isinstance(busy.value, StoreUnavailable)
        for party in (b, fresh):
            party.tap.silence()
            for timeout in (0, 0.5):
                with pytest.raises(StoreTimeout) as down:
                    party.acquire("x", timeout=timeout)
                assert isinstance(down.value, LockTimeout)
                assert isinstance(down.value, StoreUnavailable)
                assert isinstance(down.value, TimeoutError)
                assert (down.value.lock, down.value.timeout_s) == ("x", timeout)
                assert down.value.store
                back = pickle.loads(pickle.dumps(down.value))
                assert (type(back), vars(back), str(back)) == (
                    StoreTimeout,
                    vars(down.value),
                    str(down.value),
                )
            party.tap.heal()
        a.release(grant)

    def test_a_look_that_is_cut_short_as_the_wait_ends_is_no_silence(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        a.acquire("x")
        ahead = b.queue_up("x", timeout=1)
        waiting = c.queue_up("x", timeout=3.5)

        def falls_silent(asked: Asked) -> None:
            if not asked.behind and asked.parts != (RECEIVE,):
                c.tap.silence()

        c.tap.before = falls_silent
        assert type(ahead.error()) is LockTimeout  # the other looks now, or by itself
        error = waiting.error()
        c.tap.heal()
        assert type(error) is LockTimeout
        assert error.__cause__ is None
        assert c.wait_clean()

    def test_a_waiter_whose_store_falls_silent_says_so(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        a.acquire("x")
        waiting = b.queue_up("x", timeout=6)
        b.tap.silence()
        error = waiting.error()
        b.tap.heal()
        assert isinstance(error, StoreTimeout)
        assert b.wait_clean()

    @pytest.mark.needs("has_queue")
    def test_nobody_may_wait(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x", timeout=None, max_waiters=0)
        for party in (b, b):
            with pytest.raises(QueueFull):
                party.acquire("x", timeout=None, max_waiters=0)
        a.release(grant)
        assert b.acquire("x", timeout=None, max_waiters=0).held

    @pytest.mark.needs("has_queue")
    def test_of_many_that_join_at_once_as_many_stay_as_may(self, world: World) -> None:
        holder, *clients = (world.client() for _ in range(4))
        grant = holder.acquire("x")
        joining = [client.acquiring("x", max_waiters=2) for client in clients for _ in range(3)]
        assert until(lambda: sum(running.done for running in joining) == 7, 10)
        assert {type(running.error()) for running in joining if running.done} == {QueueFull}
        assert until(lambda: len(world.store.contenders("x")) == 3, 5)
        holder.release(grant)
        staying = [running for running in joining if running not in _refused(joining)]
        tokens = []
        while len(tokens) < 2:
            assert until(lambda: any(running.done for running in staying), 10)
            (one,) = [running for running in staying if running.done]
            staying.remove(one)
            tokens.append(one.result().token)
            world.api.do(one.result().release)
        assert tokens == sorted(tokens)

    @pytest.mark.needs("has_queue")
    def test_readers_that_hold_do_not_wait(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        grants = [a.reader.acquire("x", max_waiters=0) for _ in range(4)]
        with pytest.raises(QueueFull):
            b.writer.acquire("x", max_waiters=0)
        writing = b.writer.queue_up("x", max_waiters=1)
        with pytest.raises(QueueFull):
            c.reader.acquire("x", max_waiters=1)
        reading = c.reader.queue_up("x", max_waiters=2)
        with pytest.raises(QueueFull):  # who waits may be a reader
            c.reader.acquiring("x", max_waiters=2).result()
        with pytest.raises(QueueFull):
            c.acquiring("x", max_waiters=2).result()
        for grant in grants:
            a.release(grant)
        b.release(writing.result())
        assert reading.result().held

    @pytest.mark.needs("has_queue")
    def test_a_reader_beside_a_writer_that_downgraded_does_not_wait(self, world: World) -> None:
        a, b = world.client(), world.client()
        a.downgrade(a.writer.acquire("x"))
        assert all(b.reader.acquire("x", max_waiters=0).held for _ in range(2))
        with pytest.raises(QueueFull):
            b.writer.acquiring("x", max_waiters=0).result()

    @pytest.mark.needs("has_queue")
    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_who_is_refused_leaves_nothing_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        a.acquire("x")
        before = world.store.contenders("x")
        for _ in each_step(b, act, by_caller):
            with pytest.raises(QueueFull):
                b.acquire("x", max_waiters=0)
            assert b.wait_clean()
            assert world.store.contenders("x") == before

    @pytest.mark.needs("has_queue")
    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_who_is_refused_and_interrupted_leaves_nothing(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        a.acquire("x")
        before = world.store.contenders("x")
        for fault in each_step(b, act, by_caller_or_waiting):
            with pytest.raises((QueueFull, world.api.interrupts)) as raised:
                b.acquire("x", max_waiters=0)
            assert (raised.type is QueueFull) != fault.fired.is_set()
            assert b.wait_clean()
            assert world.store.contenders("x") == before

    @pytest.mark.needs("has_sessions", "has_queue")
    def test_a_waiter_that_may_not_queue_again_fails_with_its_session(self, world: World) -> None:
        a, b, c = world.client(), world.client(**SHORT), world.client()
        grant = a.acquire("x")
        failing = b.queue_up("x", on_session_lost="fail")
        again, other = b.queue_up("x"), c.queue_up("x", on_session_lost="fail")
        world.store.end_session(b.client)
        error = failing.error()
        assert isinstance(error, SessionLost)
        assert error.lock == "x"
        assert error.reason
        world.heard.wait("lock.requeued", name="x")
        assert until(lambda: len(world.store.contenders("x")) == 3, 5)
        a.release(grant)
        c.release(other.result())
        b.release(again.result())
        assert b.acquire("x", on_session_lost="fail").held
        assert [told.reason for told in world.heard.of("lock.cancelled")] == ["SessionLost"]

    @pytest.mark.needs("has_queue")
    def test_a_waiter_that_may_not_queue_again_fails_with_its_contender(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        grant = a.acquire("x")
        failing = b.queue_up("x", on_session_lost="fail")
        world.store.remove(world.store.contenders("x")[1])
        error = failing.error()
        assert isinstance(error, SessionLost)
        assert "removed" in error.reason
        assert b.wait_clean()
        assert a.verify(grant)
        assert len(world.store.contenders("x")) == 1

    def test_a_session_that_went_before_it_stood_in_the_queue_fails_nothing(self, world: World) -> None:
        client = world.client()
        client.release(client.acquire("x"))
        world.store.end_session(client.client)
        assert client.acquire("x", on_session_lost="fail").held

    @pytest.mark.needs("has_queue")
    def test_who_queues_again_finds_no_room(self, world: World) -> None:
        a, b, c = world.client(), world.client(**SHORT), world.client()
        grant = a.acquire("x")
        first = b.queue_up("x", max_waiters=1)
        c.queue_up("x")
        world.store.end_session(b.client)
        assert isinstance(first.error(), QueueFull)
        assert a.verify(grant)
        assert b.wait_clean()
        assert len(world.store.contenders("x")) == 2

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"max_waiters": -1}, ValueError),
            ({"max_waiters": 1.5}, TypeError),
            ({"max_waiters": True}, TypeError),
            ({"on_session_lost": "wait"}, ValueError),
            ({"on_session_lost": None}, ValueError),
        ],
        ids=str,
    )
    def test_what_says_nothing_is_refused_before_anything_is_sent(
        self, world: World, options: dict[str, Any], error: type[Exception]
    ) -> None:
        client = world.client(is_open=False)
        for timeout in (0, None):
            with pytest.raises(error, match=next(iter(options))):
                client.acquire("x", timeout=timeout, **options)
        assert client.tap.asked == []


def _refused(joining: list[Any]) -> list[Any]:
    return [running for running in joining if running.done and isinstance(running.error(), QueueFull)]
