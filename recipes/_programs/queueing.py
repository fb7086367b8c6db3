"""The programs of every recipe that queues: acquire, try, release, verify, downgrade.

One loop serves them all; what differs is the `Rule`'s predicate. The shape is the
ZooKeeper lock recipe (predecessor watches), with two turns of its own: a contender
deep in the queue watches the *second* one ahead and moves up while the holder still
holds, unless a look is cheap, and whatever interrupts an attempt hands its ticket, named
before the store was asked, to the cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from recipes._contract.contenders import DOWNGRADED, Ahead
from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Check,
    Confirm,
    Enqueue,
    Entry,
    Look,
    Probe,
    Program,
    Rewrite,
    Snapshot,
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone, Granted, HandedOn
from recipes._programs import permits
from recipes._programs.hold import CLOSED, REMOVED, HeldState, StoreSession
from recipes._programs.steps import Abandon, Admit, Attach, BehindOwn, Emit, Now, Wait
from recipes._rules.exclusive import EVERYBODY
from recipes._rules.holding import waiting
from recipes.errors import (
    ClientClosed,
    LockTimeout,
    QueueFull,
    SessionLost,
    StoreError,
    StoreUnavailable,
)
from recipes.events import Transition, happened

__all__ = [
    "MOST_DOUBLED",
    "REMOVED",
    "Attempt",
    "acquire",
    "all_held",
    "at_once",
    "calm",
    "downgrade",
    "due_at",
    "open_session",
    "release",
    "report_loss",
    "report_release",
    "tell_end",
    "try_acquire",
    "verify",
]

T = TypeVar("T")
DISTURBED_PAUSE_S = 0.01
LONGEST_PAUSE_S = 1.0
MOST_DOUBLED = 10  # a float has its limits


def _let_wait(waiting: Ahead) -> bool:
    del waiting
    return False


def _tell_nobody(position: int) -> None:
    pass


@dataclass(slots=True)
class Attempt:
    """What one acquire call wants, and how far it got.

    Attributes:
        queue: The encoded name of the lock.
        rule: The recipe.
        new_id: Makes the id of a contender; asked once for each time it queues.
        labels: The fields that all events of this call carry; ``name`` and ``recipe`` are always there.
        timeout_s: What the caller allowed, for the error.
        before_waiting: Called when it turns out that the attempt has to wait, with those ahead that wait
            too, as far as they are known; may raise. Returns whether its owner holds something in this queue.
        max_waiters: How many may wait, with this one; None: any number.
        rule_again: The rule by which it queues again; None: the same.
        requeues: Whether to queue again when the place in the queue is lost. Without a wait there was none.
        queued: Whether it turned out, since it queued the last time, that it has to wait.
        position: How many were ahead when last looked.
        max_hold_s: For how long it may be held without progress.
        seldom: Whether its contender is looked at once per TTL only while it is held.
        owner: Makes what a contender says of its maker.
        data: What its user has it say.
        beside: What has to be held still for this to go on; when one of these is lost, the attempt ends.
        on_queued: Told how many are ahead, each time it queues; must not block.
        on_position: Told how many are ahead, whenever a look shows that it changed; must not block.
        late: Makes the error where it was not granted in time; None: a plain one.
    """

    queue: str
    rule: Rule
    new_id: Callable[[], str]
    labels: dict[str, Any]
    timeout_s: float | None = None
    before_waiting: Callable[[Ahead], bool] = _let_wait
    max_waiters: int | None = None
    rule_again: Rule | None = None
    requeues: bool = True
    queued: bool = False
    position: int | None = None
    number: int = 0
    started_at: float = 0.0
    max_hold_s: float | None = None
    seldom: bool = False
    owner: Callable[[], str] = str
    data: bytes = b""
    beside: Sequence[HeldState] = ()
    on_queued: Callable[[int], None] = _tell_nobody
    on_position: Callable[[int], None] = _tell_nobody
    late: Callable[[float, int | None, BaseException | None], LockTimeout] | None = None

    def next_ticket(self) -> Ticket:
        """Name the next contender."""
        if self.number and self.rule_again is not None:
            self.rule = self.rule_again
        self.number += 1
        self.queued, self.position = False, None
        kind, minds_marks = self.rule.kind, self.rule.minds_marks
        return Ticket(self.queue, kind, self.new_id(), self.owner(), self.data, minds_marks=minds_marks)

    @property
    def name(self) -> str:
        """The name, as its user gave it."""
        return str(self.labels["name"])

    @property
    def recipe(self) -> str:
        """What it is of: "lock", "semaphore" ..."""
        return str(self.labels["recipe"])

    @property
    def takes_permits(self) -> bool:
        """Whether it is of a semaphore."""
        return self.rule.weight is not None

    def ended_by(self, lost: SessionLost, session: StoreSession | None) -> ClientClosed | SessionLost | None:
        """Return the error of one that does not queue again, in another session; None if it does."""
        if lost.reason == CLOSED or (session is not None and session.ended == CLOSED):  # amid a request
            return ClientClosed()
        if self.beside or (self.queued and not self.requeues):
            return SessionLost(lost.reason, self.name, recipe=self.recipe)
        return None

    def silent(self, expired: Expired) -> BaseException | None:
        """Return how the store did not answer; None if it told the position, and had no time for more."""
        return None if expired.cut and self.position is not None else expired.__cause__

    def timed_out(self, silent: BaseException | None) -> LockTimeout:
        """Return the error of one that was not granted in time; ``silent`` says that there was no answer."""
        if self.late is None:
            return LockTimeout(self.name, self.timeout_s or 0.0, self.position, recipe=self.recipe)
        return self.late(self.timeout_s or 0.0, self.position, silent)

    def stays(self, snapshot: Snapshot) -> bool:
        """Whether to wait for the nearest contender only, and not to move up before it goes."""
        return snapshot.cheap and self.on_position is _tell_nobody

    def ahead_in(self, snapshot: Snapshot) -> int:
        """Return how many are ahead that count for this recipe, as far as it is known."""
        own_kind_only = self.rule.own_kind_only and snapshot.complete
        return len(self.rule.visible(snapshot.ahead)) if own_kind_only else snapshot.position

    def targets(self, snapshot: Snapshot) -> Ahead:
        """Return whom to watch; nobody: granted."""
        if self.takes_permits:
            return permits.targets(self.rule, self.queue, snapshot)
        return (self.rule.blockers if self.stays(snapshot) else self.rule.targets)(snapshot.ahead)

    def transition(self, what: str, **fields: Any) -> Transition:
        """Return the record of something that happens to this attempt: "queued", "timeout" ..."""
        return happened(what, self.labels, attempt=self.number, **fields)


def open_session() -> Program[None]:
    """Wait for a live session."""
    try:
        yield from Attach()
    except Expired as expired:
        raise _unanswered(expired) from None


def acquire(attempt: Attempt) -> Program[HeldState]:
    """Queue until granted; queue again at the tail whenever the session or the contender goes."""
    attempt.started_at = yield from Now()
    session = None
    while True:
        ticket = attempt.next_ticket()
        try:
            session = yield from Attach()
            if attempt.beside:
                yield from all_held(attempt.beside)
            snapshot = yield from Enqueue(ticket, attempt.rule)
            mine = yield from _wait_turn(attempt, snapshot)
            return (yield from _admit(attempt, mine))
        except GeneratorExit:
            raise
        except SessionLost as lost:
            yield from Abandon(ticket)
            if (ended := attempt.ended_by(lost, session)) is not None:
                yield from tell_end(attempt, "cancelled", reason=type(ended).__name__)
                raise ended from None
            yield from Emit(attempt.transition("requeued", reason=lost.reason))
        except Expired as expired:
            yield from Abandon(ticket)
            yield from tell_end(attempt, "timeout")
            silent = attempt.silent(expired)
            raise attempt.timed_out(silent) from silent
        except QueueFull:  # and it has left the queue
            yield from tell_end(attempt, "cancelled", reason="QueueFull")
            raise
        except BaseException as error:
            yield from Abandon(ticket)
            yield from tell_end(attempt, "cancelled", reason=type(error).__name__)
            raise


def try_acquire(attempt: Attempt) -> Program[HeldState | None]:
    """Take the lock if nobody blocks, in one look; never queues."""
    attempt.started_at = yield from Now()
    while True:
        ticket = attempt.next_ticket()
        try:
            yield from Attach()
            if attempt.beside:
                yield from all_held(attempt.beside)
            return (yield from _try_once(attempt, ticket))
        except GeneratorExit:
            raise
        except SessionLost:
            yield from Abandon(ticket)
            if attempt.beside:
                raise
            # And once more, on the next session, if there is time.
        except Expired as expired:
            yield from Abandon(ticket)
            raise _unanswered(expired) from None
        except BaseException:
            yield from Abandon(ticket)
            raise


def _try_once(attempt: Attempt, ticket: Ticket) -> Program[HeldState | None]:
    snapshot = yield from Probe(ticket, attempt.rule)
    if snapshot is None:
        return None
    mine, free = snapshot.mine, not attempt.rule.blockers(snapshot.ahead)
    if mine is not None and free:
        if attempt.takes_permits:
            yield from _compare_limits(attempt, snapshot)
        settled = yield from _to_hold(attempt, snapshot, to_confirm=snapshot.to_confirm)
        mine, free = _standing(settled), not attempt.rule.blockers(settled.ahead)
    if mine is None or not free:
        yield from Withdraw(ticket, mine)
        return None
    return (yield from _admit(attempt, mine))


def at_once(trial: Program[T | None], tell_end: Callable[..., Program[None]]) -> Program[T | None]:
    """Have a trial be an acquire that waits for no time: that it gets nothing is an end, and is emitted."""
    try:
        taken = yield from trial
    except GeneratorExit:
        raise
    except StoreUnavailable:
        yield from tell_end("timeout")
        raise
    except BaseException as error:
        yield from tell_end("cancelled", reason=type(error).__name__)
        raise
    if taken is None:
        yield from tell_end("timeout")
    return taken


def release(hold: HeldState, *, wait: bool = True) -> Program[bool]:
    """Delete the own contender; what cannot be settled in time is left to the cleaner.

    The caller has ended ``hold`` as released before. Returns whether the contender was
    there, or may have been: so it is where this client itself has ended the session since, and the
    contender with it. Not to ``wait`` leaves all of it to the cleaner.
    """
    lost: str | None = None
    try:
        if wait:
            removed = yield from Withdraw(hold.entry.ticket, hold.entry)
            lost = None if removed or hold.session.ended_here else REMOVED
        else:
            yield from Abandon(hold.entry.ticket, hold.entry)
    except GeneratorExit:
        raise
    except SessionLost as ended:
        lost = None if hold.session.ended_here else ended.reason
    except (StoreError, Expired):
        yield from Abandon(hold.entry.ticket)
    except BaseException:
        yield from Abandon(hold.entry.ticket)
        yield from report_release(hold)
        raise
    if lost is not None:
        hold.turned_out_lost(lost)
        yield from report_loss(hold)
        return False
    yield from report_release(hold)
    return True


def report_release(hold: HeldState) -> Program[None]:
    """Emit that it was released, if nobody has."""
    for transition in hold.release_to_report((yield from Now())):
        yield from Emit(transition)


def report_loss(hold: HeldState) -> Program[None]:
    """Emit that it was lost, if nobody has."""
    for transition in hold.loss_to_report():
        yield from Emit(transition)


def verify(hold: HeldState) -> Program[bool]:
    """Ask the store, linearizably, whether the own contender stands; if not, the grant is lost."""
    try:
        checked = yield from Check(hold.entry)
    except SessionLost:
        return False
    except Expired as expired:
        raise _unanswered(expired) from None
    if not checked.mine and hold.lose(REMOVED):
        yield from report_loss(hold)
        yield from Abandon(hold.entry.ticket, hold.entry)
    return checked.mine


def downgrade(hold: HeldState) -> Program[bool]:
    """Let readers in beside a writer's grant, in place; returns whether it stands.

    It counts as shared from the moment the store is asked, whatever comes of it.
    """
    hold.share()
    try:
        yield from _first_in_the_queue(hold)
        stands = (yield from Rewrite(hold.entry, DOWNGRADED, hold.entry.ticket.data)) is not None
    except SessionLost:
        return False
    except Expired as expired:
        raise _unanswered(expired) from None
    if stands:
        hold.mark = DOWNGRADED
        now = yield from Now()
        if hold.remaining(now) > 0:  # else it ended meanwhile
            yield from Emit(hold.transition("downgraded", held_s=now - hold.acquired_at))
    elif hold.lose(REMOVED):
        yield from report_loss(hold)
        yield from Abandon(hold.entry.ticket, hold.entry)
    return stands


def _first_in_the_queue(hold: HeldState) -> Program[None]:
    """Wait until what this client released before is gone, for a reader reads the mark of the first alone."""
    waiters = hold.session.waiters
    for one in waiters.freed_before(hold.entry):
        yield from Watch(hold.entry, (one,))
        while waiters.stands(one.id):
            yield from Wait()


def _unanswered(expired: Expired) -> BaseException:
    """Return what kept a call, that waits for nothing but answers, from ending in time."""
    return expired.__cause__ or StoreUnavailable("the store", "no answer within the request timeout")


def _admit(attempt: Attempt, mine: Entry) -> Program[HeldState]:
    labels = {**attempt.labels, "attempt": attempt.number}
    hold = yield from Admit(mine, labels, attempt.max_hold_s, attempt.seldom)
    hold.announced = True  # first: whatever interrupts the report of it, its end is reported
    yield from Emit(hold.transition("acquired", waited_s=hold.acquired_at - attempt.started_at))
    now = yield from Now()
    if hold.remaining(now) <= 0:  # a log that blocks, or a stop, may take longer than the session lasts
        hold.lose(hold.session.reason)
        yield from report_loss(hold)
        raise SessionLost(hold.reason or CLOSED)  # the latter if it was released
    return hold


def tell_end(attempt: Attempt, what: str, **fields: Any) -> Program[None]:
    """Emit how an attempt ended: "timeout", "cancelled" ..."""
    now = yield from Now()
    yield from Emit(attempt.transition(what, waited_s=now - attempt.started_at, **fields))


def _wait_turn(attempt: Attempt, snapshot: Snapshot) -> Program[Entry]:
    """Watch and wait, step by step, until nobody blocks; returns the entry that is granted."""
    mine, to_confirm = _standing(snapshot), snapshot.to_confirm
    armed: Ahead = ()
    joined = False
    disturbed = 0
    due = yield from due_at(snapshot.due_s)
    if attempt.takes_permits:
        yield from _compare_limits(attempt, snapshot)
    while True:
        targets = attempt.targets(snapshot)
        if not targets:
            if attempt.takes_permits or to_confirm:
                snapshot = yield from _to_hold(attempt, snapshot, to_confirm=to_confirm)
                mine, armed = _standing(snapshot), ()
            if not to_confirm or not attempt.targets(snapshot):
                return mine
            due = yield from due_at(snapshot.due_s)
            continue  # a server that has taken over knows of somebody ahead
        yield from _tell_place(attempt, attempt.ahead_in(snapshot))
        if targets != armed:
            seen, armed = yield from _arm(attempt, mine, snapshot, targets)
        else:
            holds = attempt.before_waiting(())
            if not joined:
                joined = True
                yield from _join_if_there_is_room(attempt, mine, holds=holds)
            yield from all_held(attempt.beside)
            looks = not (yield from _behind_own(attempt, snapshot, armed))
            event = yield from Wait(due_at=due if looks else None)
            yield from all_held(attempt.beside)
            if isinstance(event, Granted) and event.ref == mine.ref:
                # Unless a renewal contradicts: then `Admit` refuses it.
                snapshot = replace(snapshot, ahead=(), complete=True, position=0)
                continue
            if isinstance(event, HandedOn):
                snapshot = _handed_on(attempt.rule, snapshot, event)
                continue
            disturbed = yield from calm(event, disturbed)
            seen, armed = yield from _woken(attempt, mine, snapshot, targets, event)
        if seen is not snapshot:
            snapshot, due = seen, (yield from due_at(seen.due_s))
        mine = _standing(snapshot)


def _tell_place(attempt: Attempt, position: int) -> Program[None]:
    """Say how many are ahead: at first that it queues, and then what has changed since."""
    moved, attempt.position = position != attempt.position, position
    if not attempt.queued:
        attempt.queued = True
        yield from Emit(attempt.transition("queued", position=position))
        attempt.on_queued(position)
    if moved:
        attempt.on_position(position)


def _to_hold(attempt: Attempt, snapshot: Snapshot, *, to_confirm: bool) -> Program[Snapshot]:
    """Have what nobody blocks hold; returns the queue as it is by then."""
    if to_confirm:
        snapshot = yield from Confirm(_standing(snapshot), attempt.rule)
        if attempt.rule.blockers(snapshot.ahead):
            return snapshot
    if not attempt.takes_permits:
        return snapshot
    if not (yield from permits.mark(_standing(snapshot), snapshot, waited=attempt.queued)):
        raise SessionLost(REMOVED)
    return snapshot


def _behind_own(attempt: Attempt, snapshot: Snapshot, armed: Ahead) -> Program[bool]:
    """Whether nobody is notified but by the client, which notices when a look is worth while."""
    if not snapshot.by_time or attempt.takes_permits or attempt.on_position is not _tell_nobody:
        return False
    return (yield from BehindOwn(_standing(snapshot), attempt.rule, armed))


def all_held(holds: Iterable[HeldState]) -> Program[None]:
    """Raise ``SessionLost`` unless all of these are held; only a client that closes releases them."""
    for hold in holds:
        now = yield from Now()
        if hold.remaining(now) <= 0:
            raise SessionLost(hold.lost(now) or CLOSED)


def due_at(due_s: float | None) -> Program[float | None]:
    """Return when so many seconds have passed; None: never."""
    if due_s is None:
        return None
    now = yield from Now()
    return now + due_s


def calm(event: Event | None, disturbed: int) -> Program[int]:
    """Pause where a connection breaks again and again; returns how often it did in a row, with this event."""
    if not isinstance(event, Disturbed):
        return 0
    disturbed += 1
    if disturbed > 1:
        yield from Wait(min(DISTURBED_PAUSE_S * 2 ** min(disturbed, MOST_DOUBLED), LONGEST_PAUSE_S))
    return disturbed


def _arm(
    attempt: Attempt, mine: Entry, snapshot: Snapshot, targets: Ahead
) -> Program[tuple[Snapshot, Ahead]]:
    """Watch these; returns the snapshot, a new one if they are not as they were seen, and what is watched."""
    whole = attempt.takes_permits and targets == permits.whole(attempt.queue)
    if not whole and (yield from Watch(mine, targets, snapshot.as_of)):
        return snapshot, targets
    if attempt.takes_permits:
        return (yield from permits.listed(attempt.rule, mine, snapshot))
    return (yield from Look(mine, attempt.rule, ())), ()


def _compare_limits(attempt: Attempt, snapshot: Snapshot) -> Program[None]:
    """Say so if not all name the same limit."""
    other = permits.another_limit(attempt.rule, snapshot.ahead)
    if other is not None:
        reason = f"a contender ahead says that there are {other} permits, and this one {attempt.rule.depth}"
        yield from Emit(attempt.transition("limit_differs", reason=reason))


def _join_if_there_is_room(attempt: Attempt, mine: Entry, *, holds: bool) -> Program[None]:
    """Leave again if too many wait already, or for permits that the same owner holds, and say so.

    Judged by the contenders ahead of the own one, which no later one changes: of many that
    join at once the first in line stay, and no more than may.
    """
    if attempt.max_waiters is None and not holds:
        return
    snapshot = yield from Look(mine, EVERYBODY, ())
    _standing(snapshot)
    waiters = waiting(snapshot.ahead)
    attempt.before_waiting(waiters)
    if attempt.max_waiters is None or not attempt.rule.blockers(snapshot.ahead):
        return
    if len(waiters) >= attempt.max_waiters:
        yield from Withdraw(mine.ticket, mine)
        raise QueueFull(attempt.name, attempt.max_waiters, snapshot.position, recipe=attempt.recipe)


def _woken(
    attempt: Attempt, mine: Entry, snapshot: Snapshot, armed: Ahead, event: Event | None
) -> Program[tuple[Snapshot, Ahead]]:
    """Find out what an event means; returns the new snapshot, and what is watched in it."""
    rule = attempt.rule
    ref = event.ref if isinstance(event, Gone | Changed) else None
    stale = ref is not None and all(target.ref != ref for target in armed)  # of what was watched earlier
    if stale or isinstance(event, Granted):  # or of the own contender of an earlier attempt
        return snapshot, armed
    if attempt.takes_permits:
        return (yield from permits.woken(rule, mine, snapshot, armed, event))
    if isinstance(event, Gone) and not attempt.stays(snapshot):
        return (yield from _stepped_up(attempt, mine, snapshot, armed, event))
    if isinstance(event, Gone):
        return (yield from Look(mine, rule, ())), ()
    return (yield from _reread(attempt, mine, snapshot, armed, changed=ref is not None))


def _handed_on(rule: Rule, snapshot: Snapshot, event: HandedOn) -> Snapshot:
    """Leave out a contender that this client has released; nobody is asked.

    Those ahead of one that excluded all others do not count either. As long as it is not known what else is
    ahead, the queue stays as it was seen, and the deletion is waited for.
    """
    ahead = snapshot.ahead
    at = next((number for number, one in enumerate(ahead) if one.ref == event.ref), None)
    if at is None:  # it was left out before
        return snapshot
    complete = snapshot.complete or not ahead[at].shared
    left = ahead[:at] if not ahead[at].shared else (*ahead[:at], *ahead[at + 1 :])
    if not complete and not rule.blockers(left):
        return snapshot
    position = len(rule.visible(left)) if complete else snapshot.position - 1
    return replace(snapshot, ahead=left, complete=complete, position=position)


def _stepped_up(
    attempt: Attempt, mine: Entry, snapshot: Snapshot, armed: Ahead, event: Gone
) -> Program[tuple[Snapshot, Ahead]]:
    """Find out what is left ahead when one of those watched has gone."""
    rule, ref = attempt.rule, event.ref
    left = tuple(contender for contender in snapshot.ahead if contender.ref != ref)
    targets = rule.targets(left)
    if targets or not snapshot.complete:
        # Not my turn yet, or not known to be: move up. The nearest holds, or will.
        return (yield from _look(attempt, mine, targets))
    gone = tuple(contender for contender in armed if contender.ref == ref)
    checked = yield from Check(mine, gone, event)
    if checked.mine and not checked.present:
        return Snapshot(mine, left, complete=True, position=len(left)), ()
    return (yield from Look(mine, rule, ())), ()


def _look(attempt: Attempt, mine: Entry, targets: Ahead) -> Program[tuple[Snapshot, Ahead]]:
    """Watch these and look, in one round trip; returns the snapshot, and what of it is watched."""
    snapshot = yield from Look(mine, attempt.rule, targets)
    return snapshot, targets if targets == attempt.targets(snapshot) else ()


def _reread(
    attempt: Attempt, mine: Entry, snapshot: Snapshot, armed: Ahead, *, changed: bool
) -> Program[tuple[Snapshot, Ahead]]:
    """Read the own contender and those watched, when no event can be trusted to come."""
    if snapshot.due_s is not None:  # what was watched may be there still, and not count any more
        return (yield from _look(attempt, mine, armed))
    if not changed:
        checked = yield from Check(mine, armed)
        if checked.mine and all(target.ref in checked.present for target in armed):
            return snapshot, armed
    return (yield from Look(mine, attempt.rule, ())), ()


def _standing(snapshot: Snapshot) -> Entry:
    if snapshot.mine is None:
        raise SessionLost(REMOVED)
    return snapshot.mine
