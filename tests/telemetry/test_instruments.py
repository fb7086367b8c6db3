from __future__ import annotations

from typing import Any

import pytest

from recipes.events import EVENTS, HELD, SHARED, Transition, event_of
from recipes.telemetry import INSTRUMENTS, instruments
from recipes.telemetry.instruments import Meter

LABELS = {"recipe": "lock", "mode": "exclusive", "store": "memory://"}


class Clocked:
    """A meter that is fed by hand; says what it measured in short."""

    def __init__(self, **options: Any) -> None:
        self.meter = Meter(**options)

    def tell(self, event: str, now: float, **fields: Any) -> list[tuple[str, float, str]]:
        of_lock = (
            {"name": "x", "attempt": 1, **LABELS} if event.startswith("lock.") else {"store": "memory://"}
        )
        found = list(self.meter.measures(Transition(event, **{**of_lock, **fields}), now))
        for measure in found:
            assert set(measure.labels) == set(self.meter.label_names(measure.instrument))
        return [(one.instrument.name, round(one.value, 6), one.labels.get("outcome", "")) for one in found]

    def acquired(self, now: float, token: int, waited_s: float = 0.0, **fields: Any) -> Any:
        return self.tell("lock.acquired", now, token=token, waited_s=waited_s, **fields)

    def released(self, now: float, token: int, **fields: Any) -> Any:
        return self.tell("lock.released", now, token=token, held_s=0.5, **fields)


def test_a_call_is_measured_whatever_comes_of_it() -> None:
    meter = Clocked()
    name = "lock.acquire.duration"
    assert meter.acquired(0, 1, 0.25) == [(name, 0.25, "acquired")]
    assert meter.tell("lock.timeout", 1, waited_s=2.0) == [(name, 2.0, "timeout")]
    assert meter.tell("lock.cancelled", 1, waited_s=3.0, reason="Why") == [(name, 3.0, "cancelled")]


def test_a_hold_is_measured_to_its_end_or_its_loss() -> None:
    meter = Clocked()
    meter.acquired(10, 1)
    assert meter.released(10.5, 1) == [("lock.hold.duration", 0.5, "released")]
    meter.acquired(20, 2)
    assert meter.tell("lock.lost", 24, token=2, reason="revoked") == [
        ("lock.lost", 1, ""),
        ("lock.hold.duration", 4, "lost"),
    ]
    assert meter.tell("lock.lost", 25, token=2, reason="revoked") == [("lock.lost", 1, "")], "began unseen"


@pytest.mark.parametrize("noun", HELD)
def test_what_each_noun_has_a_word_of_its_own_for_is_measured(noun: str) -> None:
    meter = Clocked()
    held = {"name": "x", "attempt": 1, **LABELS, "recipe": noun, "token": 1}
    begun, ended = event_of(noun, "acquired"), event_of(noun, "released")
    assert meter.tell(begun, 0, **held, waited_s=2.0) == [(f"{noun}.acquire.duration", 2.0, "acquired")]
    assert meter.tell(ended, 3, **held, held_s=3.0) == [(f"{noun}.hold.duration", 3.0, "released")]
    again = meter.tell(begun, 3.5, **held, waited_s=1.0)
    assert (f"{noun}.handover.duration", 0.5, "") in again
    if f"{noun}.queued" in EVENTS:  # a multi-lock queues by its parts
        assert meter.tell(f"{noun}.queued", 4, **held, position=1) == [(f"{noun}.contended", 1, "")]


def test_members_that_are_there_together_hand_nothing_over() -> None:
    meter = Clocked()
    of_group = {"name": "g", "attempt": 1, **LABELS, "recipe": "group"}
    meter.tell("group.joined", 0, **of_group, token=1, waited_s=0)
    meter.tell("group.joined", 1, **of_group, token=2, waited_s=0)
    left = [("group.hold.duration", 1.0, "released")]
    assert meter.tell("group.left", 2, **of_group, token=2, held_s=1.0) == left
    assert meter.tell("group.left", 3, **of_group, token=1, held_s=1.0) == left


def test_what_is_counted() -> None:
    meter = Clocked()
    assert meter.tell("lock.queued", 0, position=2) == [("lock.contended", 1, "")]
    assert meter.tell("lock.requeued", 0, reason="lost") == [("lock.requeued", 1, "")]
    assert meter.tell("session.suspect", 0) == [("session.late_renewals", 1, "")]
    assert meter.tell("session.lost", 0, reason="late") == [("session.lost", 1, "")]
    assert meter.tell("store.retry", 0, reason="cut") == [("store.retries", 1, "")]
    silent = ["lock.downgraded", "lock.suspect", "session.started", "session.closed", "store.stranger"]
    assert [meter.tell(event, 0) for event in silent] == [[]] * 5


def test_every_event_is_decided_on() -> None:
    measured = {
        event_of(noun, what) for noun in HELD for what in ("acquired", "timeout", "cancelled", "released")
    }
    silent = {"lock.downgraded", *(f"{noun}.suspect" for noun in HELD if noun != "multilock")}
    silent |= {"semaphore.limit_differs", "session.started", "session.closed", "store.stranger"}
    measured |= {event for event in EVENTS if event.partition(".")[0] in (*SHARED, "barrier")}
    assert {*instruments._COUNTED, *measured, *silent} == set(EVENTS)


