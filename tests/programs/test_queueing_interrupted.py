"""Every program, with an exception thrown in at every operation: nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.contenders import DOWNGRADED
from recipes._contract.deadline import Expired
from recipes._contract.operations import Checked, Withdraw
from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes._programs.cleaner import REFUSED_PAUSE_S, Job, clean, rest
from recipes._programs.hold import HeldState
from recipes._programs.queueing import acquire, downgrade, release, try_acquire, verify
from recipes._programs.session import SessionEvent
from recipes._programs.steps import Abandon, Wait
from recipes._rules.readwrite import SHARED
from recipes.errors import ClientClosed, LockTimeout, SessionLost, StoreFull, StoreRefused, StoreUnavailable
from tests.programs.stepping import Script, admitted, advance, entry, others, play, session, snapshot, ticket
from tests.programs.test_keep import Keeping
from tests.programs.test_queueing import attempt, hold, released

INTERRUPTS = [KeyboardInterrupt, asyncio.CancelledError, SystemExit, MemoryError]
ERRORS = [*INTERRUPTS, Expired, lambda: StoreUnavailable("s", "x"), lambda: SessionLost("x"), ClientClosed]


def contended() -> Script:
    """A long way to the grant: every kind of operation comes up."""
    at = session()
    return Script(
        Attach=at,
        Enqueue=[snapshot("c", "b", "a"), snapshot()],  # queued again, nobody is ahead
        Watch=[True, False, True],
        Wait=[None, Gone("b"), Gone("x"), Gone("c")],
        Check=[Checked(True, frozenset({"b"})), Checked(True, frozenset())],
        Look=[snapshot("x", "c"), snapshot("c")],
        Admit=admitted(at),
    )


def let_in() -> Script:
    """A reader's way to the grant, behind a writer that downgrades."""
    at = session()
    left = replace(snapshot("w"), ahead=(replace(others("w")[0], mark=DOWNGRADED),))
    return Script(
        Attach=at, Enqueue=snapshot("w"), Watch=True, Wait=Changed("w"), Look=left, Admit=admitted(at)
    )


def free() -> Script:
    at = session()
    return Script(Attach=at, Enqueue=snapshot(), Probe=snapshot(), Admit=admitted(at), Withdraw=True)


def busy() -> Script:
    return Script(Attach=session(), Probe=snapshot("a"), Withdraw=True)


CASES: dict[str, tuple[Callable[[], Any], Callable[[], Script]]] = {
    "acquire, contended": (lambda: acquire(attempt()), contended),
    "read, behind a downgrade": (lambda: acquire(attempt(SHARED)), let_in),
    "acquire, free": (lambda: acquire(attempt()), free),
    "try, free": (lambda: try_acquire(attempt()), free),
    "try, busy": (lambda: try_acquire(attempt()), busy),
}


def every_step(program: Callable[[], Any], script: Callable[[], Script]) -> range:
    return range(len(play(program(), script()).ops))


def test_the_contended_way_has_every_operation() -> None:
    kinds = play(acquire(attempt()), contended()).kinds
    assert set(kinds) == {"Now", "Attach", "Enqueue", "Emit", "Watch", "Wait", "Check", "Look", "Admit"}


@pytest.mark.parametrize("make_error", ERRORS)
@pytest.mark.parametrize("case", CASES)
def test_what_may_be_enqueued_is_abandoned_exactly_once(case: str, make_error: Any) -> None:
    program, script = CASES[case]
    asked_for = ticket(1, "R" if case.startswith("read") else "lock")
    for step in every_step(program, script):
        error = make_error()
        played = play(program(), script(), fail_at=step, error=error)
        context = f"{case}, {error!r} at {step} {played.kinds}"
        if isinstance(error, SessionLost) and step > 0:  # once more, on the next session
            again = case != "try, busy"
            assert isinstance(played.result, HeldState) if again else played.result is None, context
            assert played.abandoned == [asked_for], context
            assert (played.events[-1:] == ["lock.acquired"]) is again, context
            continue
        assert played.abandoned == ([asked_for] if step > 0 else []), context
        assert played.error is not None, context
        if isinstance(error, Expired) and step > 0:
            wanted = LockTimeout if not case.startswith("try") else StoreUnavailable
            assert isinstance(played.error, wanted), context
        else:
            assert played.error is error, context


@pytest.mark.parametrize("make_error", ERRORS)
@pytest.mark.parametrize("case", CASES)
def test_the_cleaner_is_asked_before_anything_else_is_done(case: str, make_error: Any) -> None:
    program, script = CASES[case]
    for step in every_step(program, script)[1:]:
        played = play(program(), script(), fail_at=step, error=make_error())
        assert isinstance(played.ops[step + 1], Abandon)


