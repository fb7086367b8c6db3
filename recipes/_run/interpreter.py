"""Turns a program into a plain sequence of two things a driver can do: ask, and receive.

Store operations become the requests of the store's protocol, asked again by tenacity's
policy where the answer was lost; everything else is done here, without I/O. The result
is a generator that yields `Request` (ask it on the call's connection) or `Receive` (wait for
the call's mailbox). It is pure: the two drivers and the simulator run the same one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from recipes._contract.deadline import NEVER, Deadline, Expired
from recipes._contract.names import parts_of
from recipes._contract.operations import (
    End,
    Enqueue,
    Look,
    Op,
    Open,
    Probe,
    Program,
    Read,
    Renew,
    Rewrite,
    Settle,
    Snapshot,
    StoreOp,
    Watch,
    Withdraw,
    Write,
)
from recipes._contract.protocol import RequestContext
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone, Granted, HandedOn
from recipes._programs.cleaner import Job
from recipes._programs.crew import Beside
from recipes._programs.session import OpenFailed
from recipes._programs.steps import Abandon, Admit, Allow, Attach, BehindOwn, Emit, Now, Pause, Wait
from recipes._run.effects import Effects, Receive
from recipes._run.green import refuse_eventlet
from recipes._run.lanes import run_beside
from recipes.errors import (
    ClientClosed,
    OutcomeUnknown,
    SessionLost,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from recipes.events import Transition

if TYPE_CHECKING:
    from recipes._contract.contenders import Ahead
    from recipes._programs.hold import StoreSession
    from recipes._run.runtime import Call

__all__ = ["Effects", "Receive", "interpret"]

T = TypeVar("T")
END_UNBORN_WITHIN_S = 1.0
AT_ONCE = frozenset((Now, Emit, Admit, Abandon, BehindOwn, Allow))
JOINING = (Enqueue, Probe)
KEPT = (Changed, Disturbed, Gone, Granted, HandedOn)
"""What the next `Wait` returns if it came while an operation was asked again."""
UNTIL_DONE = (Open, Withdraw, Settle, End)
"""What is asked again whatever the user's policy says: its end is the session's, or its time is over."""


def interpret(program: Program[T], call: Call) -> Effects[T]:
    """Run ``program`` for ``call``; returns what it returns, raises what it raises."""
    result: Any = None
    error: BaseException | None = None
    while True:
        try:
            op = program.send(result) if error is None else program.throw(error)
        except StopIteration as stop:
            finished: T = stop.value
            return finished
        except StoreUnavailable as unanswered:
            raise _where_it_was_asked(unanswered) from unanswered.__cause__
        finally:
            error = None  # else it would have this frame, and this frame it, until a collection
        result = None
        try:
            result = _at_once(op, call) if type(op) in AT_ONCE else (yield from _perform(op, call))
        except GeneratorExit:
            program.close()
            raise
        except BaseException as raised:
            error = raised if call.doubt is None else _in_doubt(raised, op, call)


def _where_it_was_asked(error: StoreUnavailable) -> StoreUnavailable:
    """Forget by which steps it was noticed that there is no answer: the message has all of what is known."""
    return error.with_traceback(None)


def _perform(op: Op[Any], call: Call) -> Effects[Any]:
    """Carry out one operation that may take time."""
    match op:
        case StoreOp():
            return (yield from _ask_store(op, call))
        case Wait():
            return (yield from _wait(op, call))
        case Attach():
            return (yield from _attach(call))
        case Pause():
            yield Receive(call.runtime.race_pause(op.lost))
            return None
        case Beside():
            return (yield from run_beside(op, call, interpret))
        case _:
            raise AssertionError(f"{op!r} should be one of the operations")


def _at_once(op: Op[Any], call: Call) -> Any:
    """Carry out one operation that takes no time, and needs no generator of its own."""
    runtime = call.runtime
    match op:
        case Now():
            return runtime.now()
        case Emit():
            return runtime.emit(op.transition)
        case Admit():
            return runtime.admit(call, op)
        case Abandon():
            return runtime.abandon(call, op.ticket, op.entry)
        case BehindOwn():
            return _behind_own(op, call)
        case Allow():
            call.deadline = Deadline.after(op.within_s, runtime.now())
            return None
        case _:
            raise AssertionError(f"{op!r} should be one of the operations")


def _behind_own(op: BehindOwn, call: Call) -> bool:
    session = call.session
    assert session is not None, "a call that waits should have a session"
    waiters = session.waiters
    if waiters.listens(call.mailbox, op.watched):
        return True
    nearest = session.blocked_by_own(op.mine, op.rule)
    if nearest is None or not waiters.listen(nearest, call.mailbox):
        return False
    call.listening.add(nearest.id)
    return True


def _attach(call: Call) -> Effects[StoreSession]:
    runtime, state = call.runtime, call.runtime.state
    failures, retries = 0, None
    while True:
        session = state.live(runtime.now())
        if session is None:
            refuse_eventlet()  # which may have come since the client was made
            state.join(call.mailbox)
            runtime.want_session()
            session = state.live(runtime.now())  # it may have come before this call joined
        if session is not None:
            call.session = session
            return session
        try:
            event = yield Receive(None)
        except Expired as expired:
            raise expired from call.last_error or _silent(call, "no session was started in time")
        if isinstance(event, OpenFailed):
            if not isinstance(event.error, StoreUnavailable):
                raise event.error
            failures += 1
            enough = call.fail_fast and failures >= runtime.backend.servers
            if runtime.settings.stop is not None and not call.lasting:
                retries = retries or runtime.retries()
                retries.after(event.error, runtime.now())
                enough = enough or retries.over
            if enough:
                raise event.error
            call.last_error = _where_it_was_asked(event.error)


def _wait(op: Wait, call: Call) -> Effects[Event | None]:
    session = call.session
    found: Event | None
    if op.at_most_s is not None or session is None:  # the keepalive loop, which minds the session itself
        found = yield Receive(op.at_most_s)
        return found
    state = call.runtime.state
    state.join(call.mailbox)
    _still(session)
    at_most_s = call.runtime.reread_period(session)
    if op.due_at is not None:
        at_most_s = min(at_most_s, max(op.due_at - call.runtime.now(), 0.0))
    try:
        found = yield Receive(at_most_s)
        if found is None:
            call.deadline.bound(None, call.runtime.now())
    except Expired as expired:
        if not _proven(call, call.runtime.now()):
            raise expired from _silent(call, "two renewals of the session were not answered")
        raise
    if state.closed is not None:
        raise ClientClosed
    _still(session)
    return found


def _silent(call: Call, seen: str) -> StoreUnavailable:
    """Return why a call that ran out of time may have done so: the store does not answer."""
    return StoreUnavailable(call.runtime.backend.label, seen)


def _proven(call: Call, now: float) -> bool:
    """Whether the store has answered the renewals of the call's session of late, as far as is known."""
    session = call.session
    return session is None or session.clock is None or session.clock.state(now) == "held"


