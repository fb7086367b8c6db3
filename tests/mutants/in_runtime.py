"""Bugs to plant in the drivers: `recipes._run`, and what of `recipes._programs` several threads use."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from recipes._contract.operations import Program
from recipes._programs import queueing, session
from recipes._programs.hold import HeldState, StoreSession
from recipes._programs.lease import SessionClock
from recipes._programs.observing import Topic
from recipes._programs.steps import Admit
from recipes._programs.waiters import InProcessWaiters
from recipes._run import blocking, interpreter, process, tasks
from recipes._run.blocking import BlockingRuntime, ThreadMailbox
from recipes._run.callbacks import Callbacks, Lane
from recipes._run.hub import Hub
from recipes._run.runtime import Call, Runtime
from recipes._run.tasks import AsyncRuntime
from recipes.errors import SessionLost
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["RUNTIME"]


def _always_shown(self: Topic, contenders: Any) -> None:
    self.shown = self.shown[0] + 1, contenders
    self._notify()


def _never_due(due_s: Any) -> Program[None]:
    return None
    yield


def _confirmed_whoever_is_ahead() -> list[Any]:
    def to_hold(attempt: Any, snapshot: Any, *, to_confirm: bool) -> Program[Any]:
        seen = yield from original(attempt, snapshot, to_confirm=to_confirm)
        return replace(seen, ahead=(), complete=True, position=0)

    original = queueing._to_hold
    return swap(queueing, "_to_hold", to_hold)


def _always_on_the_beat(self: SessionClock, due: float, earliest: float) -> float:
    return due if self._beat_at is None else due - (due - self._beat_at) % self.interval_s


def _looks_and_then_ends() -> list[Any]:
    def finish(self: Any, reason: str) -> bool:
        first = "end" not in self._end
        if first:
            self._end["end"] = (reason,)
        if self.session.holds.get(self.entry.ticket.id) is self:
            self.session.drop(self)
        if "told" not in self._end:
            self._end["told"] = (reason,)
            if self.on_end is not None:
                self.on_end()
        return first

    return swap(HeldState, "_finish", finish)


def _registered_once_proven() -> list[Any]:
    def admit(self: Any, call: Call, op: Admit) -> HeldState:
        session = call.session
        assert session is not None
        now = self.now()
        call.hold = hold = HeldState(op.entry, session, call.owner, now, op.labels, max_hold_s=op.max_hold_s)
        if hold.remaining(now) <= 0:
            hold.lose(session.reason)
            raise SessionLost(session.reason)
        session.take_up(hold)
        if op.max_hold_s is not None:
            self.state.wake_keepalive()
            self.watch_over(hold)
        return hold

    return swap(Runtime, "admit", admit)


def _ttl_of_the_start() -> list[Any]:
    def on_renewed(self: Any, sent_at: float, ttl_s: float, now: float) -> bool:
        return bool(original(self, sent_at, self.ttl_s, now))

    original = SessionClock.on_renewed
    return swap(SessionClock, "on_renewed", on_renewed)


def _renewals_are_cut() -> list[Any]:
    return [
        *swap(SessionClock, "cut_at", lambda self, sent_at, wanted_at: max(wanted_at, sent_at + 0.5)),
        *swap(SessionClock, "on_cut", SessionClock.on_missed),
    ]


def _one_after_the_other() -> list[Any]:
    def init(self: Any) -> None:
        original(self)
        self.only = Lane(self._run)

    original = Callbacks.__init__
    return [*swap(Callbacks, "__init__", init), *swap(Callbacks, "lane", lambda self: self.only)]


def _no_look_again() -> list[Any]:
    def serve(self: Any) -> None:
        while self._ready:
            self._ready.popleft().run()

    return swap(Callbacks, "_serve", serve)


def _late_session_stays() -> list[Any]:
    def keep_session(self: Any, call: Any) -> None:
        self.run(session.keep(self.state, self.settings.session_timeout_s, lambda: call.session), call)

    return swap(BlockingRuntime, "_keep_session", keep_session)


def _done_at_the_first_refusal() -> list[Any]:
    def clean_one(self: Any, job: Any) -> bool:
        original(self, job)
        self.cleaned(job)
        return True

    original = BlockingRuntime._clean_one
    return swap(BlockingRuntime, "_clean_one", clean_one)


def _deadline_stays() -> list[Any]:
    def renew(op: Any, call: Call, session: Any) -> Any:
        call.deadline = interpreter.Deadline.after(op.within_s, call.runtime.now())
        return (yield from session.protocol.renew(op, interpreter.RequestContext(call.mailbox)))

    return swap(interpreter, "_renew", renew)


def _rung_once_for_each() -> list[Any]:
    def receive(self: Any, at_most_s: float | None) -> Any:
        if not blocking.acquire(self._waker, at_most_s):
            return None
        return self._events.pop(0) if self._events else None

    return swap(ThreadMailbox, "receive", receive)


def _joined_for_ever() -> list[Any]:
    def beside(end: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=end, daemon=True)
        thread.start()
        thread.join()
        return thread

    return swap(process, "_beside", beside)


def _in_the_loop_only() -> list[Any]:
    return swap(AsyncRuntime, "_end_without_loop", lambda self, session, connection: nothing)


BLOCKING, TASKS, CORE = "blocking driver", "asyncio driver", "a grant's core"
RUNTIME = [
    TransportMutant(
        "a late word of the grant is believed",
        CORE,
        "tests/run/test_leased_contenders.py",
        lambda: swap(InProcessWaiters, "is_missing", lambda self, contender_id: False),
    ),
    TransportMutant(
        "what waits is not renewed",
        CORE,
        "tests/run/test_leased_contenders.py",
        lambda: swap(InProcessWaiters, "waiting", ()),
    ),
    TransportMutant(
        "a queue that is observed no more is watched on",
        CORE,
        "tests/run/test_hub.py",
        lambda: swap(Hub, "_wanted", lambda self, observed, topic: True),
    ),
    TransportMutant(
        "what did not change is shown to observers again",
        CORE,
        "tests/run/test_hub.py",
        lambda: swap(Topic, "show", _always_shown),
    ),
    TransportMutant(
        "when a store wants to be asked again is ignored",
        CORE,
        "tests/run/test_leased_contenders.py",
        lambda: swap(queueing, "due_at", _never_due),
    ),
    TransportMutant(
        "what a server confirms is granted whoever is ahead there",
        CORE,
        "tests/programs/test_queueing.py",
        _confirmed_whoever_is_ahead,
    ),
    TransportMutant(
        "one behind its own client looks by time",
        CORE,
        "tests/run/test_leased_contenders.py",
        lambda: swap(interpreter, "_behind_own", lambda op, call: False),
    ),
    TransportMutant(
        "strangers between it and its own have it look by time",
        CORE,
        "tests/run/test_leased_contenders.py",
        lambda: swap(StoreSession, "blocked_by_own", lambda self, mine, rule: None),
    ),
    TransportMutant(
        "a beat comes before the store is up to date",
        CORE,
        "tests/programs/test_session.py",
        lambda: swap(SessionClock, "_on_the_beat", _always_on_the_beat),
    ),
    TransportMutant(
        "a client that closes while one looks loses it",
        CORE,
        "tests/programs/test_hold.py",
        lambda: rewritten(HeldState, "lost", ("self.reason if self._end else seen", "seen")),
    ),
    TransportMutant("two threads may both end it", CORE, "tests/programs/test_hold.py", _looks_and_then_ends),
    TransportMutant(
        "a hold is registered only if it is proven",
        CORE,
        "tests/run/test_interpreter.py",
        _registered_once_proven,
    ),
    TransportMutant(
        "the granted TTL of a renewal is ignored", CORE, "tests/programs/test_keep.py", _ttl_of_the_start
    ),
    TransportMutant(
        "a short max_hold cuts every renewal", CORE, "tests/programs/test_keep.py", _renewals_are_cut
    ),
    TransportMutant(
        "all callbacks wait for each other", BLOCKING, "tests/run/test_callbacks.py", _one_after_the_other
    ),
    TransportMutant(
        "what a callback raises ends those behind it",
        BLOCKING,
        "tests/run/test_callbacks.py",
        lambda: swap(Lane, "_call", staticmethod(lambda callback: callback())),
    ),
    TransportMutant(
        "a thread of callbacks that ends is not replaced",
        BLOCKING,
        "tests/run/test_callbacks.py",
        _no_look_again,
    ),
    TransportMutant(
        "a session that begins while the client closes stays",
        BLOCKING,
        "tests/run/test_blocking.py",
        _late_session_stays,
    ),
    TransportMutant(
        "a withdrawal that was refused is not tried again",
        BLOCKING,
        "tests/run/test_blocking.py",
        _done_at_the_first_refusal,
    ),
    TransportMutant(
        "an event that comes while another is taken is not seen",
        BLOCKING,
        "tests/run/test_blocking.py",
        _rung_once_for_each,
    ),
    TransportMutant(
        "the keeper's deadline is that of its last renewal",
        BLOCKING,
        "tests/run/test_interpreter.py",
        _deadline_stays,
    ),
    TransportMutant(
        "a call listens to nobody of its own client",
        BLOCKING,
        "tests/run/test_interpreter.py",
        lambda: swap(interpreter, "_listen", lambda op, call, session: tuple(op.targets)),
    ),
    TransportMutant(
        "a client waits for a session that was refused",
        BLOCKING,
        "tests/run/test_blocking.py",
        lambda: swap(session.SessionState, "failed", nothing),
    ),
    TransportMutant(
        "the end of a session is tried for ever",
        BLOCKING,
        "tests/run/test_runtime.py",
        lambda: swap(Runtime, "settles_within", lambda self, job: None),
    ),
    TransportMutant(
        "what a callback raises leaves the loop",
        TASKS,
        "tests/run/test_tasks.py",
        lambda: swap(tasks, "_guarded", lambda callback: callback()),
    ),
    TransportMutant(
        "the exit waits for a dead store", BLOCKING, "tests/run/test_leaving.py", _joined_for_ever
    ),
    TransportMutant(
        "the exit closes nothing",
        BLOCKING,
        "tests/run/test_leaving.py",
        lambda: swap(process, "present", list),
    ),
    TransportMutant(
        "a client whose loop is gone keeps what it holds",
        TASKS,
        "tests/run/test_leaving.py",
        _in_the_loop_only,
    ),
    TransportMutant(
        "a withdrawal that an interrupt struck is told to nobody",
        CORE,
        "tests/programs/test_waiters.py",
        lambda: rewritten(
            InProcessWaiters,
            "gone",
            ("        self._tell_gone(contender_id, listening)\n        raise", "        raise"),
        ),
    ),
    TransportMutant(
        "a renewal leaves alone what an interrupt left",
        CORE,
        "tests/run/test_struck.py::test_a_renewal_releases_what_an_interrupt_left_as_a_block_ended",
        lambda: rewritten(interpreter, "_renew", ("call.runtime.renewing()", "pass")),
    ),
    TransportMutant(
        "what comes while an operation is asked again is forgotten",
        CORE,
        "tests/run/test_interpreter.py",
        lambda: rewritten(interpreter, "_ask_again", ("missed[event] = None", "pass")),
    ),
    TransportMutant(
        "a close that is interrupted ends nothing",
        BLOCKING,
        "tests/run/test_blocking.py",
        lambda: rewritten(
            BlockingRuntime,
            "_end",
            ("            self.schedule(job)\n        raise", "            pass\n        raise"),
        ),
    ),
    TransportMutant(
        "what was refused keeps other jobs waiting",
        BLOCKING,
        "tests/run/test_blocking.py",
        lambda: rewritten(BlockingRuntime, "clean_up", ("resting.post(Disturbed())", "pass")),
    ),
    TransportMutant(
        "what a client gave up at a barrier is forgotten as its session ends there",
        CORE,
        "tests/programs/test_barrier.py",
        lambda: swap(InProcessWaiters, "given_up", ()),
    ),
]
