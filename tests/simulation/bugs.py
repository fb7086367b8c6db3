"""Bugs to plant: each replaces one thing of the package, or two where one alone does no harm."""

from __future__ import annotations

from typing import Any
from unittest import mock

from recipes._contract.operations import Snapshot, Withdraw
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Disturbed, Gone
from recipes._programs import cleaner, hold, queueing, session, waiters
from recipes._programs import reentry as re_entry
from recipes._run import interpreter
from recipes._run.runtime import Runtime
from tests.simulation.clients import SimRuntime


def swap(target: Any, name: str, value: Any) -> list[Any]:
    return [mock.patch.object(target, name, value)]


# Programs and predicates.


def no_look_after_waking() -> list[Any]:
    def woken(rule: Any, mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        if isinstance(event, Gone):
            return Snapshot(mine, (), complete=True, position=0), ()
        return (yield from original(rule, mine, snapshot, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)


def any_event_grants() -> list[Any]:
    def woken(rule: Any, mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        if isinstance(event, Disturbed):
            return Snapshot(mine, (), complete=True, position=0), ()
        return (yield from original(rule, mine, snapshot, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)


def leak_when_interrupted() -> list[Any]:
    def abandon(self: Any, call: Any, ticket: Any, entry: Any = None) -> None:
        if ticket is None:
            original(self, call, ticket, entry)

    original = SimRuntime.abandon
    return swap(SimRuntime, "abandon", abandon)


def leak_on_timeout() -> list[Any]:
    def abandon(self: Any, call: Any, ticket: Any, entry: Any = None) -> None:
        expired = call.deadline.at is not None and call.deadline.at <= self.now()
        if ticket is None or not expired:
            original(self, call, ticket, entry)

    original = SimRuntime.abandon
    return swap(SimRuntime, "abandon", abandon)


def watch_everybody() -> list[Any]:
    return [
        *swap(Rule, "targets", lambda self, ahead: ahead),
        *swap(queueing.Attempt, "targets", lambda self, snapshot: snapshot.ahead),
        *swap(Rule, "reach", 10),
    ]


def admit_without_the_clock() -> list[Any]:
    def admit(self: Any, call: Any, op: Any) -> Any:
        with mock.patch.object(session.StoreSession, "remaining", mock.Mock(return_value=1.0)):
            return original(self, call, op)

    original = SimRuntime.admit
    return swap(SimRuntime, "admit", admit)


def session_loss_ignored_while_waiting() -> list[Any]:
    return swap(interpreter, "_still", mock.Mock(return_value=None))


def local_release_wakes_nobody() -> list[Any]:
    def gone(self: Any, contender_id: str) -> None:
        self._standing.pop(contender_id, None)
        self._freed.pop(contender_id, None)

    silent = swap(waiters.InProcessWaiters, "freed", lambda self, entry: None)
    return [*silent, *swap(waiters.InProcessWaiters, "gone", gone)]


def try_leaves_its_contender() -> list[Any]:
    def try_acquire(attempt: Any) -> Any:
        program = original(attempt)
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                op = program.send(result) if error is None else program.throw(error)
            except StopIteration as stop:
                return stop.value
            result = error = None
            if isinstance(op, Withdraw):
                result = True
                continue
            try:
                result = yield op
            except BaseException as raised:
                error = raised

    original = queueing.try_acquire
    from tests.simulation import users

    return swap(users, "try_acquire", try_acquire)


# The session.


def deadline_from_the_reply() -> list[Any]:
    def on_renewed(self: Any, sent_at: float, ttl_s: float, now: float) -> bool:
        return original(self, now, ttl_s, now)

    original = session.SessionClock.on_renewed
    return swap(session.SessionClock, "on_renewed", on_renewed)


def deadline_without_margin() -> list[Any]:
    def count(self: Any, sent_at: float, ttl_s: float, now: float) -> None:
        original(self, sent_at, ttl_s, now)
        self.deadline = self.counted + ttl_s

    original = session.SessionClock._count
    return swap(session.SessionClock, "_count", count)


def late_renewal_revives() -> list[Any]:
    """Neither the clock nor the keepalive loop looks at the deadline; one of them would be enough."""

    def on_renewed(self: Any, sent_at: float, ttl_s: float, now: float) -> bool:
        self._count(sent_at, ttl_s, now)
        return True

    def renew_once(session: Any, clock: Any, sent_at: float) -> Any:
        return (yield from pretending(original(session, clock, sent_at)))

    def pretending(program: Any) -> Any:
        reply: Any = None
        error: BaseException | None = None
        while True:
            with mock.patch.object(session.StoreSession, "remaining", mock.Mock(return_value=1.0)):
                try:
                    op = program.send(reply) if error is None else program.throw(error)
                except StopIteration as stop:
                    return stop.value
            reply = error = None
            try:
                reply = yield op
            except BaseException as raised:
                error = raised

    original = session._renew_once
    return [
        *swap(session.SessionClock, "on_renewed", on_renewed),
        *swap(session, "_renew_once", renew_once),
    ]


def lost_session_stays_on_the_store() -> list[Any]:
    def abandon(self: Any, call: Any, ticket: Any, entry: Any = None) -> None:
        if ticket is not None:
            original(self, call, ticket, entry)

    original = SimRuntime.abandon
    return swap(SimRuntime, "abandon", abandon)


def missed_renewals_count() -> list[Any]:
    def on_missed(self: Any, now: float) -> None:
        self._count(now, self.ttl_s, now)

    return swap(session.SessionClock, "on_missed", on_missed)


def removed_contender_unnoticed() -> list[Any]:
    def missing(session: Any, entries: Any) -> Any:
        yield from ()

    return swap(session, "_missing", missing)


# The cleaner.


def cleaner_tries_once() -> list[Any]:
    def settles_within(self: Any, job: Any) -> float:
        return 0.5

    return swap(Runtime, "settles_within", settles_within)


def cleaner_trusts_its_first_request() -> list[Any]:
    from tests.simulation import clients

    def clean(job: Any) -> Any:
        if job.ticket is None:
            yield from original(job)
        return True

    original = cleaner.clean
    return swap(clients, "clean", clean)


def session_events_untold() -> list[Any]:
    return swap(session.SessionState, "tell", lambda self, event: None)


def never_reads_again() -> list[Any]:
    return swap(Runtime, "reread_period", lambda self, session: 1e6)


def disturbances_ignored() -> list[Any]:
    def woken(rule: Any, mine: Any, snapshot: Any, armed: Any, event: Any) -> Any:
        if isinstance(event, Disturbed):
            return snapshot, armed
        return (yield from original(rule, mine, snapshot, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)


def release_is_only_said() -> list[Any]:
    def release(held: Any, *, wait: bool = True) -> Any:
        yield from ()
        return True

    from tests.simulation import users

    return swap(users, "release", release)


def released_still_holds() -> list[Any]:
    return swap(hold.HeldState, "_finish", lambda self, reason: True)


# Holders that hang, and re-entrance.


def max_hold_from_the_renewal() -> list[Any]:
    def renew_once(session: Any, clock: Any, sent_at: float) -> Any:
        for held in session.holds.values():
            if held.max_hold_s is not None:
                held.until = sent_at + held.max_hold_s
        return (yield from original(session, clock, sent_at))

    original = session._renew_once
    return swap(session, "_renew_once", renew_once)


def progress_revives() -> list[Any]:
    def progress(self: Any, now: float) -> bool:
        if self.max_hold_s is not None and not self.released:
            self.until = now + self.max_hold_s
            self.overheld = False
            self._end.clear()
        return not self._end

    return swap(hold.HeldState, "progress", progress)


def hung_is_told_and_not_withdrawn() -> list[Any]:
    def give_back(session: Any, now: float) -> Any:
        for held in session.overheld(now):
            held.lose("hung")
        yield from ()

    return swap(session, "_give_back", give_back)


def _past_max_hold(self: Any, now: float) -> list[Any]:
    return [held for held in self.holds.values() if now >= held.until]


def hung_is_withdrawn_and_not_ended() -> list[Any]:
    """The local clock is left out: a holder believes in its grant until it is told."""
    return [
        *swap(hold.HeldState, "is_overheld", lambda self, now: False),
        *swap(session.StoreSession, "overheld", _past_max_hold),
        *swap(
            hold.HeldState, "remaining", lambda self, now: 0.0 if self._end else self.session.remaining(now)
        ),
    ]


def keepalive_sleeps_through_it() -> list[Any]:
    def give_back(session: Any, now: float) -> Any:
        yield from ()

    return [*swap(session, "_give_back", give_back), *swap(session.StoreSession, "next_due", float("inf"))]


def first_to_leave_releases() -> list[Any]:
    def leave(self: Any, entry: Any, now: float, tell: Any) -> bool:
        self._inside.clear()
        left: bool = self.whole.release(now, tell)
        return left

    return swap(re_entry.Reentries, "leave", leave)


def last_to_leave_releases_nothing() -> list[Any]:
    def leave(self: Any, entry: Any, now: float, tell: Any) -> bool:
        self._inside.pop(entry, None)
        if self._inside:
            return original(self, entry, now, tell)
        held: bool = self.whole.remaining(now) > 0
        if held:
            entry.left()
        return held

    original = re_entry.Reentries.leave
    return [*swap(re_entry.Reentries, "leave", leave), *swap(re_entry.Reentry, "freed", False)]


def second(ahead: Any) -> Any:
    return ahead[1:2]