def test_each_noun_has_instruments_of_its_own() -> None:
    of_a_lock = {one.name for one in INSTRUMENTS if one.has_name and one.name.startswith("lock.")}
    assert len(of_a_lock) == 6
    nouns = {one.name.partition(".")[0] for one in INSTRUMENTS if one.has_name}
    assert nouns == {*HELD, *SHARED, "barrier"}


@pytest.mark.parametrize("outcome", ["passed", "broken"])
def test_a_call_of_a_barrier_is_measured_whatever_comes_of_it(outcome: str) -> None:
    told = {"name": "b", "recipe": "barrier", "waited_s": 2.5}
    measured = Clocked().tell(f"barrier.{outcome}", 0, **told)
    assert measured == [("barrier.wait.duration", 2.5, outcome)]


@pytest.mark.parametrize(
    ("noun", "outcomes"),
    [
        ("value", ["written", "deleted", "unknown"]),
        ("counter", ["added", "written", "unknown"]),
        ("latch", ["counted", "unknown"]),
    ],
)
def test_writes_are_counted_by_what_came_of_them(noun: str, outcomes: list[str]) -> None:
    meter = Meter(lambda name: name.partition("/")[0])
    for outcome in outcomes:
        told = Transition(f"{noun}.{outcome}", name="user/17", recipe=noun, store="memory://", version=7)
        (measure,) = meter.measures(told, 0)
        assert (measure.instrument.name, measure.value) == (f"{noun}.writes", 1)
        assert measure.labels == {
            "recipe": noun,
            "store": "memory://",
            "outcome": outcome,
            "name": "user",
        }


def test_a_hand_over_is_from_a_release_to_the_next_who_waited_for_it() -> None:
    meter = Clocked()
    meter.acquired(0, 1)
    meter.released(1, 1)
    assert ("lock.handover.duration", 0.002, "") in meter.acquired(1.002, 2, waited_s=0.5)
    meter.released(2, 2)
    assert len(meter.acquired(7, 3, waited_s=0.1)) == 1, "it came when the lock was free"
    meter.released(8, 3)
    meter.acquired(8.1, 4, waited_s=0)
    meter.released(9, 4, name="another")
    assert len(meter.acquired(9.1, 5, waited_s=5.0)) == 1, "of another lock"


def test_a_hand_over_that_was_faster_than_its_confirmation_takes_no_time() -> None:
    meter = Clocked()
    meter.acquired(0, 1)
    assert len(meter.acquired(1, 2, waited_s=0.9)) == 1
    assert ("lock.handover.duration", 0, "") in meter.released(1.001, 1)
    assert len(meter.released(2, 2)) == 1
    assert ("lock.handover.duration", 0.5, "") in meter.acquired(2.5, 3, waited_s=1)


def test_a_confirmation_may_come_later_than_that_of_the_next_holder() -> None:
    meter = Clocked()
    meter.acquired(0, 1)
    meter.acquired(1, 2, waited_s=0.9)
    assert len(meter.released(2, 2)) == 1
    assert ("lock.handover.duration", 0, "") in meter.released(2.001, 1)
    assert ("lock.handover.duration", 0.5, "") in meter.acquired(2.5, 3, waited_s=1)


def test_a_grant_whose_end_was_never_told_spoils_one_hand_over_only() -> None:
    meter = Clocked()
    meter.acquired(0, 1)  # and no more is heard of it
    meter.acquired(5, 2)
    meter.released(6, 2)
    assert ("lock.handover.duration", 0.5, "") in meter.acquired(6.5, 3, waited_s=1)


def test_readers_take_over_together_and_the_last_of_them_gives_back() -> None:
    meter = Clocked()
    reader = {"mode": "shared", "recipe": "rwlock"}
    meter.acquired(0, 1)
    meter.released(1, 1)
    for token, now in ((2, 1.1), (3, 1.2)):
        assert ("lock.handover.duration", round(now - 1, 6), "") in meter.acquired(now, token, 1, **reader)
    assert len(meter.released(2, 2, **reader)) == 1
    assert len(meter.released(3, 3, **reader)) == 1
    assert ("lock.handover.duration", 0.25, "") in meter.acquired(3.25, 4, waited_s=2)


def test_locks_are_told_apart_only_where_that_is_asked_for() -> None:
    assert Clocked().acquired(0, 1)
    meter = Meter(lambda name: name.partition("/")[0])
    (measure,) = meter.measures(Transition("lock.timeout", name="user/17", waited_s=1.0, **LABELS), 0)
    assert measure.labels == {**LABELS, "outcome": "timeout", "name": "user"}
    (counted,) = meter.measures(Transition("store.retry", store="memory://"), 0)
    assert counted.labels == {"store": "memory://"}


def test_what_it_remembers_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(instruments, "MOST", 3)
    meter = Meter()
    for token in range(10):
        list(meter.measures(Transition("lock.acquired", name="x", token=token, mode="shared"), token))
        list(meter.measures(Transition("lock.acquired", name=f"x{token}", token=token), token))
    assert len(meter._lines) == 3
    assert all(len(line.holds) <= 3 for line in meter._lines.values())


def test_names_are_unique_and_say_their_unit() -> None:
    assert len({one.name for one in INSTRUMENTS}) == len(INSTRUMENTS)
    assert {one.unit for one in INSTRUMENTS if one.kind == "histogram"} == {"s"}
