"""Programs turned into effects, answered by hand."""

from __future__ import annotations

from typing import Any

import pytest

from recipes._contract import operations as ops
from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.deadline import NEVER, Deadline, Expired
from recipes._contract.operations import Entry, Snapshot, Ticket
from recipes._contract.wakeups import Changed, Disturbed, Gone, HandedOn, LocallyGone
from recipes._programs import steps
from recipes._programs.cleaner import Job, clean
from recipes._programs.session import OpenFailed, SessionEvent
from recipes._rules.exclusive import EXCLUSIVE
from recipes._run.interpreter import END_UNBORN_WITHIN_S, Receive, interpret
from recipes._run.retries import LONGEST_PAUSE_S
from recipes.errors import ClientClosed, SessionLost, StoreFull, StoreRefused, StoreUnavailable
from recipes.events import Transition
from recipes.stores._kit.queue import Command
from tests.programs.stepping import Script, play
from tests.run.doubles import HandRuntime

TICKET = Ticket("q", "lock", "id-1")
MINE = Entry(TICKET, "q/id-1", 7)
OTHER = Contender("q/other", "other")
ALONE = Snapshot(MINE, (), complete=True, position=0)
CUT = StoreUnavailable("memory://", "cut")


class Run:
    """One operation, or program, of a call; each effect is answered by hand."""

    def __init__(self, call: Any, program: Any) -> None:
        self.call = call
        self.effects = interpret(iter(program) if isinstance(program, ops.Op) else program, call)
        self.result: Any = None
        self.done = False
        self.effect: Any = None
        self._step(lambda: self.effects.send(None))

    def _step(self, go: Any) -> None:
        try:
            self.effect = go()
        except StopIteration as stop:
            self.effect, self.result, self.done = None, stop.value, True

    def answer(self, reply: Any = None) -> Run:
        assert not self.done
        self._step(lambda: self.effects.send(reply))
        return self

    def fail(self, error: BaseException) -> Run:
        assert not self.done
        self._step(lambda: self.effects.throw(error))
        return self

    @property
    def asks(self) -> Any:
        """The operation that the memory protocol passes on in the request that is asked now."""
        assert isinstance(self.effect, Command), self.effect
        return self.effect.op

    @property
    def pauses(self) -> float | None:
        assert isinstance(self.effect, Receive), self.effect
        return self.effect.at_most_s


@pytest.fixture
def runtime() -> HandRuntime:
    return HandRuntime()


def attached(runtime: HandRuntime, **options: Any) -> Any:
    return runtime.call(session=runtime.live(), **options)


# What needs no store.


def test_what_is_done_without_io(runtime: HandRuntime) -> None:
    call = attached(runtime)

    def program() -> Any:
        now = yield from steps.Now()
        yield from steps.Emit(Transition("store.retry", reason="x"))
        yield from steps.Abandon(None)
        return now

    run = Run(call, program())
    assert run.done
    assert run.result == 1000.0
    assert [t.event for t in runtime.told] == ["store.retry"]
    assert [(job.session, job.ticket) for job in runtime.jobs] == [(call.session, None)]


def test_what_a_program_raises_and_returns_comes_out(runtime: HandRuntime) -> None:
    def raising() -> Any:
        yield from steps.Now()
        raise KeyError("x")

    with pytest.raises(KeyError):
        Run(runtime.call(), raising())


def test_the_failure_of_an_operation_is_thrown_into_the_program(runtime: HandRuntime) -> None:
    def program() -> Any:
        try:
            yield from ops.Enqueue(TICKET, EXCLUSIVE)
        except KeyboardInterrupt:
            return "caught"

    assert Run(attached(runtime), program()).fail(KeyboardInterrupt()).result == "caught"


def test_closing_closes_the_program(runtime: HandRuntime) -> None:
    closed = []

    def program() -> Any:
        try:
            yield from ops.Enqueue(TICKET, EXCLUSIVE)
        finally:
            closed.append(True)

    run = Run(attached(runtime), program())
    run.effects.close()
    assert closed == [True]


