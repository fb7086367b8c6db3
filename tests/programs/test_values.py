"""Reading and writing what all share, one operation after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.deadline import Expired
from recipes._contract.operations import Checked, Guard, Read, Settle, Stored, Write, Written
from recipes._programs.cleaner import Job, clean
from recipes._programs.hold import HeldState
from recipes._programs.observing import Observed, Observer, Topic, observe
from recipes._programs.steps import Pause
from recipes._programs.values import MOST_SEEN, Change, Writing, read, update, wait_until, write
from recipes.errors import LockLost, OutcomeUnknown, SessionLost, StoreUnavailable
from tests.programs.stepping import Script, play
from tests.programs.test_hold import hold as held
from tests.programs.test_hold import session

KEY = "~counter/n"
LABELS = {"name": "n", "recipe": "counter", "store": "memory://"}
DONE = Written(done=True, stored=Stored(b"2", 8))
UNKNOWN = OutcomeUnknown("memory://", "no answer", recipe="counter", name="n")


class Mail:
    def post(self, event: Any) -> None:
        pass

    def clear(self) -> None:
        pass


def writing(*holds: HeldState) -> Writing:
    guards = tuple((hold, hold.mode) for hold in holds)
    return Writing(KEY, 7, "added", LABELS, guards, lambda: LockLost("x", 1, "it is gone"))


def plus_one(stored: Stored) -> Change:
    return Change(b"%d" % (int(stored.data or b"0") + 1))


def test_a_read_is_one_request() -> None:
    played = play(read(KEY), Script(Attach=None, Read=Stored(b"1", 3)))
    assert (played.kinds, played.result) == (["Attach", "Read"], Stored(b"1", 3))


def test_an_update_need_not_remember_anything() -> None:
    played = play(update(writing(), plus_one), Script(Attach=None, Read=Stored(b"1", 3), Write=DONE))
    assert (played.result, played.error) == (Change(b"2"), None)
    assert play(update(writing(), lambda _: None), Script(Attach=None, Read=Stored(b"1", 3))).error is None


def test_a_write_names_its_number_and_its_condition() -> None:
    played = play(write(writing(), b"2", 5), Script(Attach=None, Write=DONE))
    assert played.only(Write) == Write(KEY, b"2", 7, 5)
    assert played.result is DONE
    assert played.events == ["counter.added"]


def test_one_that_was_not_done_is_not_told() -> None:
    refused = Written(done=False, stored=Stored(b"3", 9))
    played = play(write(writing(), b"2", 5), Script(Attach=None, Write=refused))
    assert (played.result, played.events) == (refused, [])


def test_on_a_session_that_has_ended_it_is_asked_again_on_the_next() -> None:
    played = play(write(writing(), b"2"), Script(Attach=None, Write=[SessionLost("gone"), DONE]))
    assert played.kinds == ["Attach", "Write", "Attach", "Write", "Emit"]


def test_what_is_unknown_is_told_and_not_asked_again() -> None:
    played = play(write(writing(), b"2"), Script(Attach=None, Write=UNKNOWN))
    assert played.error is UNKNOWN
    assert played.events == ["counter.unknown"]


def test_without_an_answer_in_time_nothing_was_sent() -> None:
    played = play(write(writing(), b"2"), Script(Attach=Expired()))
    assert isinstance(played.error, StoreUnavailable)


def test_guards_are_named_and_the_session_is_theirs() -> None:
    hold = held()
    played = play(write(writing(hold), b"2"), Script(Write=DONE))
    assert played.only(Write).guards == (Guard(hold.entry),)
    assert "Attach" not in played.kinds


@pytest.mark.parametrize(
    ("kind", "mode", "unchanged"),
    [("W", "exclusive", True), ("W", "shared", False), ("lock", "exclusive", False), ("R", "shared", False)],
)
def test_what_is_guarded_by_a_writer_alone_is_refused_once_it_downgraded(
    kind: str, mode: str, unchanged: bool
) -> None:
    hold = held()
    hold.entry = replace(hold.entry, ticket=replace(hold.entry.ticket, kind=kind))
    hold.labels = {**hold.labels, "mode": mode}
    played = play(write(writing(hold), b"2"), Script(Write=DONE))
    assert played.only(Write).guards == (Guard(hold.entry, unchanged),)


def test_a_guard_that_was_released_is_refused_before_anything_is_asked() -> None:
    hold = held()
    hold.release(100.0)
    played = play(write(writing(hold), b"2"), Script())
    assert isinstance(played.error, LockLost)
    assert "Write" not in played.kinds


def test_a_guard_that_is_held_in_another_way_now_is_refused() -> None:
    hold = held()
    guarded = writing(hold)
    hold.share()
    played = play(write(guarded, b"2"), Script())
    assert isinstance(played.error, LockLost)


def test_a_guard_that_the_store_does_not_find_is_lost() -> None:
    hold = held()
    refused = Written(done=False, guarded=False)
    gone = Checked(mine=False, present=frozenset())
    played = play(write(writing(hold), b"2"), Script(Write=refused, Check=gone))
    assert isinstance(played.error, LockLost)
    assert hold.reason is not None


def test_a_guards_session_that_ends_is_a_loss() -> None:
    hold = held()

    def end(_: Any) -> SessionLost:
        hold.lose("the session has ended")
        return SessionLost("gone")

    played = play(write(writing(hold), b"2"), Script(Write=end))
    assert isinstance(played.error, LockLost)
    assert played.kinds.count("Write") == 1


def test_an_update_reads_then_writes_and_then_only_writes() -> None:
    seen: dict[str, Stored] = {}
    script = Script(Attach=None, Read=Stored(b"1", 3), Write=DONE)
    first = play(update(writing(), plus_one, seen), script)
    assert first.kinds == ["Attach", "Read", "Attach", "Write", "Emit"]
    assert first.result == Change(b"2")
    second = play(update(writing(), plus_one, seen), script)
    assert second.kinds == ["Attach", "Write", "Emit"]
    assert second.only(Write) == Write(KEY, b"3", 7, 8)


def test_a_lost_race_costs_one_write_more() -> None:
    seen = {KEY: Stored(b"1", 3)}
    lost = Written(done=False, stored=Stored(b"5", 6))
    played = play(update(writing(), plus_one, seen), Script(Attach=None, Write=[lost, DONE]))
    assert [(op.data, op.if_version) for op in played.ops if isinstance(op, Write)] == [(b"2", 3), (b"6", 6)]


def test_from_the_second_lost_race_on_it_lets_others_go_first_and_reads() -> None:
    seen = {KEY: Stored(b"1", 3)}
    first, second, third = (Written(done=False, stored=Stored(b"%d" % n, n)) for n in (4, 5, 6))
    script = Script(Attach=None, Write=[first, second, third, DONE], Read=Stored(b"8", 8), Pause=None)
    played = play(update(writing(), plus_one, seen), script)
    assert [op.if_version for op in played.ops if isinstance(op, Write)] == [3, 4, 8, 8]
    assert [op.lost for op in played.ops if isinstance(op, Pause)] == [2, 3]


def test_no_time_to_let_others_go_first_is_no_answer() -> None:
    lost = Written(done=False, stored=Stored(b"5", 6))
    script = Script(Attach=None, Read=Stored(b"1", 3), Write=lost, Pause=Expired())
    played = play(update(writing(), plus_one), script)
    assert isinstance(played.error, StoreUnavailable)


def test_what_the_store_does_not_say_is_read() -> None:
    lost = Written(done=False)
    script = Script(Attach=None, Read=Stored(b"5", 6), Write=[lost, Written(done=True)])
    seen = {KEY: Stored(b"1", 3)}
    played = play(update(writing(), plus_one, seen), script)
    assert played.kinds == ["Attach", "Write", "Attach", "Read", "Attach", "Write", "Emit"]
    assert seen == {}


def test_a_refusal_by_what_is_remembered_is_looked_after() -> None:
    seen = {KEY: Stored(b"1", 3)}

    def if_five(stored: Stored) -> Change | None:
        return Change(b"x") if stored.data == b"5" else None

    played = play(update(writing(), if_five, seen), Script(Attach=None, Read=Stored(b"5", 6), Write=DONE))
    assert played.result == Change(b"x")
    seen = {KEY: Stored(b"1", 3)}
    played = play(update(writing(), if_five, seen), Script(Attach=None, Read=Stored(b"1", 3)))
    assert (played.result, played.kinds) == (None, ["Attach", "Read"])


def test_an_error_by_what_is_remembered_is_looked_after() -> None:
    def small(stored: Stored) -> Change:
        if stored.data == b"9":
            raise ValueError("the sum is too large")
        return plus_one(stored)

    seen = {KEY: Stored(b"9", 3)}
    played = play(update(writing(), small, seen), Script(Attach=None, Read=Stored(b"5", 6), Write=DONE))
    assert played.result == Change(b"6")
    seen = {KEY: Stored(b"9", 3)}
    played = play(update(writing(), small, seen), Script(Attach=None, Read=Stored(b"9", 3)))
    assert (repr(played.error), played.kinds) == ("ValueError('the sum is too large')", ["Attach", "Read"])


def test_only_the_latest_are_remembered() -> None:
    seen = {f"~counter/{n}": Stored(b"1", 3) for n in range(MOST_SEEN)}
    play(update(writing(), plus_one, seen), Script(Attach=None, Read=Stored(b"1", 3), Write=DONE))
    assert len(seen) == MOST_SEEN
    assert seen[KEY] == DONE.stored
    assert "~counter/0" not in seen


def test_the_cleaner_settles_a_write() -> None:
    given_up = Write(KEY, b"2", 7)
    played = play(clean(Job(session(), None, write=given_up)), Script(Settle=True))
    assert (played.only(Settle).write, played.result) == (given_up, True)


def test_a_value_is_observed_as_a_queue_is() -> None:
    topic, wanted = Topic(), iter((True, True, False))
    shown: list[Any] = []
    observer = Observer(topic, Mail())
    topic.add(observer)

    def seen(op: Any) -> Any:
        shown.append(topic.shown[1])
        return Expired() if len(shown) == 2 else None

    script = Script(
        Attach=None, Read=[Stored(b"1", 3), Stored(b"2", 4, due_s=1.0)], Wait=seen, Now=[0.0, 1.0, 2.0, 3.0]
    )
    played = play(observe(Observed(KEY, 1, reads=True), topic, lambda: next(wanted)), script)
    assert Read(KEY, watch=True) in played.ops
    assert shown == [Stored(b"1", 3), Stored(b"2", 4, due_s=1.0)]


@pytest.mark.parametrize(("answers", "reached"), [([None], True), ([None, None], True), ([Expired()], False)])
def test_waiting_ends_when_it_is_reached_or_the_time_is_over(answers: list[Any], reached: bool) -> None:
    topic = Topic()
    observer = Observer(topic, Mail())
    topic.add(observer)
    left = list(answers)

    def show(_: Any) -> Any:
        answer = left.pop(0)
        topic.show(len(left))
        return answer

    played = play(wait_until(observer, lambda seen: seen == 0), Script(Wait=show))
    assert played.result is reached
