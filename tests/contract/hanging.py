"""Holders that hang: ``max_hold`` takes the lock from them, though their session lives."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recipes import LockLost
from tests.contract.world import LONG, Party, Stopwatch, World, until
from tests.pace import taking

SOON_S = 10.0
HUNG = r"\(max_hold\) without progress"


def hold(party: Party, name: str, max_hold: float, **options: Any) -> Any:
    """Acquire as this thread, to be held for so long at most."""
    lock = party.lock(name, max_hold=max_hold)
    return party.api.do(lambda: lock.acquire(**options))


class Hanging:
    """What becomes of a holder that neither ends nor makes progress."""

    def test_it_is_told_and_the_next_is_served(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        clock, told = Stopwatch(), threading.Event()
        grant = hold(a, "x", 1.0, timeout=5)
        assert 0 < grant.remaining <= 1.0 or clock.seconds >= 1.0
        grant.lost.add_callback(lambda lost: told.set() if lost is grant else None)
        waiting = b.acquiring("x")
        assert a.wait_lost(grant, 5)
        assert clock.seconds >= 1.0
        assert told.wait(SOON_S)
        assert (grant.held, grant.remaining) == (False, 0)
        other = waiting.result(SOON_S)
        assert other.token > grant.token
        with pytest.raises(LockLost, match=HUNG):
            grant.check()
        with pytest.raises(LockLost, match=HUNG):
            grant.progress()  # it brings nothing back
        assert not grant.held
        assert not a.verify(grant)
        assert not a.release(grant)
        assert a.wait_clean()
        assert len(world.store.contenders("x")) == 1
        assert b.verify(other)
        assert a.client.session.state == "held"  # the session lives on, and all else of it
        (lost,) = world.heard.wait("lock.lost", name="x")
        assert (lost.token, lost.reason) == (grant.token, grant.lost_reason)
        assert not world.heard.of("lock.released", token=grant.token)
        b.release(other)
        assert a.acquire("x", timeout=5).token > other.token

    def test_progress_keeps_it(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        clock = Stopwatch()
        grant = hold(a, "x", 6.0)
        waiting = b.queue_up("x")
        while clock.seconds < 6.3:
            assert not a.wait_lost(grant, 0.2)
            grant.progress()
            assert grant.remaining > 0.5
        assert a.verify(grant)
        assert not waiting.done
        assert a.release(grant)
        assert waiting.result(5).held
        with pytest.raises(LockLost, match="released"):
            grant.progress()

    def test_without_it_progress_is_a_check(self, world: World) -> None:
        client = world.client(**LONG)
        grant = client.acquire("x")
        grant.progress()
        assert grant.remaining > 2
        client.release(grant)
        with pytest.raises(LockLost):
            grant.progress()

    def test_it_is_told_in_time_with_a_silent_store_and_withdrawn_later(self, world: World) -> None:
        a = world.client(session_timeout=15, request_timeout=1, frail=True)
        b = world.client(**LONG)
        told = threading.Event()
        grant = hold(a, "x", 1.0)
        grant.lost.add_callback(lambda lost: told.set())
        with taking(1.0 + 0.5):
            a.line.silence()
            assert told.wait(SOON_S)
        assert not grant.held
        assert until(lambda: a.client.pending_cleanups == 1, SOON_S)
        a.line.heal()
        assert b.acquire("x", timeout=10).token > grant.token
        assert a.wait_clean()

    def test_the_block_ends_as_lost(self, world: World) -> None:
        client = world.client(**LONG)
        bodies: list[Any] = []
        with pytest.raises(LockLost, match=HUNG):
            client.api.do(_body(client, bodies.append))
        (grant,) = bodies
        assert not grant.held
        assert until(lambda: not world.store.contenders("x"), 5)

    @pytest.mark.needs("has_queue")
    def test_both_sides_of_a_read_write_lock(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        reading = hold(a.reader, "x", 1.0)
        writing = b.writer.acquiring("x")
        assert a.wait_lost(reading, 5)
        writer = writing.result(5)
        lock = b.client.rwlock("y", max_hold=3.0)
        grant = b.api.do(lock.writer.acquire)
        b.downgrade(grant)
        assert a.writer.acquire("y").token > grant.token
        assert b.wait_lost(grant, 5)
        assert writer.held

    def test_all_grants_of_a_re_entrant_lock(self, world: World) -> None:
        client = world.client(**LONG)
        lock = client.client.rlock("x", max_hold=4.0)
        outer, inner = client.api.do(lock.acquire), client.api.do(lock.acquire)
        assert not client.wait_lost(outer, 0.1)
        inner.progress()
        assert outer.remaining > 0.5
        assert client.wait_lost(outer, SOON_S)
        assert client.wait_lost(inner, SOON_S)
        assert outer.lost_reason == inner.lost_reason
        assert not client.release(inner)
        assert not client.release(outer)
        assert client.api.do(lambda: lock.acquire(timeout=5)).token > outer.token

    @pytest.mark.parametrize("how", ["hangs", "silent"])
    @pytest.mark.parametrize("several", [False, True])
    def test_all_grants_of_a_re_entrant_lock_are_notified_of_a_loss_that_shows_as_they_leave(
        self, world: World, how: str, several: bool
    ) -> None:
        """Nobody has noticed it before: it shows by the clock, and the keepalive loop comes later."""
        client = world.client(**LONG)
        made: Any = client.client.rlock("x")
        if several:
            made = client.client.multilock(client.client.lock("y"), made)
        grants = [client.api.do(made.acquire)]
        grants += [client.api.do(client.client.rlock("x").acquire) for _ in range(2)]
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for grant in grants:
            grant.lost.add_callback(told.put)
        state = client.client._runtime.state
        (whole,) = [one for one in state.session.holds.values() if one.labels["recipe"] == "rlock"]
        if how == "hangs":
            whole.until, whole.max_hold_s = 0.0, 1.0
        else:
            state.session.clock.deadline = 0.0
        released = [client.release(grant) for grant in (grants[1], grants[0], grants[2])]
        assert not any(released)
        state.wake_keepalive()
        assert {told.get(timeout=SOON_S) for _ in grants} == set(grants)
        world.heard.wait("lock.lost", name="x")
        if several:
            world.heard.wait("multilock.lost")
        assert client.wait_clean()
        assert told.empty()
        assert all(grant.lost.is_set() for grant in grants)

    def test_a_holder_of_the_same_client_is_replaced_too(self, world: World) -> None:
        client = world.client(**LONG)
        grant = hold(client, "x", 1.0)
        waiting = client.acquiring("x")
        assert waiting.result(5).token > grant.token
        assert not grant.held


def _body(party: Party, note: Callable[[Any], None]) -> Callable[[], Any]:
    """Return a ``with`` block that hangs until it is lost; on asyncio it would hang for ever."""
    lock = party.lock("x", max_hold=1.0)

    def blocking() -> None:
        with lock as grant:
            note(grant)
            grant.lost.wait()

    async def tasks() -> None:
        async with lock as grant:
            note(grant)
            await asyncio.Event().wait()

    return tasks if party.api.is_async else blocking