def _still(session: StoreSession) -> None:
    if session.ended is not None:
        raise SessionLost(session.ended)


def _ask_store(op: StoreOp[Any], call: Call) -> Effects[Any]:
    """Carry out a store operation, again and again by the policy while the answer is lost."""
    try:
        return (yield from _once(op, call, again=False))
    except StoreUnavailable as error:
        lost = _where_it_was_asked(error)
    return (yield from _ask_again(op, call, lost))


def _ask_again(op: StoreOp[Any], call: Call, lost: StoreUnavailable) -> Effects[Any]:
    """Carry out a store operation of which the first answer was lost.

    What is notified meanwhile may be of what an operation before this one has watched, which asking this one
    again does not read: the next `Wait` returns it. Where the connection broke, what was watched before went
    too, and the next `Wait` says so, unless this is what joins, before which nothing was watched.
    """
    retries = call.runtime.retries()
    missed: dict[Event, None] = {}
    failures, again = 0, False
    while True:
        failures += 1
        again = again or not lost.unsent
        now = call.runtime.now()
        if isinstance(op, Renew) or (call.fail_fast and failures >= max(2, call.runtime.backend.servers)):
            raise lost
        pause_s = retries.after(lost, now)
        if retries.over and not (call.lasting or isinstance(op, UNTIL_DONE)):
            raise lost
        call.last_error = lost
        call.runtime.retrying(op, lost)
        try:
            event = yield Receive(pause_s)  # any event cuts the pause short
            if isinstance(event, KEPT) and not (isinstance(event, Disturbed) and isinstance(op, JOINING)):
                missed[event] = None
            answer = yield from _once(op, call, again=again)
        except StoreUnavailable as error:
            lost = _where_it_was_asked(error)
            continue
        except Expired as expired:
            expired.cut = failures == 1 and call.deadline.cuts(now) and _proven(call, now)
            raise expired from call.last_error
        for event in missed:
            call.mailbox.post(event)
        return answer


def _in_doubt(error: BaseException, op: Op[Any], call: Call) -> BaseException:
    """Return what to raise for a write that may have been done, or may be yet; the cleaner settles it."""
    if not isinstance(op, Write) or not isinstance(error, StoreError | SessionLost | Expired):
        return error
    call.runtime.settle_behind(call)  # now: the program may go on, and write something else
    said = str(error.__cause__ if isinstance(error, Expired) else error)
    recipe, name = parts_of(op.key)
    return OutcomeUnknown(call.runtime.backend.label, said, recipe=recipe, name=name)


def _write(op: Write, call: Call, session: StoreSession, *, again: bool) -> Effects[Any]:
    """Ask once; from before that until there is an answer it is in doubt whether it is done."""
    call.doubt = op
    try:
        written = yield from session.protocol.write(op, RequestContext(call.mailbox, again))
    except StoreUnavailable as error:
        if error.unsent and not again:
            call.doubt = None
        raise
    except SessionLost:
        if session.protocol.ended_is_no and not again:
            call.doubt = None
        raise
    except (StoreRefused, StoreFull, Expired):  # the time was over before it was asked
        if not again:
            call.doubt = None
        raise
    call.doubt = None
    return written