@pytest.mark.parametrize("case", [*CASES, "release", "verify", "downgrade", "clean", "keep"])
def test_closing_a_program_yields_nothing(case: str) -> None:
    keeping = Keeping(renewals=2)
    program, script = {
        **CASES,
        "release": (lambda: release(released()), lambda: Script(Withdraw=True)),
        "verify": (lambda: verify(hold()), lambda: Script(Check=Checked(True, frozenset()))),
        "downgrade": (lambda: downgrade(hold()), lambda: Script(Rewrite=1)),
        "clean": (lambda: clean(Job(session(), None)), lambda: Script(End=None)),
        "keep": (keeping.program, keeping.script),
    }[case]
    for step in every_step(program, script):
        keeping.reset()
        running = program()
        advance(running, script(), step)
        running.close()  # a RuntimeError if it yields


def test_interrupted_in_the_cleanup_of_an_interruption() -> None:
    first, second = KeyboardInterrupt("first"), KeyboardInterrupt("second")
    played = play(acquire(attempt()), Script(Attach=session(), Enqueue=first, Abandon=second))
    assert played.error is second
    assert played.error.__context__ is first


@pytest.mark.parametrize("make_error", INTERRUPTS)
def test_release_interrupted(make_error: Any) -> None:
    for step in range(3):
        error = make_error()
        played = play(release(released()), Script(Withdraw=True), fail_at=step, error=error)
        assert played.error is error
        assert played.abandoned == ([ticket(1)] if step == 0 else []), "else it is deleted already"


@pytest.mark.parametrize("make_error", INTERRUPTS)
def test_verify_interrupted(make_error: Any) -> None:
    error = make_error()
    played = play(verify(hold()), Script(), fail_at=0, error=error)
    assert played.error is error
    assert played.kinds == ["Check"]


@pytest.mark.parametrize("make_error", INTERRUPTS)
def test_downgrade_interrupted(make_error: Any) -> None:
    """The grant stays, and counts as shared, however far it got."""
    for step in range(3):
        error, held = make_error(), hold()
        played = play(downgrade(held), Script(Rewrite=1), fail_at=step, error=error)
        assert played.error is error
        assert (held.mode, held.ended, bool(held.mark)) == ("shared", False, step > 0)
        assert played.abandoned == []


@pytest.mark.parametrize("make_error", INTERRUPTS)
@pytest.mark.parametrize("job", [Job(session(), None), Job(session(), ticket(1), entry())])
def test_clean_interrupted(make_error: Any, job: Any) -> None:
    error = make_error()
    played = play(clean(job), Script(), fail_at=0, error=error)
    assert played.error is error
    assert len(played.ops) == 1


@pytest.mark.parametrize("make_error", INTERRUPTS)
def test_keep_interrupted(make_error: Any) -> None:
    straight = Keeping(renewals=2)
    for step in range(len(play(straight.program(), straight.script()).ops)):
        keeping = Keeping(renewals=2)
        error = make_error()
        played = play(keeping.program(), keeping.script(), fail_at=step, error=error)
        assert played.error is error
        assert len(played.ops) == step + 1, "whoever runs it ends its session"


@pytest.mark.parametrize("ending", [SessionLost("x"), Expired()])
def test_clean_ends_where_nothing_more_can_be_done(ending: Any) -> None:
    played = play(clean(Job(session(), ticket(1))), Script(Withdraw=ending))
    assert (played.error, played.result, played.kinds) == (None, True, ["Withdraw"])


@pytest.mark.parametrize("ending", [SessionLost("x"), StoreRefused("s", "x"), Expired()])
def test_clean_leaves_a_session_that_cannot_be_ended(ending: Any) -> None:
    job = Job(session(), None)
    played = play(clean(job), Script(End=ending))
    assert (played.error, played.result, played.kinds) == (None, True, ["End"])
    assert job.session.protocol.lives_on is not isinstance(ending, SessionLost)


@pytest.mark.parametrize("error", [StoreRefused("s", "x"), StoreFull("s", "x"), StoreUnavailable("s", "x")])
def test_clean_of_a_ticket_that_is_refused_is_to_be_done_again(error: Any) -> None:
    played = play(clean(Job(session(), ticket(1))), Script(Withdraw=error))
    assert played.ops == [Withdraw(ticket(1), None)]
    assert (played.error, played.result) == (None, False)


@pytest.mark.parametrize(
    ("event", "again"), [(None, True), (SessionEvent(), True), (Disturbed(), False)], ids=repr
)
def test_what_was_refused_is_tried_again_in_time_or_as_a_session_ends(event: Any, again: bool) -> None:
    played = play(rest(99.5), Script(Now=100.0, Wait=event))
    assert (played.ops[-1], played.result) == (Wait(99.5 + REFUSED_PAUSE_S - 100.0), again)


def test_clean_withdraws_with_what_is_known() -> None:
    played = play(clean(Job(session(), ticket(1), entry())), Script(Withdraw=True))
    assert (played.ops, played.result) == ([Withdraw(ticket(1), entry())], True)
    played = play(clean(Job(session(), ticket(1))), Script(Withdraw=False))
    assert (played.ops, played.result) == ([Withdraw(ticket(1), None)], True)


def test_clean_tells_of_a_session_that_had_begun() -> None:
    played = play(clean(Job(session(), None)), Script(End=None))
    assert (played.kinds, played.events) == (["End", "Emit"], ["session.closed"])
    assert play(clean(Job(session(ttl_s=None), None)), Script(End=None)).kinds == ["End"]