def test_an_unknown_operation_should_not_come(runtime: HandRuntime) -> None:
    with pytest.raises(AssertionError, match="should be one of the operations"):
        Run(runtime.call(), ops.Op())


def test_a_store_operation_should_come_after_attach(runtime: HandRuntime) -> None:
    with pytest.raises(AssertionError, match="should come after Attach"):
        Run(runtime.call(), ops.Enqueue(TICKET, EXCLUSIVE))


# Attach.


def test_attach_to_the_live_session(runtime: HandRuntime) -> None:
    session = runtime.live()
    run = Run(runtime.call(), steps.Attach())
    assert run.result is run.call.session is session
    assert runtime.wanted == 0
    assert run.call.mailbox not in runtime.state.calls


def test_attach_wants_a_session_and_waits(runtime: HandRuntime) -> None:
    run = Run(runtime.call(), steps.Attach())
    assert (runtime.wanted, run.pauses) == (1, None)
    assert run.call.mailbox in runtime.state.calls
    assert run.answer(SessionEvent()).pauses is None, "not there yet"
    session = runtime.live()
    assert run.answer(SessionEvent()).result is session


def test_attach_does_not_miss_a_session_that_came_as_it_joined(runtime: HandRuntime) -> None:
    runtime.on_want = runtime.live
    assert Run(runtime.call(), steps.Attach()).done


def test_attach_does_not_take_a_session_that_is_not_proven(runtime: HandRuntime) -> None:
    runtime.live()
    runtime.clock.time += 13.5
    assert Run(runtime.call(), steps.Attach()).effect == Receive(None)


def test_attach_goes_on_through_an_outage(runtime: HandRuntime) -> None:
    run = Run(runtime.call(), steps.Attach())
    assert run.answer(OpenFailed(CUT)).effect == Receive(None)
    assert run.call.last_error is CUT
    with pytest.raises(Expired) as raised:
        run.fail(Expired())
    assert raised.value.__cause__ is CUT, "a timeout says what it waited for"


def test_attach_fails_fast_where_that_is_asked(runtime: HandRuntime) -> None:
    run = Run(runtime.call(fail_fast=True), steps.Attach())
    with pytest.raises(StoreUnavailable):
        run.answer(OpenFailed(CUT))


def test_attach_fails_fast_once_every_server_was_tried(runtime: HandRuntime) -> None:
    runtime.backend.servers = 3
    run = Run(runtime.call(fail_fast=True), steps.Attach())
    for _ in range(2):
        assert isinstance(run.answer(OpenFailed(CUT)).effect, Receive)
        assert isinstance(run.answer(SessionEvent()).effect, Receive)
    with pytest.raises(StoreUnavailable):
        run.answer(OpenFailed(CUT))
    run = Run(runtime.call(fail_fast=True), steps.Attach())
    with pytest.raises(StoreRefused):
        run.answer(OpenFailed(StoreRefused("s", "no")))


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), StoreFull("s", "disk")])
def test_attach_is_refused_where_waiting_would_not_help(runtime: HandRuntime, error: Any) -> None:
    run = Run(runtime.call(), steps.Attach())
    with pytest.raises(type(error)):
        run.answer(OpenFailed(error))


def test_attach_after_and_while_closing(runtime: HandRuntime) -> None:
    run = Run(runtime.call(), steps.Attach())
    runtime.state.closed = "closed"
    with pytest.raises(ClientClosed):
        run.answer(SessionEvent())
    with pytest.raises(ClientClosed):
        Run(runtime.call(), steps.Attach())


# Lost answers.


def test_a_lost_answer_is_asked_again_after_a_pause(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE))
    again: list[bool] = []
    for _ in range(5):
        assert isinstance(run.asks, ops.Enqueue)
        pause = run.fail(CUT).pauses
        assert pause is not None
        assert 0 <= pause <= LONGEST_PAUSE_S
        again.append(True)
        run.answer(None)
    assert run.answer(ALONE).result == ALONE
    assert [t.event for t in runtime.told] == ["store.retry"] * 5
    assert run.call.last_error is CUT


