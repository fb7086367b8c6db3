"""Barriers: a generation passes for all or breaks for all, and the next begins clean."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recipes import BarrierBroken, BarrierMismatch, ClientClosed, StoreRefused, StoreUnavailable
from recipes._contract.names import queue_of
from tests.contract.apis import Running
from tests.contract.interrupts import LOSSES, STRIKES, by_caller, by_caller_or_waiting, each_step
from tests.contract.manners import _in_child
from tests.contract.stores import BARRIERS
from tests.contract.tap import RECEIVE, Act
from tests.contract.world import LONG, SHORT, Party, World, until
from tests.pace import Pace

NAME = "start"
OUT_OF_TIME = "a party's time was over before all had come"
GONE = "a party that waited has gone"


def wait(party: Party, parties: int = 2, timeout: float | None = 10, name: str = NAME) -> int:
    """Wait as this thread."""
    barrier = party.client.barrier(name, parties)
    index: int = party.api.do(lambda: barrier.wait(timeout))
    return index


def waiting(party: Party, parties: int = 2, timeout: float | None = 20, name: str = NAME) -> Running:
    """Wait beside the test, and return when that waits."""
    barrier = party.client.barrier(name, parties)
    with party.tap.one_more():
        return party.api.start(lambda: barrier.wait(timeout))


def broken(running: Running) -> BarrierBroken:
    """Return the error of one that waited in a generation that broke."""
    error = running.error()
    assert isinstance(error, BarrierBroken), error
    return error


def standing(world: World) -> list[str]:
    """Return what really stands in the queue."""
    return world.store.contenders(f"{BARRIERS}{NAME}")


class Inside:
    """A party of a double barrier, in a thread of its own: it is inside until it is asked to leave."""

    def __init__(self, party: Party, parties: int, leave_within: float | None = 20) -> None:
        self.entered, self.leaves = threading.Event(), threading.Event()
        self.index = -1
        self.barrier = party.client.barrier(NAME, parties)
        self._do: Callable[[Callable[[], Any]], Any] = party.api.do
        self._within = leave_within
        self.running = party.api.spawn(self._run)

    def _run(self) -> None:
        self.index = self._do(lambda: self.barrier.enter(20))
        self.entered.set()
        self.leaves.wait(20)
        self._do(lambda: self.barrier.leave(self._within))


class Barriers:
    """`Client.barrier`: single, cyclic and double."""

    def test_all_pass_together_in_order_of_arrival(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        first, second = waiting(a, 3), waiting(b, 3)
        assert len(standing(world)) == 2
        assert not first.done
        assert not second.done
        assert wait(c, 3) == 2
        assert (first.result(), second.result()) == (0, 1)
        assert standing(world) == []

    def test_one_alone_passes_at_once(self, world: World) -> None:
        a = world.client()
        assert [wait(a, 1, None), wait(a, 1, 0)] == [0, 0]
        assert standing(world) == []

    def test_it_is_used_again_and_again(self, world: World) -> None:
        parties, rounds = [world.client() for _ in range(3)], 6
        seen: list[tuple[int, int]] = []

        def work(party: Party) -> None:
            seen.extend((number, wait(party, 3, 20)) for number in range(rounds))

        for running in [world.api.spawn(lambda party=party: work(party)) for party in parties]:
            running.result(30)
        for number in range(rounds):
            assert sorted(index for when, index in seen if when == number) == [0, 1, 2]
        assert standing(world) == []

    def test_threads_or_tasks_of_one_client_are_parties_too(self, world: World) -> None:
        a = world.client()
        barrier = a.client.barrier(NAME, 3)
        running = [a.api.start(lambda: barrier.wait(10)) for _ in range(3)]
        assert sorted(one.result() for one in running) == [0, 1, 2]
        assert (barrier.name, barrier.parties) == (NAME, 3)
        assert NAME in repr(barrier)

    def test_a_timeout_breaks_the_generation_for_all_that_wait(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        others = waiting(a, 4), waiting(b, 4)
        with Pace() as pace, pytest.raises(BarrierBroken) as error:
            wait(c, 4, timeout=0.4)
        assert 0.3 < pace.seconds < 5.0 + pace.late_s()  # the others have 20 s
        assert (error.value.name, error.value.generation, error.value.reason) == (NAME, 1, OUT_OF_TIME)
        assert [(broken(one).generation, broken(one).reason) for one in others] == [(1, OUT_OF_TIME)] * 2
        assert standing(world) == []
        with pytest.raises(BarrierBroken, match=r"generation 2 of barrier 'start'"):
            wait(a, 4, timeout=0)

    def test_what_was_broken_begins_clean(self, world: World) -> None:
        a, b = world.client(), world.client()
        with pytest.raises(BarrierBroken):
            wait(a, timeout=0)
        first = waiting(a)
        assert wait(b) == 1
        assert first.result() == 0

    def test_a_party_whose_session_ends_breaks_it_for_all(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**LONG)
        lost, other = waiting(a, 3), waiting(b, 3)
        world.store.end_session(a.client)
        assert broken(other).reason == GONE
        assert broken(lost).generation == 1
        assert until(lambda: standing(world) == [], 5)

    def test_a_party_that_an_operator_removes_breaks_it_for_all(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**LONG)
        removed, other = waiting(a, 3), waiting(b, 3)
        world.store.remove(standing(world)[0])
        assert broken(other).reason == GONE
        assert broken(removed).generation == 1

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_party_interrupted_anywhere_leaves_nothing_and_the_next_begins_clean(
        self, world: World, act: Act
    ) -> None:
        a, b = world.client(), world.client()
        for fault in each_step(a, act, by_caller_or_waiting):
            other = waiting(b, 3)
            try:
                wait(a, 3, timeout=0)
            except BarrierBroken:
                assert not fault.fired.is_set()
            except world.api.interrupts:
                assert fault.fired.is_set()
            fault.armed = False
            assert a.wait_clean()
            while not other.wait(0.1):  # it may not have seen the one that was interrupted
                for one in standing(world):
                    world.store.remove(one)
            assert isinstance(other.error(), BarrierBroken)
            assert until(lambda: standing(world) == [], 5)
            again = waiting(b)
            assert wait(a) == 1
            assert again.result() == 0

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_all_pass_once_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        for _ in each_step(a, act, by_caller):
            first = waiting(b)
            assert wait(a, timeout=20) == 1
            assert first.result() == 0
            assert standing(world) == []
        assert a.client.pending_cleanups == 0

    def test_a_party_that_was_interrupted_and_comes_again_counts_once(self, world: World) -> None:
        """Though its former contender is still there: its client has not withdrawn it yet."""
        a, b = world.client(**LONG), world.client()
        other = waiting(b, 3)
        fault = a.tap.fail(
            Act.INTERRUPT_BEFORE, 1, lambda asked: not asked.behind and asked.parts == (RECEIVE,)
        )
        lost = [a.tap.fail(Act.LOSE_REQUEST, 1, lambda asked: asked.behind) for _ in range(500)]
        with pytest.raises(world.api.interrupts):
            wait(a, 3)
        assert fault.fired.is_set()
        again = a.api.start(lambda: a.client.barrier(NAME, 3).wait(20))
        assert isinstance(other.error(), BarrierBroken)
        for one in lost:  # it may be withdrawn now
            one.armed = False
        other = waiting(b, 3)
        indexes = {wait(b, 3), other.result(), again.result()}
        assert indexes == {0, 1, 2}

    def test_others_that_name_another_number_are_refused_before_they_wait(self, world: World) -> None:
        a, b = world.client(), world.client()
        first = waiting(a, 2)
        with pytest.raises(BarrierMismatch, match=r"used for 2 parties, and not for 3") as error:
            wait(b, 3)
        assert (error.value.name, error.value.parties, error.value.others) == (NAME, 3, 2)
        assert isinstance(error.value, ValueError)
        assert len(standing(world)) == 1
        assert wait(b, 2) == 1
        assert first.result() == 0
        assert wait(b, 1) == 0  # nothing uses it any more

    @pytest.mark.parametrize(
        ("parties", "error"),
        [(0, ValueError), (-1, ValueError), (1001, ValueError), (True, TypeError), ("2", TypeError)],
    )
    def test_a_number_that_does_not_fit_is_refused_before_anything_is_sent(
        self, world: World, parties: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        with a.tap.counting() as asked:
            with pytest.raises(error):
                a.client.barrier(NAME, parties)
            with pytest.raises(ValueError, match="timeout"):
                wait(a, 2, -1)
        assert asked == []

    def test_a_lock_of_its_name_is_another_thing(self, world: World) -> None:
        a, b = world.client(), world.client()
        first = waiting(a)
        assert b.acquire(NAME, timeout=5).held
        assert b.client.grants != []
        assert wait(b) == 1
        assert first.result() == 0

    def test_closing_a_client_ends_its_waiting(self, world: World) -> None:
        a, b = world.client(), world.client()
        closed, other = waiting(a, 3), waiting(b, 3)
        a.close()
        assert isinstance(closed.error(), ClientClosed)
        assert broken(other).reason == GONE

    def test_a_store_that_does_not_answer_is_said_so(self, world: World) -> None:
        a = world.client(request_timeout=2.0)
        a.tap.silence()
        with pytest.raises(StoreUnavailable):
            wait(a, 2, timeout=0.2)
        a.tap.heal()
        assert a.wait_clean()
        assert standing(world) == []

    def test_a_record_that_is_none_is_refused(self, world: World) -> None:
        a = world.client()
        value = a.client.value(NAME)
        value._key = queue_of("barrier", NAME)
        a.api.do(lambda: value.set(b"2 or 3"))
        with pytest.raises(StoreRefused, match="not the record of one"):
            wait(a)

    def test_what_happens_is_told(self, world: World) -> None:
        a, b = world.client(), world.client()
        first = waiting(a)
        wait(b)
        first.result()
        with pytest.raises(BarrierBroken):
            wait(b, timeout=0)
        passed = world.heard.wait("barrier.passed", 2, name=NAME)
        assert {one.position for one in passed} == {0, 1}
        (told,) = world.heard.wait("barrier.broken", name=NAME)
        assert (told.recipe, told.reason) == ("barrier", OUT_OF_TIME)
        assert told.waited_s is not None

    # Double.

    def test_all_enter_together_and_leave_together(self, world: World) -> None:
        a, b = world.client(), world.client()
        one, other = Inside(a, 2), Inside(b, 2)
        assert one.entered.wait(10)
        assert other.entered.wait(10)
        assert {one.index, other.index} == {0, 1}
        assert len(standing(world)) == 2
        one.leaves.set()
        a.tap.wait_parked()
        assert not one.running.done
        other.leaves.set()
        for party in (one, other):
            party.running.result()
        assert standing(world) == []

    def test_one_that_crashes_inside_is_not_waited_for(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**LONG)
        crashed, other = Inside(a, 2), Inside(b, 2)
        assert crashed.entered.wait(10)
        assert other.entered.wait(10)
        other.leaves.set()
        b.tap.wait_parked()
        world.store.end_session(a.client)
        other.running.result()
        crashed.leaves.set()
        assert "not inside any more" in broken(crashed.running).reason
        assert standing(world) == []

    def test_one_whose_client_is_closed_as_it_leaves_is_not_inside_any_more(self, world: World) -> None:
        a, b = world.client(), world.client()
        closed, other = Inside(a, 2), Inside(b, 2)
        assert closed.entered.wait(10)
        assert other.entered.wait(10)
        closed.leaves.set()
        a.tap.wait_parked()
        a.api.do(a.client.close)
        assert "the client was closed" in broken(closed.running).reason
        other.leaves.set()
        other.running.result()
        assert standing(world) == []

    def test_one_that_does_not_leave_in_time_is_not_waited_for(self, world: World) -> None:
        a, b = world.client(), world.client()
        early, late = Inside(a, 2, leave_within=0.3), Inside(b, 2)
        assert early.entered.wait(10)
        assert late.entered.wait(10)
        early.leaves.set()
        assert "1 that entered were still inside" in broken(early.running).reason
        assert len(standing(world)) == 1
        late.leaves.set()
        late.running.result()
        assert standing(world) == []

    def test_the_next_that_enter_are_not_mixed_up_with_those_inside(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        first = Inside(a, 2), Inside(b, 2)
        assert all(one.entered.wait(10) for one in first)
        waits = waiting(c, 2)  # those inside are not counted
        assert wait(b, 2) == 1
        assert waits.result() == 0
        second = Inside(a, 2), Inside(c, 2)
        assert all(one.entered.wait(10) for one in second)
        for one in second:
            one.leaves.set()
        for one in second:
            one.running.result()
        assert not any(one.running.done for one in first)
        for one in first:
            one.leaves.set()
            one.running.wait(0.1)
        for one in first:
            one.running.result()
        assert standing(world) == []

    def test_a_generation_that_breaks_lets_nothing_in(self, world: World) -> None:
        a = world.client()
        barrier = a.client.barrier(NAME, 2)
        with pytest.raises(BarrierBroken):
            a.api.do(lambda: barrier.enter(0))
        assert standing(world) == []
        with pytest.raises(RuntimeError, match="was not entered by this thread or task"):
            a.api.do(barrier.leave)

    def test_one_enters_once_and_leaves_once(self, world: World) -> None:
        a = world.client()
        barrier = a.client.barrier(NAME, 1)
        for _ in range(2):
            assert a.api.do(barrier.enter) == 0
            with pytest.raises(RuntimeError, match="has to leave first"):
                a.api.do(barrier.enter)
            a.api.do(barrier.leave)
            with pytest.raises(RuntimeError, match="was not entered"):
                a.api.do(barrier.leave)
        assert standing(world) == []

    def test_a_forked_child_is_not_inside_and_its_parent_is(self, world: World) -> None:
        a = world.client()
        barrier = a.client.barrier(NAME, 1)
        assert a.api.do(barrier.enter) == 0
        told = "RuntimeError" if a.api.is_async else "BarrierBroken"  # tasks are of another loop there
        assert _in_child(lambda: _child_enters(a, barrier)) == f"{told} 0"
        assert until(lambda: len(standing(world)) == 1, 5)
        a.api.do(barrier.leave)
        assert standing(world) == []

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_entering_and_leaving_interrupted_anywhere_leave_nothing(self, world: World, act: Act) -> None:
        a = world.client()
        for fault in each_step(a, act, by_caller_or_waiting):
            barrier = a.client.barrier(NAME, 1)
            try:
                a.api.do(barrier.enter)
                a.api.do(barrier.leave)
            except world.api.interrupts:
                assert fault.fired.is_set()
            assert a.wait_clean()
            assert standing(world) == []
            fault.armed = False

    @pytest.mark.parametrize("act", LOSSES, ids=lambda act: act.name)
    def test_entering_and_leaving_are_done_once_whatever_is_lost(self, world: World, act: Act) -> None:
        a = world.client()
        for _ in each_step(a, act, by_caller):
            barrier = a.client.barrier(NAME, 1)
            assert a.api.do(lambda made=barrier: made.enter(20)) == 0
            assert len(standing(world)) == 1
            a.api.do(lambda made=barrier: made.leave(20))
            assert standing(world) == []


def _child_enters(parent: Party, barrier: Any) -> str:
    """Leave what the parent has entered, then enter; returns what that raised, and the index."""
    if not parent.api.is_async:
        try:
            barrier.leave()
        except (BarrierBroken, RuntimeError) as error:
            told = type(error).__name__
        index = barrier.enter(10)
        barrier.leave(10)
        parent.client.close()
        return f"{told} {index}"

    async def enter() -> str:
        try:
            await barrier.leave()
        except (BarrierBroken, RuntimeError) as error:
            told = type(error).__name__
        index = await barrier.enter(10)
        await barrier.leave(10)
        await parent.client.close()
        return f"{told} {index}"

    return asyncio.run(enter())