def _once(op: StoreOp[Any], call: Call, *, again: bool) -> Effects[Any]:  # noqa: PLR0912 - one for each operation
    if isinstance(op, Open):
        return (yield from _open(op, call))
    session = call.session
    assert session is not None, f"{op!r} should come after Attach"
    if isinstance(op, End):
        return (yield from session.protocol.end(op, RequestContext(call.mailbox, again)))
    _still(session)
    try:
        match op:
            case Enqueue() | Probe():
                session.waiters.stand(op.ticket.id)
                call.ticket = op.ticket
            case Withdraw():  # with the first, for speed
                pass
            case Watch():
                armed = yield from _watch(op, call, session, again=again)
                _note(op, armed, call, session)
                return armed
            case Renew():
                return (yield from _renew(op, call, session))
            case Look():
                op = Look(op.mine, op.rule, _listen(op, call, session))
            case Write():
                return (yield from _write(op, call, session, again=again))
            case Read():
                yield from _settle_first(op.key, call, session)
            case _:
                pass
        result = yield from session.protocol.start(op, RequestContext(call.mailbox, again))
    except SessionLost as lost:
        call.runtime.session_gone(session, lost.reason)
        raise
    except BaseException:
        if isinstance(op, Rewrite):  # it may have been done: the client's own waiters ask the store
            session.waiters.marked(op.entry.ticket.id, op.mark)
        raise
    _note(op, result, call, session)
    return result


def _settle_first(key: str, call: Call, session: StoreSession) -> Effects[None]:
    """See to it that what was given up of a value does not change it after it was read.

    Also what was given up in a session before this one, which the store may not have ended yet.
    """
    before = (one for one in call.runtime.ended_here() if one.protocol.settles_elsewhere)
    for one in (session, *before):
        for write in [write for write in one.doubts.copy().values() if write.key == key]:
            try:
                yield from one.protocol.settle(Settle(write), RequestContext(call.mailbox))
            except (StoreRefused, StoreFull):  # as the cleaner finds; what is there can be read all the same
                return
            except SessionLost:
                if one is session:
                    raise
            if one is not session:  # whose cleaner does so
                one.doubts.pop(write.number, None)


def _note(op: StoreOp[Any], result: Any, call: Call, session: StoreSession) -> None:
    """Have the rest of the client know what an operation came to."""
    for said in session.protocol.noticed():
        call.runtime.emit(Transition("store.stranger", reason=said))
    if isinstance(op, Withdraw) or (isinstance(op, Probe) and result is None):
        session.waiters.gone(op.ticket.id)
        call.ticket = None
    if isinstance(op, Rewrite) and result is not None:
        session.waiters.marked(op.entry.ticket.id, op.mark)
    if isinstance(result, Snapshot) and isinstance(op, Enqueue | Probe):
        call.entry = result.mine
        if result.mine is not None:
            session.waiters.waits(result.mine, call.mailbox)


def _open(op: Open, call: Call) -> Effects[Any]:
    """Start a session on a connection of its own, and stamp when that was sent."""
    if call.runtime.state.closed is not None:
        raise ClientClosed
    session = call.session = call.runtime.new_session()
    sent_at = call.runtime.now()
    try:
        opened = yield from session.protocol.open(op, RequestContext(call.mailbox))
        if opened.guarantees is not None:
            call.runtime.promised(opened.guarantees)
    except BaseException as error:
        # It may have come to be after all: end it, so that nothing of it is left.
        call.runtime.schedule(Job(session, None, within_s=END_UNBORN_WITHIN_S))
        if isinstance(error, SessionLost):  # it ended before it was used: try again, by the policy
            raise StoreUnavailable(call.runtime.backend.label, error.reason) from error
        raise
    return replace(opened, sent_at=sent_at)


def _renew(op: Renew, call: Call, session: StoreSession) -> Effects[Any]:
    call.runtime.renewing()
    call.deadline = Deadline.after(op.within_s, call.runtime.now())
    try:
        return (yield from session.protocol.renew(op, RequestContext(call.mailbox)))
    finally:
        call.deadline = NEVER


def _watch(op: Watch, call: Call, session: StoreSession, *, again: bool) -> Effects[bool]:
    """Watch; contenders of this very client need no watch on the store."""
    remote = _listen(op, call, session)
    if not remote:
        return True
    armed = yield from session.protocol.watch(
        Watch(op.mine, remote, op.as_of), RequestContext(call.mailbox, again)
    )
    return armed


def _listen(op: Watch | Look, call: Call, session: StoreSession) -> Ahead:
    """Have the local registry notify of the client's own contenders; returns the others."""
    remote = []
    for target in op.targets:
        if session.waiters.listen(target, call.mailbox):
            call.listening.add(target.id)
        else:
            remote.append(target)
    return tuple(remote)
