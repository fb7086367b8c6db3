"""What a held contender says is written in place; what was given up never lands behind a later write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.deadline import Expired
from recipes._contract.operations import List, Listing, Rewrite
from recipes._programs.hold import HeldState
from recipes._programs.rewriting import rewrite
from recipes.errors import SessionLost, StoreUnavailable
from tests.programs.stepping import Script, play
from tests.programs.test_hold import hold as held

MOST = 10


class Store:
    """A contender on a store, whose answers can be lost, and whose writes can be late."""

    def __init__(self, hold: HeldState) -> None:
        entry = hold.entry
        self.shown: Contender | None = Contender(entry.ref, token=entry.token)
        self.late: list[Rewrite] = []
        self.fates: list[str] = []

    def rewrite(self, op: Rewrite) -> int | Expired | None:
        fate = self.fates.pop(0) if self.fates else "done"
        if fate == "late":
            self.late.append(op)
            return Expired()
        done = self.land(op)
        if fate == "unanswered":
            return Expired()
        return None if fate == "asked again" else done

    def land(self, op: Rewrite) -> int | None:
        if self.shown is None or op.version not in (None, self.shown.version):
            return None
        self.shown = replace(self.shown, mark=op.mark, data=op.data, version=self.shown.version + 1)
        return self.shown.version

    def listed(self, op: Any) -> Listing:
        del op
        return Listing(() if self.shown is None else (self.shown,))

    @property
    def script(self) -> Script:
        return Script(Rewrite=self.rewrite, List=self.listed)


def test_it_is_one_write_each_time() -> None:
    hold = held()
    store = Store(hold)
    for number, text in enumerate((b"a", b"b"), 1):
        played = play(rewrite(hold, "m", text, MOST), store.script)
        assert played.result is True
        assert played.kinds == ["Rewrite"]
        assert (hold.version, hold.mark, hold.data) == (number, "m", text)
    assert store.shown is not None
    assert (store.shown.mark, store.shown.data) == ("m", b"b")
    assert hold.rewritten


def test_an_answer_that_comes_behind_that_of_a_later_write_changes_nothing() -> None:
    """Of two calls that write at the same time: a mark, say, and what the user says."""
    hold = held()
    store = Store(hold)
    slow = rewrite(hold, "m", None, MOST)
    answer = store.rewrite(next(slow))
    assert play(rewrite(hold, None, b"new", MOST), store.script).result
    with pytest.raises(StopIteration) as done:
        slow.send(answer)
    assert done.value.value is True
    assert (hold.version, hold.mark, hold.data) == (2, "m", b"new")


def test_a_read_that_comes_behind_the_answer_to_a_later_write_changes_nothing() -> None:
    """Its mark went with the next write: the others shared out as if this member was not there."""
    hold = held()
    store = Store(hold)
    marking = rewrite(hold, "m", None, MOST)
    asked = next(marking)
    saying = rewrite(hold, None, b"x", MOST)
    listing = store.listed(next(saying))
    with pytest.raises(StopIteration):
        marking.send(store.rewrite(asked))
    again = saying.send(listing)
    assert (again.mark, again.data, again.version) == ("m", b"x", 1)
    with pytest.raises(StoreUnavailable):
        saying.throw(Expired())
    assert play(rewrite(hold, None, b"y", MOST), store.script).result
    assert store.shown is not None
    assert (store.shown.mark, store.shown.data) == ("m", b"y")


def test_likewise_where_it_reads_because_somebody_else_has_written() -> None:
    hold = held()
    store = Store(hold)
    assert store.land(Rewrite(hold.entry, "x", b"x", 0)) == 1
    marking = rewrite(hold, "m", None, MOST)
    assert store.rewrite(next(marking)) is None
    listing = store.listed(marking.send(None))
    assert play(rewrite(hold, None, b"new", MOST), store.script).result
    again = marking.send(listing)
    assert (again.mark, again.data, again.version) == ("m", b"new", 2)
    assert (hold.mark, hold.data) == ("x", b"new")


def test_a_write_that_was_given_up_never_lands_behind_a_later_one() -> None:
    hold = held()
    store = Store(hold)
    store.fates = ["late"]
    assert isinstance(play(rewrite(hold, "", b"v1", MOST), store.script).error, StoreUnavailable)
    assert hold.version is None
    assert hold.rewritten
    played = play(rewrite(hold, "", b"v2", MOST), store.script)
    assert played.kinds == ["List", "Rewrite"]
    assert store.land(store.late[0]) is None
    assert store.shown is not None
    assert store.shown.data == b"v2"


def test_also_if_the_later_one_says_what_is_there_already() -> None:
    hold = held()
    store = Store(hold)
    assert play(rewrite(hold, "", b"v1", MOST), store.script).result
    store.fates = ["late"]
    assert play(rewrite(hold, "", b"v0", MOST), store.script).error
    assert play(rewrite(hold, "", b"v1", MOST), store.script).result
    assert store.land(store.late[0]) is None
    assert store.shown is not None
    assert store.shown.data == b"v1"


def test_a_write_that_landed_between_the_read_and_the_next_is_followed() -> None:
    hold = held()
    store = Store(hold)
    store.fates = ["late"]
    assert play(rewrite(hold, "", b"v1", MOST), store.script).error

    def listed(op: Any) -> Listing:
        seen = store.listed(op)
        for one in store.late:
            store.land(one)
        store.late.clear()
        return seen

    played = play(rewrite(hold, "", b"v2", MOST), Script(Rewrite=store.rewrite, List=listed))
    assert played.result is True
    assert played.kinds == ["List", "Rewrite", "List", "Rewrite"]
    assert store.shown is not None
    assert (store.shown.data, store.shown.version) == (b"v2", 2)


def test_a_lost_answer_is_read_and_not_written_twice() -> None:
    hold = held()
    store = Store(hold)
    store.fates = ["asked again"]
    played = play(rewrite(hold, "", b"v1", MOST), store.script)
    assert played.result is True
    assert played.kinds == ["Rewrite", "List"]
    assert hold.version == 1


@pytest.mark.parametrize("known", [0, None])
def test_one_that_is_gone_is_lost(known: int | None) -> None:
    hold = held()
    store = Store(hold)
    store.shown, hold.version = None, known
    played = play(rewrite(hold, "", b"v1", MOST), store.script)
    assert played.result is False
    assert played.events == ["lock.lost"]
    assert played.abandoned == [hold.entry.ticket]


def test_one_that_was_released_meanwhile_is_not_told_lost() -> None:
    hold = held()
    store = Store(hold)
    store.shown = None
    hold.release(101.0)
    assert play(rewrite(hold, "", b"v1", MOST), store.script).events == []


def test_with_the_session_it_is_lost() -> None:
    hold = held()
    script = Script(Rewrite=SessionLost("expired"))
    assert play(rewrite(hold, "", b"v1", MOST), script).result is False


def test_what_is_not_named_stays_whatever_another_call_writes_meanwhile() -> None:
    hold = held()
    store = Store(hold)
    marking, saying = rewrite(hold, "m", None, MOST), rewrite(hold, None, b"said", MOST)
    asked = [marking.send(None), saying.send(None)]
    assert isinstance(asked[1], List), "how often it is rewritten is not known while another is at it"
    listed = store.listed(asked[1])
    assert isinstance(asked[0], Rewrite)
    store.land(asked[0])
    late = saying.send(listed)
    assert (late.mark, late.data, late.version) == ("", b"said", 0)
    again = saying.send(store.land(late))
    assert isinstance(again, List)
    last = saying.send(store.listed(again))
    assert (last.mark, last.data, last.version) == ("m", b"said", 1)
    with pytest.raises(StopIteration):
        saying.send(store.land(last))
    assert (hold.mark, hold.data) == ("m", b"said")
