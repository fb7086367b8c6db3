"""Several acquired together, by hand: all or none, whatever is thrown in at any operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from recipes._contract.deadline import Expired
from recipes._contract.operations import Check, Checked, Enqueue, Entry, Probe, Snapshot, Withdraw
from recipes._contract.wakeups import Event
from recipes._programs.hold import INTERRUPTED, REMOVED, HeldState, StoreSession
from recipes._programs.queueing import Attempt
from recipes._programs.steps import Wait
from recipes._programs.together import (
    Part,
    Together,
    Whole,
    acquire_all,
    release_all,
    try_all,
    verify_all,
)
from recipes._rules.exclusive import EXCLUSIVE
from recipes.errors import ClientClosed, LockTimeout, SessionLost, StoreUnavailable
from tests.programs.stepping import Played, Script, admitted, advance, others, play, session

ERRORS = [
    KeyboardInterrupt,
    asyncio.CancelledError,
    SystemExit,
    Expired,
    ClientClosed,
    lambda: StoreUnavailable("s", "x"),
    lambda: SessionLost("x"),
]
QUEUES = ("a", "b", "c")
LABELS = {"name": "a, b, c", "recipe": "multilock", "store": "s"}


def report_to(told: list[str]) -> Callable[[Together], None]:
    """Return what notes the event of an end, if it is to be reported."""
    return lambda whole: told.extend(one.event for one in whole.end_to_report(100.0))


class Scene:
    """Three locks that are free, but for those that are said to be held."""

    def __init__(self, *blocked: str, requeues: bool = True) -> None:
        self.session: StoreSession = session()
        self.blocked = set(blocked)
        self.woken = 0
        self.ids = iter(range(1, 100))
        parts = [Part(self.attempt(queue), lambda: None) for queue in QUEUES]
        self.kept: list[Together] = []
        self.ends: list[str] = []
        self.whole = self.whole_of(parts, requeues=requeues)

    def whole_of(self, parts: Sequence[Part], *, requeues: bool) -> Whole:
        return Whole(parts, LABELS, [], self.wake, report_to(self.ends), self.kept.append, requeues)

    def attempt(self, queue: str) -> Attempt:
        labels = {"name": queue, "recipe": "lock", "store": "s"}
        return Attempt(queue, EXCLUSIVE, lambda: f"id-{next(self.ids)}", labels)

    def wake(self) -> None:
        self.woken += 1

    def placed(self, op: Any) -> Any:
        mine = Entry(op.ticket, f"{op.ticket.queue}/{op.ticket.id}", 7)
        if not self.is_blocked(op):
            return Snapshot(mine, (), complete=True, position=0)
        return None if isinstance(op, Probe) else Snapshot(mine, others("x"), complete=True, position=1)

    def script(self, **answers: Any) -> Script:
        said = {"Enqueue": self.placed, "Probe": self.placed, "Watch": True, "Withdraw": True, **answers}
        return Script(Attach=self.session, Admit=admitted(self.session), **said)

    def is_blocked(self, op: Any) -> bool:
        return op.ticket.queue in self.blocked

    def left(self, played: Played) -> set[str]:
        """Return what may be in a queue, and is neither withdrawn nor left to the cleaner or to unwinding."""
        asked = {op.ticket.id for op in played.ops if isinstance(op, Enqueue)}
        asked |= {op.ticket.id for op in played.ops if isinstance(op, Probe) and not self.is_blocked(op)}
        gone = {op.ticket.id for op in played.ops if isinstance(op, Withdraw)}
        gone |= {ticket.id for ticket in played.abandoned if ticket is not None}
        if played.error is not None:  # what runs the program gives back what is in here
            gone |= {hold.entry.ticket.id for hold in self.whole.held}
        return asked - gone


def held(scene: Scene) -> bool:
    return all(hold.remaining(100.0) > 0 for hold in scene.whole.held)


def test_all_are_acquired_in_turn() -> None:
    scene = Scene()
    played = play(acquire_all(scene.whole), scene.script())
    assert played.result is scene.whole
    assert [op.ticket.queue for op in played.ops if isinstance(op, Enqueue)] == list(QUEUES)
    assert played.events == ["lock.acquired"] * 3 + ["multilock.acquired"]
    assert held(scene)


def test_its_event_says_how_long_it_waited_for_all() -> None:
    scene, times = Scene(), iter([98.0, *[100.0] * 20])
    played = play(acquire_all(scene.whole), scene.script(Now=lambda _: next(times)))
    assert (played.told[-1].event, played.told[-1].waited_s) == ("multilock.acquired", 2.0)


def test_a_try_gives_back_what_it_took_the_last_first() -> None:
    scene = Scene("c")
    played = play(try_all(scene.whole), scene.script())
    assert (played.result, scene.whole.held) == (None, [])
    assert [op.ticket.queue for op in played.ops if isinstance(op, Withdraw)] == ["b", "a"]
    assert played.events == ["lock.acquired"] * 2 + ["lock.released"] * 2


@pytest.mark.parametrize("make_error", ERRORS)
@pytest.mark.parametrize("program", [acquire_all, try_all])
@pytest.mark.parametrize("blocked", ["", "c"])
def test_all_or_none_whatever_is_thrown_in(program: Any, blocked: str, make_error: Callable[[], Any]) -> None:
    def scene_and_script() -> tuple[Scene, Script]:
        scene = Scene(*blocked)
        waits = [Event(), lambda op: scene.blocked.clear() or LockTimeout("c", 1.0)]
        return scene, scene.script(Wait=waits, Check=Checked(True, frozenset({"x"})))

    straight, script = scene_and_script()
    for step in range(len(play(program(straight.whole), script).ops)):
        scene, script = scene_and_script()
        played = play(program(scene.whole), script, fail_at=step, error=make_error())
        context = f"{make_error()!r} at {step}: {played.kinds}"
        left = scene.left(played)
        if played.result is None:
            assert not left, context
        else:
            assert left == {hold.entry.ticket.id for hold in scene.whole.held}, context
            assert len(left) == len(QUEUES), context
            assert held(scene), context


@pytest.mark.parametrize("program", [acquire_all, try_all])
def test_closing_it_yields_nothing(program: Any) -> None:
    straight = Scene()
    for step in range(len(play(program(straight.whole), straight.script()).ops)):
        scene = Scene()
        running = program(scene.whole)
        advance(running, scene.script(), step)
        running.close()  # a RuntimeError if it yields


@pytest.mark.parametrize("requeues", [True, False])
@pytest.mark.parametrize("at", ["a part", "the whole"])
def test_one_whose_client_is_closed_meanwhile_does_not_begin_again(at: str, requeues: bool) -> None:
    """Closing first releases what is held, and then ends the session."""
    scene = Scene("c", requeues=requeues) if at == "a part" else Scene(requeues=requeues)

    def close(op: Any) -> Any:
        for hold in scene.whole.held:
            hold.release(100.0)

    def close_at_last(op: Any) -> Any:
        return close(op) if op.transition.event == "multilock.acquired" else None

    answers = {"Wait": close} if at == "a part" else {"Emit": close_at_last}
    played = play(acquire_all(scene.whole), scene.script(**answers))
    assert isinstance(played.error, ClientClosed)
    ends = [one.event for one in played.told if not one.event.endswith(("acquired", "queued", "released"))]
    assert (
        ends
        == {
            "a part": ["lock.cancelled", "multilock.cancelled"],
            "the whole": ["multilock.lost", "multilock.cancelled"],
        }[at]
    )
    assert scene.left(played) == set()


@pytest.mark.parametrize("requeues", [True, False])
def test_a_part_lost_while_another_is_waited_for(requeues: bool) -> None:
    scene = Scene("c", requeues=requeues)

    def lose(op: Any) -> Event:
        assert scene.whole.held[0].lose(REMOVED)
        assert scene.woken == 1
        scene.blocked.clear()
        return Event()

    played = play(acquire_all(scene.whole), scene.script(Wait=lose))
    assert Check not in map(type, played.ops)  # it reads nothing before it gives up
    asked = [op.ticket.queue for op in played.ops if isinstance(op, Enqueue)]
    withdrawn = [op.ticket.queue for op in played.ops if isinstance(op, Withdraw)]
    assert withdrawn == ["b"]
    assert [ticket.queue for ticket in played.abandoned if ticket] == ["c"]
    if requeues:
        assert asked == [*QUEUES, *QUEUES]
        assert played.events[-5:] == ["multilock.requeued", *["lock.acquired"] * 3, "multilock.acquired"]
        assert (scene.whole.number, held(scene)) == (2, True)
    else:
        assert asked == [*QUEUES]
        assert played.events[-2:] == ["lock.released", "multilock.cancelled"]
        assert isinstance(played.error, SessionLost)
        assert played.error.lock == LABELS["name"]


def test_a_session_that_ends_before_the_next_part_is_asked_for() -> None:
    scene = Scene()
    first = scene.session

    def end(op: Any) -> Any:
        if scene.session is first and op.ticket.queue == "b":
            old, scene.session = scene.session, session()
            old.ended = "expired"
            return SessionLost("expired")
        return scene.placed(op)

    script = scene.script(Enqueue=end)
    script._answers["Attach"] = [lambda op: scene.session]
    script._answers["Admit"] = [lambda op: admitted(scene.session)(op)]  # noqa: PLW0108 - whichever it is
    played = play(acquire_all(scene.whole), script)
    assert [op.ticket.queue for op in played.ops if isinstance(op, Enqueue)] == ["a", "b", *QUEUES]
    assert held(scene)
    assert {hold.session for hold in scene.whole.held} == {scene.session}


def test_a_part_lost_by_the_clock_is_found_before_the_wait() -> None:
    scene = Scene("b")
    scene.whole.parts[0].attempt.max_hold_s = 5.0
    now = [100.0]

    def late(op: Any) -> bool:
        now[0] = 106.0
        return True

    wait = AssertionError("it should not wait")
    script = scene.script(Wait=wait, Watch=late, Now=lambda op: now[0])
    played = play(acquire_all(scene.whole_of(scene.whole.parts, requeues=False)), script)
    assert isinstance(played.error, SessionLost)
    assert "max_hold" in played.error.reason
    assert Wait not in map(type, played.ops)
    assert {ticket.queue for ticket in played.abandoned if ticket} == {"a", "b"}  # not by keepalives
    assert played.events[-3:] == ["lock.cancelled", "lock.lost", "multilock.cancelled"]


@pytest.mark.parametrize("program", [acquire_all, try_all])
def test_one_whose_session_ends_as_it_is_reported_is_reported_as_lost(program: Any) -> None:
    scene = Scene()

    def emit(op: Any) -> None:
        if op.transition.event == "multilock.acquired" and scene.whole.number == 1:
            for hold in scene.whole.held:
                hold.lose(REMOVED)

    played = play(program(scene.whole), scene.script(Emit=emit))
    own = [one for one in played.events if one.startswith("multilock") and one != "multilock.requeued"]
    assert own == ["multilock.acquired", "multilock.lost", "multilock.acquired"]
    lost = next(one for one in played.told if one.event == "multilock.lost")
    assert (lost.reason, lost.attempt) == (f"lock 'a' is lost: {REMOVED}", 1)
    assert [kept.ended for kept in scene.kept] == [True, False]


def test_one_that_is_interrupted_as_it_is_reported_is_reported_as_lost() -> None:
    scene = Scene()
    steps = play(acquire_all(scene.whole), scene.script()).kinds
    last = len(steps) - 1 - steps[::-1].index("Emit")
    scene = Scene()
    played = play(acquire_all(scene.whole), scene.script(), fail_at=last, error=KeyboardInterrupt())
    lost = next(one for one in played.told if one.event == "multilock.lost")
    assert lost.reason == INTERRUPTED
    assert scene.kept[0].loss_to_report() == []


def together(told: list[str] | None = None) -> Together:
    at = session()
    holds = []
    for number, queue in enumerate(QUEUES):
        scene = Scene()
        entry = Entry(scene.attempt(queue).next_ticket(), f"{queue}/id", number)
        labels = {"name": queue, "recipe": "lock", "store": "s"}
        holds.append(HeldState(entry, at, "owner", 90.0 + number, labels))
    made = Together(holds, {**LABELS, "attempt": 1}, report_to([] if told is None else told))
    made.follow()
    return made


def test_what_messages_call_it_has_the_id_of_its_first_part() -> None:
    whole = together()
    whole.grant = SimpleNamespace(token=None)
    assert whole.title == f"multilock 'a, b, c' (id {whole.parts[0].entry.ticket.id})"


def test_release_withdraws_the_last_first() -> None:
    whole = together()
    assert whole.release(100.0)
    assert whole.freed
    assert not any(part.remaining(100.0) for part in (whole, *whole.parts))
    played = play(release_all(whole), Script(Withdraw=True))
    assert [op.ticket.queue for op in played.ops if isinstance(op, Withdraw)] == ["c", "b", "a"]
    assert played.events == ["lock.released"] * 3 + ["multilock.released"]
    assert played.ops[-1].transition.held_s == 8.0
    assert (played.result, whole.release(100.0)) == (True, False)


def test_of_two_releases_at_the_same_time_one_says_that_it_was_held() -> None:
    """And each part is withdrawn once."""
    whole = together()
    first, second = release_all(whole), release_all(whole)
    assert whole.release(100.0)
    asked = [next(first)]
    assert whole.release(100.0), "there is something to withdraw"
    asked.append(next(second))
    played = [play(continued(one, True), Script(Withdraw=True)) for one in (second, first)]
    asked += [op for one in played for op in one.ops if isinstance(op, Withdraw)]
    assert sorted(op.ticket.queue for op in asked) == ["a", "b", "c"]
    assert [one.result for one in played] == [False, True]
    told = [event for one in played for event in one.events]
    assert sorted(told) == ["lock.released"] * 3 + ["multilock.released"]
    assert not whole.release(100.0)


def continued(program: Any, answer: Any) -> Any:
    """Go on with what has asked once."""
    op = program.send(answer)
    while True:
        try:
            op = program.send((yield op))
        except StopIteration as stop:
            return stop.value


def test_a_release_that_did_not_come_to_withdraw_anything_is_finished_by_the_next() -> None:
    whole = together()
    assert whole.release(100.0)
    assert whole.release(100.0)
    played = play(release_all(whole), Script(Withdraw=True))
    assert [op.ticket.queue for op in played.ops if isinstance(op, Withdraw)] == ["c", "b", "a"]
    assert (played.result, whole.release(100.0)) == (True, False)


def test_release_finds_that_a_part_was_lost_before() -> None:
    told: list[str] = []
    whole = together(told)
    assert whole.release(100.0)
    played = play(release_all(whole), Script(Withdraw=[True, False, True]))
    assert (played.result, whole.reason) == (False, f"lock 'b' is lost: {REMOVED}")
    assert played.events == ["lock.released", "lock.lost", "lock.released"]
    assert told == ["multilock.lost"]


def test_release_of_one_that_lost_a_part_gives_the_others_back() -> None:
    told: list[str] = []
    asked: list[Together] = []
    parts = together().parts
    tell = report_to(told)
    whole = Together(parts, {**LABELS, "attempt": 1}, lambda it: (asked.append(it), tell(it))[1])
    whole.follow()
    ended: list[str | None] = []
    whole.on_end = lambda: ended.append(whole.reason)
    assert whole.parts[1].lose(REMOVED)
    assert whole.parts[2].lose(REMOVED)
    assert ended == [f"lock 'b' is lost: {REMOVED}"]
    assert told == ["multilock.lost"]
    assert asked == [whole], "of the end of the second part nothing is to be told"
    assert (whole.remaining(100.0), whole.ended, whole.parts[0].remaining(100.0) > 0) == (0.0, False, True)
    assert whole.release(100.0)
    played = play(release_all(whole), Script(Withdraw=True))
    assert (played.result, played.events) == (False, ["lock.released"])
    assert whole.ended


@pytest.mark.parametrize("error", [asyncio.CancelledError(), KeyboardInterrupt()])
def test_a_release_that_is_cancelled_is_reported_for_the_whole(error: BaseException) -> None:
    whole = together()
    assert whole.release(100.0)
    played = play(release_all(whole), Script(Withdraw=[True, error]))
    assert played.error is error
    assert played.events == ["lock.released"] * 3 + ["multilock.released"]


def test_closing_a_release_yields_nothing() -> None:
    whole = together()
    assert whole.release(100.0)
    program = release_all(whole)
    next(program)
    program.close()


@pytest.mark.parametrize("order", ["abc", "cab"])
def test_its_release_is_told_once_each_part_was_released_by_itself(order: str) -> None:
    told: list[str] = []
    whole = together(told)
    for at in order:
        assert told == []
        assert whole.parts["abc".index(at)].release(100.0)
    assert told == ["multilock.released"]
    assert (whole.release(100.0), whole.reason, told) == (False, None, ["multilock.released"])


def test_the_release_of_one_of_which_a_part_was_released_is_told_once() -> None:
    told: list[str] = []
    whole = together(told)
    assert whole.parts[1].release(100.0)
    assert whole.release(100.0)
    played = play(release_all(whole), Script(Withdraw=True))
    assert played.result is False, "it was not held any more"
    assert [one for one in played.events if one != "lock.released"] == ["multilock.released"]
    assert told == []


def test_a_part_that_was_lost_before_it_is_followed_is_told() -> None:
    told: list[str] = []
    parts = together().parts
    assert parts[1].lose(REMOVED)
    whole = Together(parts, {**LABELS, "attempt": 1}, report_to(told))
    assert told == []
    whole.follow()
    assert told == ["multilock.lost"]


def test_verify_stops_at_the_first_that_is_gone() -> None:
    whole = together()
    assert play(verify_all(whole), Script(Check=Checked(True, frozenset()))).result is True
    played = play(verify_all(whole), Script(Check=[Checked(True, frozenset()), Checked(False, frozenset())]))
    assert (played.result, played.kinds.count("Check")) == (False, 2)
    assert whole.lost(100.0) == f"lock 'b' is lost: {REMOVED}"
    assert not whole.parts[2].ended


def test_it_is_held_no_longer_than_any_part() -> None:
    whole = together()
    whole.parts[1].until, whole.parts[1].max_hold_s = 101.0, 10.0
    assert whole.remaining(100.0) == 1.0
    assert whole.lost(102.0) == f"lock 'b' is lost: {whole.parts[1].lost(102.0)}"
    assert not whole.progress(102.0)
