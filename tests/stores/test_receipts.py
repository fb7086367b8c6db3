"""Each write is done once at most, and its call never says otherwise, whatever is lost or comes late."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipes._contract.operations import Stored, Write, Written
from recipes.stores.receipts import Exchange, Exchanged, Receipts, settle_once, write_once
from tests.mutants.in_receipts import IN_RECEIPTS
from tests.mutants.transports import TransportMutant
from tests.stores.receipt_world import World, ask, play
from tests.stores.stepping import feed

WRITE = Write("~value/x", b"new", 7)
OTHER = Write("~value/x", b"other", 8)
VALUE = Stored(b"new", 5)


def played(count: int) -> Iterator[World]:
    """Play tapes that are the same each time."""
    for seed in range(count):
        tossed = random.Random(seed)
        yield play([tossed.randrange(2**16) for _ in range(60)])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.integers(0, 2**16), max_size=80))
def test_no_order_of_events_makes_a_write_land_twice_or_its_call_say_what_is_not_so(tape: list[int]) -> None:
    play(tape)


def test_the_tapes_bring_about_all_that_may_happen() -> None:
    worlds = [*played(150)]
    calls = [call for world in worlds for call in world.calls]
    came_to = {call.came_to if isinstance(call.came_to, bool) else call.came_to.done for call in calls}  # type: ignore[union-attr]
    assert came_to == {True, False}
    assert {(call.settling, call.came_to) for call in calls if call.settling} == {(True, True), (True, False)}
    assert any(len(world.store.landed) > 3 for world in worlds)


@pytest.mark.parametrize("bug", IN_RECEIPTS, ids=lambda bug: bug.name)
def test_a_bug_is_noticed(bug: TransportMutant) -> None:
    with ExitStack() as stack:
        for patch in bug.plant():
            stack.enter_context(patch)
        with pytest.raises(AssertionError):
            deque(played(3000), maxlen=0)


def test_a_write_that_is_answered_costs_one_request() -> None:
    receipts = Receipts()
    asked = feed(write_once(receipts, WRITE, ask, again=False), Exchanged(True, 5, b"7", VALUE))
    assert asked == [Exchange(WRITE, 0, b"7")]
    assert asked.result == Written(done=True, stored=VALUE)
    asked = feed(write_once(receipts, OTHER, ask, again=False), Exchanged(True, 6, b"8", VALUE))
    assert asked == [Exchange(OTHER, 5, b"8")]  # nobody asks for the first any more


def test_a_condition_that_fails_costs_one_request_and_says_what_is_there() -> None:
    found = Exchanged(False, 0, b"", VALUE, guarded=False)
    asked = feed(write_once(Receipts(), WRITE, ask, again=False), found)
    assert asked == [Exchange(WRITE, 0, b"7")]
    assert asked.result == Written(done=False, stored=VALUE, guarded=False)


def test_the_oldest_that_nobody_asks_for_are_surplus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipes.stores.receipts.MOST_KEPT", 2)
    receipts = Receipts()
    for number in range(4):
        receipts.note(f"k{number}", Exchanged(True, number + 5, b"1"))
    receipts.begin(Write("k0", b"", 9))
    assert receipts.surplus() == (("k1", 6),)
    assert (receipts.known("k0").version, receipts.known("k1").version) == (5, 0)
    assert receipts.surplus() == ()
    receipts.end(Write("k0", b"", 9))
    receipts.note("k4", Exchanged(True, 9, b"1"))
    assert receipts.surplus(3) == ()
    assert receipts.surplus() == (("k0", 5), ("k2", 7))


def test_a_lost_answer_is_found_in_the_receipt() -> None:
    asked = feed(write_once(Receipts(), WRITE, ask, again=True), Exchanged(False, 5, b"7", VALUE))
    assert asked == [Exchange(WRITE, 0, b"7")]
    assert asked.result == Written(done=True)  # what is there now may be a later write's


def test_one_that_was_asked_before_is_settled_before_it_is_said_not_to_be_done() -> None:
    receipts = Receipts()
    refused, settled = Exchanged(False, 0, b"", VALUE), Exchanged(True, 6, b"")
    asked = feed(write_once(receipts, WRITE, ask, again=True), refused, settled)
    assert asked == [Exchange(WRITE, 0, b"7"), Exchange(WRITE, 0, b"", settles=True)]
    assert asked.result == Written(done=False, stored=VALUE)
    refused, landed = Exchanged(False, 6, b"", VALUE), Exchanged(False, 9, b"7", VALUE)
    asked = feed(write_once(receipts, WRITE, ask, again=True), refused, landed)
    assert asked.result == Written(done=True)  # the earlier try came in between


def test_a_write_of_which_another_of_the_session_has_read_is_not_asked_again() -> None:
    receipts = Receipts()
    receipts.begin(WRITE)
    feed(
        write_once(receipts, OTHER, ask, again=False),
        Exchanged(False, 5, b"7"),
        Exchanged(True, 6, b"7 8", VALUE),
    )
    asked = feed(write_once(receipts, WRITE, ask, again=True))
    assert (asked, asked.result) == ([], Written(done=True))


def test_what_is_given_up_is_settled_by_a_new_version_unless_it_is_known_to_have_landed() -> None:
    receipts = Receipts()
    receipts.begin(WRITE)
    feed(
        write_once(receipts, OTHER, ask, again=False),
        Exchanged(False, 5, b"7"),
        Exchanged(True, 6, b"7 8", VALUE),
    )
    asked = feed(settle_once(receipts, WRITE, ask))
    assert (asked, asked.result) == ([], True)
    given_up = Write("~value/x", b"late", 9)
    asked = feed(settle_once(receipts, given_up, ask), Exchanged(False, 9, b""), Exchanged(True, 10, b""))
    assert asked == [Exchange(given_up, 6, b"", settles=True), Exchange(given_up, 9, b"", settles=True)]
    assert asked.result is False


def test_a_receipt_that_is_gone_is_known_to_be_none() -> None:
    receipts = Receipts()
    assert receipts.note(WRITE.key, Exchanged(False, 5, b"7")).done == {7}
    assert receipts.note(WRITE.key, Exchanged(False, 0, b"")) == receipts.known("~value/other")


def test_a_call_never_ends_amid_a_world_without_losses() -> None:
    world = World()
    for _ in range(5):
        world.begin(0)
    world.end()
    assert world.store.landed == [0, 1, 2, 3, 4]
