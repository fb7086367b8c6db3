"""Entering a hold again, without a client: who releases it, and what a loss does."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from recipes._programs.hold import NOT_RENEWED, HeldState
from recipes._programs.reentry import Reentries, Reentry
from recipes.errors import LockLost
from tests.programs.test_hold import hold


class Room:
    """A hold that may be entered, and what it told."""

    def __init__(self, max_hold_s: float | None = None) -> None:
        self.whole = hold(max_hold_s=max_hold_s)
        self.left: list[Reentries] = []
        self.told: list[Any] = []
        self.reentries = Reentries(self.whole, nullcontext(), self.left.append)

    def enter(self, now: float = 101.0) -> Reentry:
        reentry = self.reentries.new()
        assert self.reentries.enter(reentry, now)
        reentry.on_end = lambda: self.told.append(reentry)
        return reentry


def test_the_last_to_leave_releases_the_whole() -> None:
    room = Room()
    outer, inner = room.enter(), room.enter()
    assert outer.remaining(102.0) == inner.remaining(102.0) == room.whole.remaining(102.0) == 11.5
    assert outer.release(102.0)
    assert (outer.ended, outer.released, outer.freed, outer.reason) == (True, True, False, None)
    assert (outer.remaining(102.0), outer.lost(999.0)) == (0.0, None)
    assert not outer.release(102.0)
    assert not inner.ended
    assert not room.left
    assert inner.release(103.0)
    assert inner.freed
    assert room.whole.released
    assert room.left == [room.reentries]
    assert room.told == [outer, inner]
    assert not room.reentries.enter(room.reentries.new(), 103.0), "it was released: the next holds anew"


def test_of_two_that_leave_in_each_other_one_releases_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler may leave the outer one in the middle of leaving the inner one."""
    room, real = Room(), HeldState.is_overheld
    outer, inner = room.enter(), room.enter()

    def struck(self: HeldState, now: float) -> bool:
        monkeypatch.setattr(HeldState, "is_overheld", real)
        assert outer.release(now)
        return real(self, now)

    monkeypatch.setattr(HeldState, "is_overheld", struck)
    inner.release(102.0)
    assert room.whole.released


def test_a_loss_is_that_of_all_and_ends_when_all_have_left() -> None:
    room = Room()
    outer, inner, gone = room.enter(), room.enter(), room.enter()
    gone.release(101.0)
    room.told.clear()
    assert inner.lose("revoked")
    assert room.told == [outer, inner]
    assert [one.reason for one in (outer, inner, gone)] == ["revoked", "revoked", None]
    assert [one.lost(102.0) for one in (outer, inner, gone)] == ["revoked", "revoked", None]
    assert outer.ended
    with pytest.raises(LockLost, match="revoked, and this thread or task has not released"):
        room.reentries.enter(room.reentries.new(), 102.0)
    assert not outer.release(102.0)
    assert not outer.release(102.0)
    assert not room.left
    assert not inner.release(102.0)
    assert room.left == [room.reentries]
    assert outer.reason == "revoked"


def test_progress_in_one_is_progress_of_all() -> None:
    room = Room(max_hold_s=5.0)
    outer, inner = room.enter(), room.enter()
    assert inner.progress(104.0)
    assert outer.remaining(104.0) == 5.0
    inner.release(104.0)
    assert not inner.progress(104.0)
    assert outer.progress(105.0)
    assert not outer.progress(110.0)
    assert not outer.release(110.0)
    assert room.left == [room.reentries]


def test_a_loss_that_shows_by_the_clock_is_told_by_the_last_to_leave() -> None:
    room, told = Room(), []
    outer, inner = room.enter(), room.enter()
    assert not inner.release(113.5, told.append)
    assert not told
    with pytest.raises(LockLost, match=NOT_RENEWED):
        room.reentries.enter(room.reentries.new(), 113.0)
    assert not outer.release(113.5, told.append)
    assert [transition.event for transition in told] == ["lock.lost"]
    assert outer.reason == NOT_RENEWED


@pytest.mark.parametrize("max_hold_s", [None, 5.0])
def test_those_that_leave_before_the_loss_is_reported_are_notified_of_it(max_hold_s: float | None) -> None:
    room = Room(max_hold_s)
    left, inner, outer = (room.enter() for _ in range(3))
    assert left.release(104.0)
    room.told.clear()
    for one in (inner, outer):
        assert not one.release(113.5)
        assert not one.release(113.5), "and again does nothing"
    room.whole.lose("the session has ended")
    assert set(room.told) == {inner, outer}
    assert [one.lost(113.5) is None for one in (left, inner, outer)] == [True, False, False]


def test_one_that_leaves_as_the_loss_is_being_reported_is_notified_of_it() -> None:
    room = Room()
    reentry = room.enter()
    room.whole._end["end"] = ("revoked",)  # another thread has come so far
    assert not reentry.release(101.0)
    assert room.told == [reentry]


def test_nobody_need_listen() -> None:
    room = Room()
    outer, inner = room.enter(), room.reentries.new()
    assert room.reentries.enter(inner, 101.0)
    assert room.reentries.grants == []
    inner.grant = "grant"
    assert room.whole.grants == ["grant"]
    room.whole.lose("revoked")
    assert room.told == [outer]
    assert not inner.release(101.0)
    assert not outer.release(101.0)
    room = Room()
    assert not room.enter().release(113.5)
    assert room.whole.reason == NOT_RENEWED


def test_a_release_that_the_store_refutes_is_a_loss() -> None:
    room = Room()
    outer = room.enter()
    assert outer.release(101.0)
    outer.turned_out_lost("removed")
    assert (outer.reason, room.whole.reason) == ("removed", "removed")


def test_who_comes_second_to_leave_finds_it_left() -> None:
    class Slow:
        """Another thread leaves while this one comes to the guard."""

        def __enter__(self) -> None:
            room.reentries._inside.pop(reentry, None)
            room.whole.release(101.0)

        def __exit__(self, *error: object) -> None:
            pass

    room = Room()
    reentry = room.enter()
    room.reentries._guard = Slow()  # type: ignore[assignment]
    assert not reentry.release(101.0)
    assert room.reentries._inside == {}


def test_an_interrupted_leaving_is_finished_by_the_next() -> None:
    room = Room()
    reentry = room.enter()
    room.reentries._inside.clear()  # it struck behind this
    assert reentry.release(101.0)
    assert room.whole.released


def test_of_two_that_leave_at_once_only_the_last_withdraws() -> None:
    room = Room()
    outer, inner = room.enter(), room.enter()
    assert outer.release(101.0)
    assert inner.release(101.0)
    assert (outer.freed, inner.freed) == (False, True)


def test_an_interrupted_leaving_of_one_among_others_is_over_all_the_same() -> None:
    room = Room()
    outer, inner = room.enter(), room.enter()
    room.reentries._inside.pop(inner)  # it struck behind this
    assert not inner.release(101.0)
    assert inner.remaining(101.0) == 0
    assert outer.remaining(101.0) > 0


def test_the_whole_guards_through_each_entry() -> None:
    room = Room()
    outer, inner = room.enter(), room.enter()
    assert outer.guard()
    assert room.whole.guards
    assert outer.release(102.0)
    assert not outer.guard(), "it was left"
    assert inner.guard()