def test_the_protocol_knows_that_it_is_asked_again(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Withdraw(TICKET, MINE))
    run.fail(CUT).answer(None)
    assert run.answer(False).result is True, "it was I who deleted it"


def test_any_event_cuts_the_pause_short(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Check(MINE))
    run.fail(CUT)
    assert isinstance(run.answer(Gone("q/other")).asks, ops.Check)


def test_changes_that_come_in_pauses_are_kept_for_the_next_wait(runtime: HandRuntime) -> None:
    """They may be of what an operation before has watched, which asking this one again does not read."""

    def program() -> Any:
        yield from ops.List("q", 10, watch=True)
        first = yield from steps.Wait()
        second = yield from steps.Wait()
        return [first, second]

    run = Run(attached(runtime), program())
    for event in (Changed("v"), Gone("q/other"), HandedOn("w"), Changed("v"), SessionEvent()):
        run.fail(CUT).answer(event)
    run.answer(ops.Listing(()))
    kept = run.call.mailbox.events
    assert [*kept] == [Changed("v"), Gone("q/other"), HandedOn("w")]
    assert run.answer(Changed("v")).answer(Gone("q/other")).result == [Changed("v"), Gone("q/other")]


@pytest.mark.parametrize(
    ("op", "answer", "kept"),
    [
        (ops.List("q", 10, watch=True), ops.Listing(()), [Changed("v"), Disturbed()]),
        (ops.Look(MINE, EXCLUSIVE, ()), ALONE, [Changed("v"), Disturbed()]),
        (ops.Check(MINE), ops.Checked(mine=True, present=frozenset()), [Changed("v"), Disturbed()]),
        (ops.Enqueue(TICKET, EXCLUSIVE), ALONE, [Changed("v")]),
    ],
)
def test_what_broke_under_an_operation_is_kept_for_the_next_wait(
    runtime: HandRuntime, op: Any, answer: Any, kept: Any
) -> None:
    """What was watched before is not read again: it waited until it looked by itself."""
    run = Run(attached(runtime), op)
    for event in (Disturbed(), Changed("v"), Disturbed()):
        run.fail(CUT).answer(event)
    run.answer(answer)
    assert sorted(run.call.mailbox.events, key=repr) == kept


def test_out_of_time_in_a_pause_says_what_was_lost(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Check(MINE))
    run.fail(CUT)
    with pytest.raises(Expired) as raised:
        run.fail(Expired())
    assert raised.value.__cause__ is CUT


def test_fail_fast_tries_twice(runtime: HandRuntime) -> None:
    run = Run(attached(runtime, fail_fast=True), ops.Check(MINE))
    run.fail(CUT).answer(None)
    with pytest.raises(StoreUnavailable):
        run.fail(CUT)


def test_fail_fast_tries_each_server(runtime: HandRuntime) -> None:
    runtime.backend.servers = 5
    run = Run(attached(runtime, fail_fast=True), ops.Check(MINE))
    for _ in range(4):
        run.fail(CUT).answer(None)
    with pytest.raises(StoreUnavailable):
        run.fail(CUT)


def test_other_errors_are_not_asked_again(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Check(MINE))
    with pytest.raises(StoreRefused):
        run.fail(StoreRefused("s", "no"))


# The session's end.


def test_session_lost_marks_the_session_for_everybody(runtime: HandRuntime) -> None:
    keepalive = runtime.state.keepalive = runtime.call().mailbox
    run = Run(attached(runtime), ops.Check(MINE))
    with pytest.raises(SessionLost):
        run.fail(SessionLost("revoked"))
    assert run.call.session.ended == "revoked"
    assert list(keepalive.events) == [SessionEvent()]
    with pytest.raises(SessionLost, match="revoked"):
        Run(run.call, ops.Enqueue(TICKET, EXCLUSIVE))
    assert len(keepalive.events) == 1


