"""What a waiter is notified of its place in the queue, and a release that does not wait."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from recipes import events
from tests.contract.world import LONG, World


class Telling:
    """Callbacks of those who wait, and `Grant.release` without waiting."""

    @pytest.mark.needs("has_queue")
    def test_a_waiter_is_told_its_place(self, world: World) -> None:
        a, b, c = world.client(**LONG), world.client(**LONG), world.client(**LONG)
        grant = a.acquire("x")
        second = b.queue_up("x")
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def note(what: str) -> Any:
            return lambda position: told.put((what, position, threading.current_thread().name))

        lock = c.lock("x")
        third = c.api.start(
            lambda: lock.acquire(timeout=20, on_queued=note("queued"), on_position=note("position"))
        )
        where = "test-loop" if c.api.is_async else "recipes-callbacks"
        assert told.get(timeout=10) == ("queued", 2, where)
        assert told.get(timeout=10) == ("position", 2, where)
        c.tap.wait_parked()
        a.release(grant)
        assert told.get(timeout=10) == ("position", 1, where)
        b.release(second.result(5))
        assert third.result(5).held
        assert told.empty()

    @pytest.mark.needs("has_queue")
    def test_who_need_not_wait_is_told_nothing(self, world: World) -> None:
        client = world.client(**LONG)
        lock, told = client.lock("x"), []
        grant = client.api.do(lambda: lock.acquire(on_queued=told.append, on_position=told.append))
        client.release(grant)
        assert not told

    def test_a_callback_that_fails_harms_nobody(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        grant, called = a.acquire("x"), threading.Event()

        def fail(position: int) -> None:
            called.set()
            raise RuntimeError(position)

        lock = b.lock("x")
        waiting = b.api.start(lambda: lock.acquire(timeout=20, on_queued=fail))
        assert called.wait(10)
        a.release(grant)
        assert waiting.result(5).held

    @pytest.mark.parametrize("how", ["lost", "interrupted"])
    @pytest.mark.parametrize("tries", [False, True])
    def test_whatever_is_reported_to_be_acquired_is_reported_to_end_once(
        self, world: World, how: str, tries: bool
    ) -> None:
        """Also where that report takes so long that it is lost meanwhile, or is interrupted."""
        client = world.client(**LONG)
        lock = client.lock("x", max_hold=5.0)
        struck: list[int | None] = []

        def strike(transition: Any) -> None:
            if transition.event != "lock.acquired" or transition.name != "x" or struck:
                return
            struck.append(transition.token)
            if how == "interrupted":
                raise client.api.interrupts
            for hold in client.client._runtime.holds:
                hold.until = 0.0

        def acquire() -> Any:
            return client.api.do(lock.try_acquire if tries else lambda: lock.acquire(timeout=10))

        unsubscribe = events.subscribe(strike)
        try:
            if how == "interrupted":
                with pytest.raises(client.api.interrupts):
                    acquire()
            grant = acquire()
        finally:
            unsubscribe()
        if grant is None:  # its own contender, which is lost, was in the way of a try
            assert client.wait_clean()
            grant = acquire()
        assert grant.token not in struck
        client.release(grant)
        for token in (*struck, grant.token):
            world.heard.wait("lock.acquired", token=token)
            names = world.heard.names(token=token)
            assert names == ["lock.acquired", "lock.released" if token == grant.token else "lock.lost"]

    def test_a_release_that_does_not_wait(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        grant = a.acquire("x")
        waiting = b.queue_up("x")
        with a.tap.counting() as asked:
            assert a.api.do(lambda: grant.release(wait=False))
        assert not asked
        assert not grant.held
        assert grant.lost_reason is None
        assert not a.api.do(lambda: grant.release(wait=False))
        other = waiting.result(5)
        assert other.token > grant.token
        assert a.wait_clean()
        assert world.heard.wait("lock.released", token=grant.token)
        b.release(other)
        own = a.acquire("x", timeout=5)
        a.api.do(lambda: own.release(wait=False))
        assert a.acquire("x", timeout=5).token > own.token  # it waits for its own to go, if it has to

    def test_a_release_that_does_not_wait_ends_when_the_store_answers_again(self, world: World) -> None:
        a, b = world.client(session_timeout=15, request_timeout=1, frail=True), world.client(**LONG)
        grant = a.acquire("x")
        a.line.silence()
        assert a.api.do(lambda: grant.release(wait=False))
        assert a.client.pending_cleanups == 1
        a.line.heal()
        assert b.acquire("x", timeout=10).token > grant.token
        assert a.wait_clean()
