"""Receipts: what several writes of one session, and copies of their requests, do to one value."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from recipes._contract.operations import Write, Written
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.receipts import MOST_KNOWN, Exchange, Exchanged, Receipts, settle_once, write_once

KEY = "~value/a"


class Store:
    """One value and the receipt of one session: what came of each exchange, in one step."""

    def __init__(self) -> None:
        self.written: list[bytes | None] = []
        self.is_empty = True
        self.version = 0
        self.receipt = b""

    def carry_out(self, put: Exchange) -> Exchanged:
        fits = put.settles or put.write.if_version in (None, 0 if self.is_empty else 1)
        done = put.expected == self.version and fits
        if done:
            self.version, self.receipt = self.version + 1, put.receipt
            if not put.settles:
                self.written.append(put.write.data)
        return Exchanged(done, self.version, self.receipt)


def ask(put: Exchange) -> Generator[Exchange, Exchanged, Exchanged]:
    return (yield put)


class Session:
    """One session, whose requests a test passes on, or loses, one by one."""

    def __init__(self) -> None:
        self.store, self.receipts = Store(), Receipts()

    def asks(self, write: Write, *, again: bool = False) -> Generator[Exchange, Exchanged, Any]:
        return write_once(self.receipts, write, ask, again=again)

    def done(self, steps: Generator[Exchange, Exchanged, Any]) -> Any:
        """Carry out all that is asked; return what it comes to."""
        try:
            put = next(steps)
            while True:
                put = steps.send(self.store.carry_out(put))
        except StopIteration as stop:
            return stop.value


def test_a_write_whose_answer_is_lost_is_not_done_again_when_another_has_heard_of_it() -> None:
    one = Session()
    first, second = Write(KEY, b"first", 1), Write(KEY, b"second", 2)
    lost = next(one.asks(first))
    one.store.carry_out(lost)  # and nobody hears
    assert one.done(one.asks(second)) == Written(done=True)
    assert one.done(one.asks(first, again=True)) == Written(done=True)
    assert one.store.written == [b"first", b"second"]


def test_a_write_whose_answer_is_lost_is_not_done_again_when_nobody_has_heard_of_it() -> None:
    one = Session()
    first = Write(KEY, b"first", 1)
    one.store.carry_out(next(one.asks(first)))
    assert one.done(one.asks(first, again=True)) == Written(done=True)
    assert one.store.written == [b"first"]


def test_a_copy_that_is_late_changes_nothing() -> None:
    one = Session()
    first, second = Write(KEY, b"first", 1), Write(KEY, b"second", 2)
    late = next(one.asks(first))
    assert one.done(one.asks(first, again=True)) == Written(done=True)
    assert one.done(one.asks(second)) == Written(done=True)
    assert not one.store.carry_out(late).done
    assert one.store.written == [b"first", b"second"]


@pytest.mark.parametrize("copies", [True, False])
def test_what_was_refused_as_a_value_was_there_is_not_done_when_that_is_gone(copies: bool) -> None:
    """A way that doubles what it carries may deliver the copy then; others are not asked once more."""
    one, if_none = Session(), Write(KEY, b"mine", 1, if_version=0)
    one.store.is_empty = False
    asked: list[Exchange] = []

    def counted(put: Exchange) -> Generator[Exchange, Exchanged, Exchanged]:
        asked.append(put)
        return (yield put)

    steps = write_once(one.receipts, if_none, counted, again=False, copies=copies)
    assert not one.done(steps).done
    one.store.is_empty = True
    assert one.store.carry_out(asked[0]).done is not copies
    assert len(asked) == (2 if copies else 1)


def test_what_was_given_up_and_settled_is_not_done_afterwards() -> None:
    one = Session()
    first = Write(KEY, b"first", 1)
    late = next(one.asks(first))
    assert one.done(settle_once(one.receipts, first, ask)) is False
    assert not one.store.carry_out(late).done
    assert one.store.written == []


def test_what_was_refused_is_asked_for_no_more() -> None:
    for error, kept in (
        (StoreRefused("s", "no"), False),
        (StoreUnavailable("s", "refused", unsent=True), False),
        (StoreUnavailable("s", "silent"), True),
    ):
        one = Session()
        steps = one.asks(Write(KEY, b"first", 1))
        next(steps)
        with pytest.raises(type(error)):
            steps.throw(error)
        assert bool(one.receipts._asking) is kept


def test_what_may_have_been_done_is_asked_for_when_a_later_try_was_refused() -> None:
    one = Session()
    steps = one.asks(Write(KEY, b"first", 1), again=True)
    next(steps)
    with pytest.raises(StoreRefused):
        steps.throw(StoreRefused("s", "no"))
    assert one.receipts._asking


def test_receipts_that_were_forgotten_are_found_by_one_try_more() -> None:
    one = Session()
    assert one.done(one.asks(Write(KEY, b"first", 1))) == Written(done=True)
    for number in range(MOST_KNOWN + 1):
        one.receipts.note(f"~value/{number}", Exchanged(True, 1, b""))
    assert len(one.receipts._known) <= MOST_KNOWN
    assert KEY not in one.receipts._known
    assert one.done(one.asks(Write(KEY, b"second", 2))) == Written(done=True)
    assert one.store.written == [b"first", b"second"]
