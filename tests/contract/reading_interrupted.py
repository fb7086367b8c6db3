"""Lost requests and replies, and interrupts, at every step of a reader's calls and of a downgrade."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.interrupts import LOSSES, STRIKES, by_caller, by_caller_or_waiting, each_step
from tests.contract.tap import Act
from tests.contract.world import Party, World, until

LETS_IN: dict[str, Callable[[Party, Any], Any]] = {
    "release": lambda party, grant: party.release(grant),
    "downgrade": lambda party, grant: party.downgrade(grant),
}
lets_in = pytest.mark.parametrize("let_in", LETS_IN.values(), ids=LETS_IN)


def queued(world: World, count: int) -> bool:
    """Wait until so many stand in the queue."""
    return until(lambda: len(world.store.contenders("x")) == count, 5)


class ReadingInterrupted:
    """What faults do to a single call of a reader, or to a downgrade: nothing that lasts."""

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_reading_happens_once_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        beside = b.reader.acquire("x")
        for ask in (a.reader.acquire, a.reader.try_acquire):
            for _ in each_step(a, act, by_caller):
                grant = ask("x")
                assert len(world.store.contenders("x")) == 2
                assert a.release(grant)
                assert len(world.store.contenders("x")) == 1
        assert b.verify(beside)

    @lets_in
    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_a_waiting_reader_is_granted_once_whatever_is_lost(
        self, world: World, act: Act, let_in: Callable[[Party, Any], Any]
    ) -> None:
        a, b = world.client(), world.client()
        for _ in each_step(b, act, by_caller):
            grant = a.writer.acquire("x")
            waiting = b.reader.acquiring("x")
            assert queued(world, 2)
            let_in(a, grant)
            second = waiting.result(5)
            a.release(grant)
            assert len(world.store.contenders("x")) == 1
            assert b.release(second)
            assert world.store.contenders("x") == []

    @lets_in
    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_waiting_reader_interrupted_anywhere_leaves_nothing(
        self, world: World, act: Act, let_in: Callable[[Party, Any], Any]
    ) -> None:
        a, b, c = (world.client() for _ in range(3))
        for fault in each_step(b, act, by_caller_or_waiting):
            grant = a.writer.acquire("x")
            waiting = b.reader.acquiring("x")
            assert until(lambda running=waiting: running.done or b.tap.waiting, 5)
            behind = c.writer.queue_up("x")
            let_in(a, grant)
            error = waiting.error()
            assert error is None or isinstance(error, world.api.interrupts)
            assert (error is not None) == fault.fired.is_set()
            if error is None:
                fault.armed = False
                assert b.release(waiting.result())
            a.release(grant)
            assert c.release(behind.result(5))
            assert b.wait_clean()
            assert b.client.grants == []
            assert world.store.contenders("x") == []

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_a_downgrade_happens_once_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for fault in each_step(a, act, by_caller):
            fault.armed = False
            grant = a.writer.acquire("x")
            fault.armed = True
            a.downgrade(grant)
            fault.armed = False
            assert b.release(b.reader.acquire("x", timeout=5))
            assert b.writer.try_acquire("x") is None
            assert a.release(grant)
            assert world.store.contenders("x") == []
        assert len(world.heard.of("lock.downgraded")) == len(
            world.heard.of("lock.acquired", mode="exclusive")
        )

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_downgrade_interrupted_anywhere_counts_as_shared_and_can_be_asked_again(
        self, world: World, act: Act
    ) -> None:
        a, b = world.client(), world.client()
        for fault in each_step(a, act, by_caller_or_waiting):
            fault.armed = False
            grant = a.writer.acquire("x")
            before = world.store.contenders("x")
            fault.armed = True
            try:
                a.downgrade(grant)
            except world.api.interrupts:
                assert fault.fired.is_set()
            else:
                assert not fault.fired.is_set()
                fault.armed = False
            assert (grant.held, grant.mode) == (True, "shared")
            assert a.client.grants == [grant]
            assert a.client.pending_cleanups == 0
            assert world.store.contenders("x") == before
            assert b.writer.try_acquire("x") is None
            a.downgrade(grant)
            assert b.release(b.reader.acquire("x", timeout=5))
            assert a.release(grant)
            assert world.store.contenders("x") == []

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_whom_a_downgrade_let_in_before_it_was_interrupted_stays(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        grant = a.writer.acquire("x")
        reading = b.reader.queue_up("x")
        a.tap.fail(act)
        with pytest.raises(world.api.interrupts):
            a.downgrade(grant)
        if act is Act.INTERRUPT_AFTER:
            assert b.verify(reading.result(5))
        assert a.release(grant)
        assert b.verify(reading.result(5))

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_an_interrupted_downgrade_is_seen_by_a_reader_of_the_same_client(
        self, world: World, act: Act
    ) -> None:
        """It waits for the grant without a watch on the store: it has to ask, and not only in time."""
        a = world.client(session_timeout=60)
        grant = a.writer.acquire("x")
        reading = a.reader.queue_up("x")
        a.tap.fail(act)
        with pytest.raises(world.api.interrupts):
            a.downgrade(grant)
        if act is Act.INTERRUPT_BEFORE:
            a.downgrade(grant)
        assert a.verify(reading.result(6))
        assert a.release(grant)