def test_an_ended_session_is_asked_nothing_but_to_end(runtime: HandRuntime) -> None:
    call = attached(runtime)
    call.session.ended = "lost"
    for op in (ops.Check(MINE), ops.Withdraw(TICKET, MINE), ops.Watch(MINE, (OTHER,)), ops.Renew((), 1.0)):
        with pytest.raises(SessionLost):
            Run(call, op)
    assert isinstance(Run(call, ops.End()).asks, ops.End)


# Who stands where.


def test_who_may_stand_is_noted_before_it_is_asked(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE))
    assert run.call.session.waiters.stands(TICKET.id)
    assert (run.call.ticket, run.call.entry) == (TICKET, None)
    run.answer(ALONE)
    assert (run.call.ticket, run.call.entry) == (TICKET, MINE)


def test_what_waits_is_known_until_it_is_admitted(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    waiters = run.call.session.waiters
    assert waiters.waiting == (MINE,)
    Run(run.call, steps.Admit(MINE, {}))
    assert waiters.waiting == ()


def test_what_waits_is_known_until_it_is_abandoned(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    runtime.abandon(run.call, TICKET, MINE)
    assert run.call.session.waiters.waiting == ()
    assert run.call.session.waiters.stands(TICKET.id), "until it is withdrawn"


def test_what_is_abandoned_is_known_until_it_is_withdrawn_though_its_session_ends(
    runtime: HandRuntime,
) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).fail(CUT)
    session, waiters = run.call.session, run.call.session.waiters
    runtime.abandon(run.call, TICKET)
    session.ended = "it was not renewed"
    assert waiters.given_up == (TICKET,), "its request may arrive yet, where the session lives"
    waiters.gone(TICKET.id)
    assert waiters.given_up == ()
    waiters.give_up(TICKET)  # another thread was quicker to withdraw it
    assert waiters.given_up == ()


def test_what_a_renewal_did_not_find_is_not_admitted(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    session = run.call.session
    session.waiters.missed(TICKET.id)
    with pytest.raises(SessionLost, match="removed"):
        Run(run.call, steps.Admit(MINE, {"lock": "q"}))
    assert session.holds == {}


def test_withdrawn_is_forgotten_once_it_is_confirmed(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    listener = runtime.call().mailbox
    waiters = run.call.session.waiters
    waiters.listen(Contender("q/id-1", TICKET.id), listener)
    run = Run(run.call, ops.Withdraw(TICKET, MINE))
    assert waiters.stands(TICKET.id)
    run.answer(True)
    assert not waiters.stands(TICKET.id)
    assert run.call.ticket is None
    assert list(listener.events) == [LocallyGone("q/id-1")]


def test_a_probe_that_wrote_nothing_leaves_nothing(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Probe(TICKET, EXCLUSIVE)).answer(None)
    assert not run.call.session.waiters.stands(TICKET.id)
    assert run.call.ticket is None
    run = Run(run.call, ops.Probe(TICKET, EXCLUSIVE)).answer(ALONE)
    assert run.call.ticket is TICKET
    assert run.call.entry is MINE


def test_a_probe_whose_first_try_may_land_yet_is_noted_until_it_is_withdrawn(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Probe(TICKET, EXCLUSIVE)).answer(
        ops.Snapshot(None, (), complete=True, position=0)
    )
    assert run.call.session.waiters.stands(TICKET.id)
    assert (run.call.ticket, run.call.entry) == (TICKET, None)
    run = Run(run.call, ops.Withdraw(TICKET)).answer(False)
    assert not run.call.session.waiters.stands(TICKET.id)
    assert run.call.ticket is None


@pytest.mark.parametrize("error", [CUT, KeyboardInterrupt(), StoreRefused("s", "x")])
def test_a_downgrade_that_was_not_answered_has_the_clients_own_ask_the_store(
    runtime: HandRuntime, error: BaseException
) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    listener, writer = runtime.call().mailbox, Contender("q/id-1", TICKET.id)
    waiters = run.call.session.waiters
    waiters.listen(writer, listener)
    downgrading = Run(run.call, ops.Rewrite(MINE, DOWNGRADED))
    if isinstance(error, StoreUnavailable):
        downgrading.fail(error)
    else:
        with pytest.raises(type(error)):
            downgrading.fail(error)
    assert list(listener.events) == [Changed("q/id-1")]
    assert not waiters.listen(writer, listener)


@pytest.mark.parametrize(("stands", "told"), [(1, [Changed("q/id-1")]), (None, [])])
def test_a_downgrade_is_told_to_the_clients_own_once_the_store_confirmed(
    runtime: HandRuntime, stands: int | None, told: Any
) -> None:
    run = Run(attached(runtime), ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    listener = runtime.call().mailbox
    run.call.session.waiters.listen(Contender("q/id-1", TICKET.id), listener)
    run = Run(run.call, ops.Rewrite(MINE, DOWNGRADED))
    assert list(listener.events) == []
    run.answer(stands)
    assert (list(listener.events), run.result) == (told, stands)


@pytest.mark.parametrize("make", [lambda t: ops.Watch(MINE, t), lambda t: ops.Look(MINE, EXCLUSIVE, t)])
def test_the_clients_own_contenders_need_no_watch_on_the_store(runtime: HandRuntime, make: Any) -> None:
    call = attached(runtime)
    waiters = call.session.waiters
    waiters.stand("near")
    near = Contender("q/near", "near")
    run = Run(call, make((near, OTHER)))
    assert run.asks.targets == (OTHER,)
    waiters.gone("near")
    assert list(call.mailbox.events) == [LocallyGone("q/near")]
    call.finish()
    assert call.listening == {"near"}


@pytest.mark.parametrize("make", [lambda t: ops.Watch(MINE, t), lambda t: ops.Look(MINE, EXCLUSIVE, t)])
def test_a_call_that_looks_again_and_again_notes_each_of_the_clients_own_once(
    runtime: HandRuntime, make: Any
) -> None:
    call = attached(runtime)
    call.session.waiters.stand("near")
    for _ in range(100):
        run = Run(call, make((Contender("q/near", "near"),)))
        if not run.done:
            run.answer(ALONE)
    assert len(call.listening) == 1


def test_a_watch_on_nobody_else_asks_nothing(runtime: HandRuntime) -> None:
    call = attached(runtime)
    call.session.waiters.stand("near")
    assert Run(call, ops.Watch(MINE, (Contender("q/near", "near"),))).result is True


def test_a_remote_watch_is_the_stores_word(runtime: HandRuntime) -> None:
    assert Run(attached(runtime), ops.Watch(MINE, (OTHER,))).answer(False).result is False


def test_what_a_watch_shows_of_foreign_contenders_is_told_before_the_waiting(runtime: HandRuntime) -> None:
    call = attached(runtime)
    run = Run(call, ops.Watch(MINE, (OTHER,)))
    call.session.protocol._notices.add("q/other", "q/other is bound to no session")
    assert run.answer(True).result is True
    assert [(one.event, one.reason) for one in runtime.told] == [
        ("store.stranger", "q/other is bound to no session")
    ]


def test_finished_calls_hear_nothing(runtime: HandRuntime) -> None:
    call = attached(runtime)
    call.session.waiters.stand("near")
    Run(call, ops.Watch(MINE, (Contender("q/near", "near"),)))
    runtime.state.join(call.mailbox)
    call.finish()
    call.session.waiters.gone("near")
    runtime.state.tell(SessionEvent())
    assert not call.mailbox.events
    runtime.call().finish()


# Wait.


def test_a_waiter_hears_of_the_session_and_rereads_in_time(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), steps.Wait())
    assert run.call.mailbox in runtime.state.calls
    assert run.pauses is not None
    assert 7.0 <= run.pauses <= 10.0
    assert run.answer(Gone("x")).result == Gone("x")


def test_the_reread_is_not_later_than_a_short_session(runtime: HandRuntime) -> None:
    session = runtime.live(ttl_s=2.0)
    assert all(1.4 <= runtime.reread_period(session) <= 2.0 for _ in range(50))
    session.clock = None
    assert 7.0 <= runtime.reread_period(session) <= 10.0


@pytest.mark.parametrize("lost", [1, 2, 5, 50, 5000])
def test_others_are_let_go_first_for_a_moment_however_often_they_were_quicker(
    runtime: HandRuntime, lost: int
) -> None:
    pause = Run(attached(runtime), steps.Pause(lost)).pauses
    assert pause is not None
    assert 0 <= pause <= min(0.002 * 2 ** min(lost, 10), 0.1)


@pytest.mark.parametrize(("in_s", "pause"), [(3.0, 3.0), (0.0, 0.0), (-1.0, 0.0)])
def test_a_waiter_looks_when_the_store_wants_it_to(runtime: HandRuntime, in_s: float, pause: float) -> None:
    assert Run(attached(runtime), steps.Wait(due_at=runtime.now() + in_s)).pauses == pause


def test_what_is_due_after_the_next_reread_puts_that_off_by_nothing(runtime: HandRuntime) -> None:
    runtime.reread_period = lambda session: 8.0  # type: ignore[method-assign]
    assert Run(attached(runtime), steps.Wait(due_at=runtime.now() + 9.0)).pauses == 8.0


def test_the_keepalive_loops_wait_is_its_own(runtime: HandRuntime) -> None:
    assert Run(attached(runtime), steps.Wait(3.0)).pauses == 3.0
    run = Run(runtime.call(), steps.Wait())
    assert run.answer(None).result is None


def test_a_waiter_is_told_of_the_end(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), steps.Wait())
    run.call.session.ended = "lost"
    with pytest.raises(SessionLost):
        run.answer(SessionEvent())
    with pytest.raises(SessionLost):
        Run(run.call, steps.Wait())


@pytest.mark.parametrize(("renewed_s_ago", "silent"), [(0.0, False), (12.0, True)])
def test_a_wait_that_ends_with_the_call_says_whether_the_store_is_silent(
    runtime: HandRuntime, renewed_s_ago: float, silent: bool
) -> None:
    call = attached(runtime)
    call.deadline = Deadline.after(renewed_s_ago or 8.0, runtime.now())
    run = Run(call, steps.Wait())
    runtime.clock.time += renewed_s_ago or 8.0
    if not silent:
        call.session.clock.on_renewed(runtime.now() - 1.0, 15.0, runtime.now())
    with pytest.raises(Expired) as expired:
        run.answer(None)
    assert isinstance(expired.value.__cause__, StoreUnavailable) == silent


def test_a_waiter_is_told_that_the_client_closes(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), steps.Wait())
    runtime.state.closed = "closed"
    with pytest.raises(ClientClosed):
        run.answer(SessionEvent())


# Admit.


def test_admit_records_the_grant(runtime: HandRuntime) -> None:
    call = attached(runtime)
    hold = Run(call, steps.Admit(MINE, {"lock": "q"})).result
    assert (hold.entry, hold.owner, hold.acquired_at, hold.labels) == (MINE, "owner", 1000.0, {"lock": "q"})
    assert call.hold is hold
    assert runtime.holds == [hold]


@pytest.mark.parametrize("how", ["clock", "ended"])
def test_admit_refuses_when_nothing_remains(runtime: HandRuntime, how: Any) -> None:
    call = attached(runtime)
    if how == "clock":
        runtime.clock.time += 13.5
    else:
        call.session.ended = "revoked"
    with pytest.raises(SessionLost):
        Run(call, steps.Admit(MINE, {}))
    assert call.hold.reason == call.session.reason
    assert call.session.holds == {}
    assert runtime.told == [], "it never was a grant"


def test_a_session_that_ends_while_its_proof_is_read_takes_the_grant_with_it(runtime: HandRuntime) -> None:
    """Whoever gives it up then has to find the grant, or nobody tells of its loss."""
    call = attached(runtime)
    session, told = call.session, []

    def remaining(now: float) -> float:
        del session.remaining  # the proof was good as it was read, and the session ends before that is used
        told.extend(runtime.state.ended(session, "revoked"))
        return 5.0

    session.remaining = remaining
    hold = Run(call, steps.Admit(MINE, {})).result
    assert told == [hold]
    assert hold.reason == "revoked"
    assert hold.remaining(runtime.now()) == 0


def test_a_grant_is_the_calls_before_the_session_knows_it(runtime: HandRuntime) -> None:
    """An interrupt in between finds it, and nothing stays held by nobody."""
    call = attached(runtime)

    class Interrupting(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, value)
            raise KeyboardInterrupt

    call.session.holds = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        runtime.admit(call, steps.Admit(MINE, {}))
    assert call.hold is not None
    call.unwind()
    assert (call.hold.ended, runtime.holds) == (True, [])


# Open, Renew, End.


def test_open_is_stamped_with_the_time_of_its_sending(runtime: HandRuntime) -> None:
    run = Run(runtime.call(), ops.Open(15.0))
    runtime.clock.time += 3.0
    run.answer(ops.Opened("s1", 15.0))
    assert run.result == ops.Opened("s1", 15.0, sent_at=1000.0)
    assert runtime.jobs == []


def test_every_try_to_open_has_a_connection_of_its_own_and_the_unborn_session_is_ended(
    runtime: HandRuntime,
) -> None:
    waiting = runtime.call()
    runtime.state.join(waiting.mailbox)
    run = Run(runtime.call(), ops.Open(15.0))
    first = run.call.session
    run.fail(CUT)
    assert list(waiting.mailbox.events) == [OpenFailed(CUT)], "who fails fast has to hear"
    run.answer(None)
    assert run.call.session is not first
    assert [(job.session, job.ticket, job.within_s) for job in runtime.jobs] == [
        (first, None, END_UNBORN_WITHIN_S)
    ]
    run.answer(ops.Opened("s2", 15.0))
    assert run.done


@pytest.mark.parametrize("ending", [CUT, StoreRefused("s", "no")])
def test_sessions_that_never_began_are_not_kept(runtime: HandRuntime, ending: Exception) -> None:
    """Each try was, as long as only locks were used: a day without a store left 100,000 sessions."""
    for _ in range(3):
        runtime.schedule(job := Job(runtime.new_session(), None, within_s=END_UNBORN_WITHIN_S))
        assert play(clean(job), Script(End=ending)).result
        runtime.cleaned(job)
    assert runtime.ended_here() == []


def test_a_session_that_may_live_on_is_kept_for_its_time_alone(runtime: HandRuntime) -> None:
    before = runtime.live()
    before.protocol.lives_on = True
    runtime.cleaned(Job(before, None))
    assert runtime.ended_here() == [before]
    runtime.live()
    runtime.renewing()
    runtime.clock.time += 2.1 * 15
    runtime.renewing()
    assert runtime._living_on == {}, "though nobody asked which there are"


def test_a_session_that_ends_before_it_was_used_is_tried_again_by_the_policy(runtime: HandRuntime) -> None:
    run = Run(runtime.call(), ops.Open(15.0))
    assert run.fail(SessionLost("the lease has ended")).pauses is not None
    assert len(runtime.jobs) == 1
    assert isinstance(run.answer(None).asks, ops.Open)


@pytest.mark.parametrize("error", [StoreRefused("s", "no"), KeyboardInterrupt()])
def test_open_fails_for_good(runtime: HandRuntime, error: Any) -> None:
    run = Run(runtime.call(), ops.Open(15.0))
    with pytest.raises(type(error)):
        run.fail(error)
    assert len(runtime.jobs) == 1


def test_open_stops_when_the_client_is_closed(runtime: HandRuntime) -> None:
    run = Run(runtime.call(), ops.Open(15.0))
    run.fail(CUT)
    runtime.state.closed = "closed"
    with pytest.raises(ClientClosed):
        run.answer(SessionEvent())
    assert len(runtime.jobs) == 1


def test_renew_has_a_deadline_of_its_own(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.Renew((MINE,), within_s=2.5))
    assert run.call.deadline == Deadline(1002.5)
    assert run.answer(ops.Renewal(15.0)).result == ops.Renewal(15.0)
    assert run.call.deadline == NEVER


@pytest.mark.parametrize("error", [CUT, Expired(), SessionLost("x"), StoreRefused("s", "no")])
def test_renew_is_asked_once(runtime: HandRuntime, error: Any) -> None:
    run = Run(attached(runtime), ops.Renew((), within_s=2.5))
    with pytest.raises(type(error)):
        run.fail(error)
    assert run.call.deadline == NEVER
    assert runtime.told == [], "the session's clock plans the next try"


def test_end_is_asked_again_too(runtime: HandRuntime) -> None:
    run = Run(attached(runtime), ops.End())
    assert run.fail(CUT).pauses is not None
    assert run.answer(None).answer(None).done


# What the runtime does with an interrupted call.


def test_abandon_is_for_what_may_stand(runtime: HandRuntime) -> None:
    call = attached(runtime)
    runtime.abandon(call, TICKET)
    assert runtime.jobs == [], "it was never asked for"
    call.session.waiters.stand(TICKET.id)
    call.ticket, call.entry = TICKET, MINE
    runtime.abandon(call, TICKET)
    assert [(job.ticket, job.entry) for job in runtime.jobs] == [(TICKET, MINE)]
    assert call.ticket is None
    assert list(runtime.cleaning.values()) == runtime.jobs
    runtime.cleaned(runtime.jobs[0])
    runtime.cleaned(runtime.jobs[0])
    assert runtime.cleaning == {}


def test_an_interrupt_in_abandon_leaves_the_ticket_with_the_call(
    runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = attached(runtime)
    call.session.waiters.stand(TICKET.id)
    call.ticket, call.entry = TICKET, MINE

    def interrupted(job: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "clean_up", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runtime.abandon(call, TICKET)
    assert call.ticket is TICKET
    monkeypatch.undo()
    call.unwind()
    assert [(job.ticket, job.entry) for job in runtime.jobs] == [(TICKET, MINE)]
    runtime.abandon(call, TICKET, MINE)  # once more does no harm
    assert len(runtime.jobs) == 2
    assert call.ticket is None


def test_abandon_without_a_session_has_nothing_to_withdraw(runtime: HandRuntime) -> None:
    runtime.abandon(runtime.call(), TICKET)
    assert runtime.jobs == []


def test_unwind_leaves_nothing_and_may_be_called_twice(runtime: HandRuntime) -> None:
    call = attached(runtime)
    run = Run(call, ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    hold = Run(run.call, steps.Admit(MINE, {})).result
    call.unwind()
    call.unwind()
    assert [(job.ticket, job.entry) for job in runtime.jobs] == [(TICKET, MINE)]
    assert hold.reason == "the call was interrupted before it returned"
    assert runtime.holds == []
    assert runtime.told == [], "it was not reported to be acquired"


def test_unwind_reports_the_loss_of_what_was_reported_to_be_acquired(runtime: HandRuntime) -> None:
    call = attached(runtime)
    run = Run(call, ops.Enqueue(TICKET, EXCLUSIVE)).answer(ALONE)
    hold = Run(run.call, steps.Admit(MINE, {"name": "q", "recipe": "lock"})).result
    hold.announced = True
    call.unwind()
    call.unwind()
    assert [(t.event, t.token, t.reason) for t in runtime.told] == [("lock.lost", MINE.token, hold.reason)]


@pytest.mark.parametrize(
    ("job", "within"),
    [((None, None), 15.0), ((None, 1.0), 1.0), ((TICKET, None), None)],
    ids=["a session, as long as it is", "an unborn one", "a spot, until it is gone"],
)
def test_how_long_the_cleaner_tries(runtime: HandRuntime, job: Any, within: Any) -> None:
    from recipes._programs.cleaner import Job

    ticket, within_s = job
    assert runtime.settles_within(Job(runtime.live(), ticket, within_s=within_s)) == within


def test_every_request_is_bounded(runtime: HandRuntime) -> None:
    assert attached(runtime).bound() == 5.0
    assert attached(runtime, deadline=Deadline(1001.0)).bound() == 1.0
    with pytest.raises(Expired):
        attached(runtime, deadline=Deadline(1000.0)).bound()
