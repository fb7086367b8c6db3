"""A lost request or reply, and an interrupt, at every step of every call (L5; faults 12-14, 26, 27).

Each test repeats one call with the fault at its first step, at its second, and so on,
until the call no longer gets that far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recipes._run.clock import boot_time
from tests.alarms import alarm
from tests.contract.tap import RECEIVE, Act, Asked, Fault
from tests.contract.world import SHORT, Party, World, until
from tests.pace import Pace

LOSSES = [Act.LOSE_REQUEST, Act.LOSE_REPLY, Act.LOSE_LAST_REPLY, Act.LOSE_LAST_REQUESTS]
STRIKES = [Act.INTERRUPT_BEFORE, Act.INTERRUPT_AFTER]
MOST_STEPS = 20


def by_caller(asked: Asked) -> bool:
    """Whether it is a request of the caller's own."""
    return not asked.behind and asked.parts != (RECEIVE,)


def by_caller_or_waiting(asked: Asked) -> bool:
    """Whether it is a request of the caller's own, or its waiting."""
    return not asked.behind


def by_anybody(asked: Asked) -> bool:
    """Whether it is a request, of the caller or of the keepalive loop."""
    return asked.parts != (RECEIVE,)


def each_step(party: Party, act: Act, matches: Callable[[Asked], bool]) -> Iterator[Fault]:
    """Set the fault at the first step, then at the second, ..., until it strikes no more."""
    for n in range(1, MOST_STEPS):
        fault = party.tap.fail(act, n, matches)
        yield fault
        if not fault.fired.is_set():
            fault.armed = False
            assert n > 1, "the call should take a step"
            return
    raise AssertionError(f"no end of steps after {MOST_STEPS}")


class Interrupts:
    """What faults do to a single call: nothing that lasts."""

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_acquire_and_release_happen_once_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for _ in each_step(a, act, by_caller):
            grant = a.acquire("x", timeout=5)
            assert len(world.contenders("x")) == 1
            assert b.try_acquire("x") is None
            assert a.verify(grant)
            assert a.release(grant)
            assert world.contenders("x") == []
        assert a.client.pending_cleanups == 0

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_a_waiter_is_granted_once_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for _ in each_step(b, act, by_caller):
            grant = a.acquire("x")
            waiting = b.acquiring("x")
            assert until(lambda: world.stands_behind("x", b), 5)
            a.release(grant)
            second = waiting.result(5)
            assert len(world.contenders("x")) == 1
            assert b.release(second)
            assert world.contenders("x") == []

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_try_acquire_is_right_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for _ in each_step(a, act, by_caller):
            grant = a.try_acquire("x")
            assert grant.held
            assert len(world.contenders("x")) == 1
            a.release(grant)
        held = b.acquire("x")
        before = world.contenders("x")
        for _ in each_step(a, act, by_caller):
            assert a.try_acquire("x") is None
            assert a.wait_clean()
            assert world.contenders("x") == before
        assert b.verify(held)

    @pytest.mark.parametrize("act", LOSSES[:2], ids=lambda act: act.name)
    def test_a_session_is_started_whatever_is_lost(self, world: World, act: Act) -> None:
        before = world.store.sessions()
        for n in range(1, 4):
            client = world.client(is_open=False, **SHORT)
            fault = client.tap.fail(act, n, by_anybody)
            grant = client.acquire("x", timeout=8)
            client.release(grant)
            client.close()
            if not fault.fired.is_set():
                break
        assert until(lambda: world.store.sessions() <= before, 10), world.store.sessions() - before

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_an_acquire_interrupted_anywhere_leaves_nothing(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for fault in each_step(a, act, by_caller_or_waiting):
            self._interrupted(world, a, fault, lambda: a.acquire("x", timeout=5))
            assert b.release(b.acquire("x", timeout=5))

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_try_interrupted_anywhere_leaves_nothing(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for fault in each_step(a, act, by_caller_or_waiting):
            self._interrupted(world, a, fault, lambda: a.try_acquire("x"))
            assert b.release(b.acquire("x", timeout=5))

    def _interrupted(self, world: World, party: Party, fault: Fault, call: Callable[[], Any]) -> None:
        """Make a call; if the fault struck, it raised the interrupt at once and left nothing."""
        with Pace() as pace:
            try:
                grant = call()
            except world.api.interrupts:
                assert fault.fired.is_set()
                took_s = boot_time() - party.tap.struck_at
                assert took_s < 0.25 + pace.late_s(party.tap.struck_at)
            else:
                assert not fault.fired.is_set()
                fault.armed = False
                assert party.release(grant)
        assert party.client.grants == []
        assert party.wait_clean()
        assert world.contenders("x") == []

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_waiter_interrupted_anywhere_leaves_nothing(self, world: World, act: Act) -> None:
        a, b, c = (world.client() for _ in range(3))
        for fault in each_step(b, act, by_caller_or_waiting):
            grant = a.acquire("x")
            waiting = b.acquiring("x")
            assert until(lambda running=waiting: running.done or b.tap.waiting, 5)
            # Where there is no order, it could be granted before the one that waits.
            behind = c.queue_up("x") if world.store.has_queue else None
            a.release(grant)
            error = waiting.error()
            assert error is None or isinstance(error, world.api.interrupts)
            assert (error is not None) == fault.fired.is_set()
            if error is None:
                fault.armed = False
                assert b.release(waiting.result())
            behind = behind or c.acquiring("x")
            assert c.release(behind.result(5))
            assert b.wait_clean()
            assert b.client.grants == []
            assert world.contenders("x") == []

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_release_interrupted_anywhere_is_finished_behind(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for fault in each_step(a, act, by_caller_or_waiting):
            fault.armed = False
            grant = a.acquire("x")
            fault.armed = True
            try:
                a.release(grant)
            except world.api.interrupts:
                assert fault.fired.is_set()
            else:
                assert not fault.fired.is_set()
            assert not grant.held
            assert a.wait_clean()
            assert b.release(b.acquire("x", timeout=5))
            assert not a.release(grant)

    @pytest.mark.parametrize("raised", [TimeoutError, ZeroDivisionError, SystemExit])
    def test_what_a_signal_handler_raises_ends_a_wait(
        self, world: World, raised: type[BaseException]
    ) -> None:
        """A program's own alarm, or its end, is no failure of the store's."""
        if world.api.is_async:
            return
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        with pytest.raises(raised, match="of the handler"), alarm(raised, lambda: b.tap.waiting):
            b.acquire("x", timeout=60)
        assert b.wait_clean()
        assert b.client.grants == []
        assert a.verify(grant)
        assert len(world.contenders("x")) == 1

    def test_a_create_that_lands_after_its_call_was_given_up_stands_for_nobody(self, world: World) -> None:
        if not world.store.lands_late:
            return
        a, b = world.client(), world.client()
        a.tap.fail(Act.LAND_LATE, 1, by_caller)
        a.tap.fail(Act.INTERRUPT_BEFORE, 2, by_caller_or_waiting)
        with pytest.raises(world.api.interrupts):
            a.acquire("x")
        assert a.wait_clean()
        a.tap.land()
        assert world.contenders("x") == []
        assert b.acquire("x", timeout=5).held
