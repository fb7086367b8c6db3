"""A barrier of real programs on a store that is exact: each step is one operation, in any order.

An operation may be done and its answer lost with the session, or be lost itself; a call may be cancelled
at any of them; what a party leaves behind stands until it is cleaned up, or its session expires. Nothing is
read again in time: a party that is not notified waits until its time is over, and `Gathering.quiet` says so.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Enqueue,
    Entry,
    List,
    Listing,
    Read,
    Rewrite,
    Snapshot,
    Stored,
    Ticket,
    Withdraw,
    Write,
    Written,
)
from recipes._contract.wakeups import Changed, Event
from recipes._programs.barrier import Party, Place, cross, leave
from recipes._programs.steps import Abandon, Attach, Emit, Now, Wait
from recipes._rules import barrier as rules
from recipes.errors import BarrierBroken, OutcomeUnknown, SessionLost

__all__ = ["KEY", "Broken", "Cancelled", "Gathering", "Guest", "User", "schedule"]

KEY = "~barrier/start"
UNKNOWN = OutcomeUnknown("s", "lost", recipe="barrier", name="start")
LONGEST = 20_000
HURRY = 0.02
"""How likely it is that time passes though something is left to do."""
STRUCK, LOST = 0.01, 0.03
"""How likely it is that an operation is struck, and that it is or that its session is lost."""
DECIDE, INSIDE = rules.decide, rules.inside
LABELS = {"name": "start", "recipe": "barrier", "store": "s"}


class Broken(AssertionError):
    """A promise was broken."""


class Cancelled(BaseException):
    """What interrupts a call."""


class User:
    """One that comes to the barrier again and again, one call at a time; its session, and what it gave up."""

    def __init__(self, gathering: Gathering, name: str, parties: int) -> None:
        self.gathering = gathering
        gathering.users.append(self)
        self.name = name
        self.parties = parties
        self.sessions = 0
        self.ids = 0
        self.left: set[str] = set()
        self.inside: tuple[Place, str] | None = None
        """Where it is inside, and the session that this is of."""

    @property
    def session(self) -> str:
        return f"{self.name}.session{self.sessions}"

    def lose_session(self) -> None:
        """Its client takes the session for ended; on the store it is there for a while."""
        self.left.add(self.session)
        self.gathering.ending.append(self.session)
        self.sessions += 1

    def party(self, timeout_s: float | None) -> Party:
        def new_id() -> str:
            self.ids += 1
            return f"{self.name}-{self.ids}"

        numbers = self.gathering.numbers
        return Party(
            KEY,
            self.parties,
            LABELS,
            new_id,
            lambda: next(numbers),
            lambda: rules.GivenUp(frozenset(self.left)),
            timeout_s=timeout_s,
        )


class Guest:
    """One call, as far as it got."""

    def __init__(self, user: User, program: Any, leaves: tuple[Place, str] | None = None) -> None:
        self.user = user
        self.gathering = user.gathering
        self.leaves = leaves
        self.events: deque[Event] = deque()
        self.noted: list[Any] = []
        self.asked: list[str] = []
        self.seen: tuple[int, set[str]] = (0, set())
        self.listed: set[str] = set()
        self.reads = 0
        self.over = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._program = program
        self.op: Any = None
        self._send(lambda: program.send(None))

    @property
    def waits(self) -> bool:
        """Whether there is nothing to do for it before an event, or its time, comes."""
        if self.over or not isinstance(self.op, Wait) or self.events:
            return False
        return self.op.due_at is None or self.gathering.now < self.op.due_at

    def step(self, fate: str = "done") -> None:
        """Answer its operation."""
        op = self.op
        self.asked.append(type(op).__name__)
        if fate == "struck":
            if self.gathering.rng.random() < 0.5:
                self._answer(op)
            self._throw(Cancelled())
        elif self.leaves is not None and self.leaves[1] != self.user.session:
            self._throw(SessionLost("lost inside"))
        elif fate == "lost" and not isinstance(op, Now | Emit | Abandon | Attach):
            if self.gathering.rng.random() < 0.5:
                self._answer(op)
            self.user.lose_session()
            unknown = isinstance(op, Write) and self.gathering.rng.random() < 0.5
            self._throw(UNKNOWN if unknown else SessionLost("lost"))
        else:
            answer = self._answer(op)
            self._send(lambda: self._program.send(answer))

    def _throw(self, error: BaseException) -> None:
        self._send(lambda: self._program.throw(error))

    def _send(self, go_on: Callable[[], Any]) -> None:
        try:
            self.op = go_on()
            while isinstance(self.op, Now | Emit | Abandon):  # which take no time
                self.op = self._program.send(self._answer(self.op))
        except StopIteration as stop:
            self.over, self.result = True, stop.value
        except (BarrierBroken, Cancelled) as error:
            self.over, self.error = True, error

    def _answer(self, op: Any) -> Any:  # noqa: PLR0911 - one for each operation
        at = self.gathering
        match op:
            case Now():
                return at.now
            case Attach():
                return self.user.session
            case Emit():
                return self.noted.append(op.transition)
            case Abandon():
                return at.abandoned(self.user, op.ticket.id)
            case Wait():
                return self.events.popleft() if self.events else None
            case Read():
                return at.read(self, watch=op.watch)
            case List():
                return at.listed(self, watch=op.watch)
            case Write():
                return at.write(op, self)
            case Enqueue():
                return at.enqueue(op.ticket, self.user.session)
            case Rewrite():
                return at.rewrite(op)
            case Withdraw():
                return at.remove(op.ticket.id)
        raise AssertionError(f"a barrier should not ask {op!r}")


class Gathering:
    """The store, and those that come to it."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.now = 100.0
        self.stored = Stored()
        self.queue: dict[str, Contender] = {}
        self.users: list[User] = []
        self.guests: list[Guest] = []
        self.cleaning: list[tuple[User, str]] = []
        self.ending: list[str] = []
        self.numbers = iter(range(1, 10**9))
        self.generation = 0
        self.history: dict[int, rules.Outcome] = {}
        self._watching: set[Guest] = set()

    # What the store does.

    def read(self, guest: Guest, *, watch: bool) -> Stored:
        if watch:
            self._watching.add(guest)
        guest.reads = 0 if self.stored.data is None else rules.unpack(self.stored.data).generation
        return self.stored

    def listed(self, guest: Guest, *, watch: bool) -> Listing:
        if watch:
            self._watching.add(guest)
        guest.listed = {one.id for one in self.queue.values() if one.data == b"%d" % guest.reads}
        if (
            not guest.asked.count("Enqueue") or guest.seen[0] != guest.reads
        ):  # what it sees before counts for nothing
            guest.seen = guest.reads, set()
        if guest.asked.count("Enqueue"):
            guest.seen[1].update(guest.listed)
        return Listing(tuple(self.queue.values()))

    def write(self, op: Write, writer: Guest) -> Written:
        if op.if_version not in (None, self.stored.version):
            return Written(done=False, stored=self.stored)
        assert op.data is not None
        self.stored = Stored(op.data, self.stored.version + 1)
        self._judge(rules.unpack(op.data), writer)
        self.changed()
        return Written(done=True, stored=self.stored)

    def enqueue(self, ticket: Ticket, session: str) -> Snapshot:
        self.queue[ticket.id] = Contender(ticket.id, ticket.id, ticket.kind, session, data=ticket.data)
        self.changed()
        return Snapshot(Entry(ticket, ticket.id, 1), (), complete=True, position=0)

    def rewrite(self, op: Rewrite) -> int | None:
        before = self.queue.get(op.entry.ticket.id)
        if before is None:
            return None
        self.queue[before.id] = replace(before, mark=op.mark, data=op.data, version=before.version + 1)
        self.changed()
        return before.version + 1

    def remove(self, contender_id: str) -> bool:
        if self.queue.pop(contender_id, None) is None:
            return False
        self.changed()
        return True

    def changed(self) -> None:
        watching, self._watching = self._watching, set()
        for guest in watching:
            guest.events.append(Changed(KEY))

    def abandoned(self, user: User, contender_id: str) -> None:
        user.left.add(contender_id)
        self.cleaning.append((user, contender_id))

    def clean(self) -> None:
        """Withdraw one that was abandoned."""
        user, contender_id = self.cleaning.pop(self.rng.randrange(len(self.cleaning)))
        self.remove(contender_id)
        user.left.discard(contender_id)

    def expire(self) -> None:
        """End a session on the store."""
        session = self.ending.pop(self.rng.randrange(len(self.ending)))
        for one in [one.id for one in self.queue.values() if one.session == session]:
            self.remove(one)
        for guest in self.guests:
            guest.user.left.discard(session)

    # Those that come.

    def comes(self, user: User, timeout_s: float | None = None, *, stays: bool = False) -> Guest:
        guest = Guest(user, cross(user.party(timeout_s), stays=stays))
        self.guests.append(guest)
        return guest

    def leaves(self, user: User, timeout_s: float | None = None) -> Guest:
        inside, user.inside = user.inside, None
        assert inside is not None
        guest = Guest(user, leave(user.party(timeout_s), inside[0]), inside)
        self.guests.append(guest)
        return guest

    def settle(self) -> None:
        """Have all go on until nothing is left to do but to wait."""
        while ready := [guest for guest in self.guests if not (guest.over or guest.waits)]:
            ready[0].step()

    # What is promised.

    def _judge(self, record: rules.Record, writer: Guest) -> None:
        if record.generation != self.generation + 1:
            raise Broken(f"generation {record.generation} follows on {self.generation}")
        self.generation += 1
        self._judge_all_named(record, writer)
        for outcome in record.outcomes:
            if outcome.generation not in self.history:
                self._judge_new(outcome, record.parties)
            before = self.history.setdefault(outcome.generation, outcome)
            if before.word != outcome.word:
                raise Broken(f"generation {outcome.generation} was {before.word} and is {outcome.word}")

    def _judge_all_named(self, record: rules.Record, writer: Guest) -> None:
        """Those that the one which breaks a generation saw wait in it are named."""
        decided = [one for one in record.outcomes if one.generation == record.generation - 1]
        missing = writer.listed - {party for one in record.outcomes for party in one.ids}
        if missing and not (decided and decided[0].word == rules.PASSED):
            raise Broken(f"{missing} waited in a generation that broke, and are not named: {record}")

    def _judge_new(self, outcome: rules.Outcome, parties: int) -> None:
        users = {party.partition("-")[0] for party in outcome.ids}
        if outcome.word == rules.PASSED and not len(users) == len(outcome.ids) == parties:
            raise Broken(f"not {parties} came to {outcome}")
        for before in self.history.values():
            if {*before.ids} & {*outcome.ids}:
                raise Broken(f"a party is of two generations: {before} and {outcome}")

    def ended(self, guest: Guest) -> None:
        """Judge what came of a call."""
        user, error = guest.user, guest.error
        if isinstance(error, BarrierBroken):
            outcome = self.history.get(error.generation)
            passed = outcome is not None and outcome.word == rules.PASSED
            mine = outcome is not None and f"{user.name}-{user.ids}" in outcome.ids
            told = "not known" in error.reason or "inside" in error.reason
            if passed and mine and not told:
                raise Broken(f"{user.name} was told {error}, and it passed: {outcome}")
        elif error is None and guest.leaves is None:
            place: Place = guest.result
            outcome = self.history[place.generation]
            if outcome.word != rules.PASSED or outcome.ids[place.index] != f"{user.name}-{user.ids}":
                raise Broken(f"{user.name} passed as {place}, and it is {outcome}")
            user.inside = None if place.entry is None else (place, user.session)
        elif error is None and guest.leaves is not None:
            ids = guest.leaves[0].ids
            inside = [other.name for other in self.users if _inside(other, ids) & self.queue.keys()]
            if inside:
                raise Broken(f"{user.name} left, and these are inside: {inside}")

    def quiet(self) -> None:
        """Judge what waits, when there is nothing to do but to wait."""
        record = None if self.stored.data is None else rules.unpack(self.stored.data)
        for guest in self.guests:
            if guest.over or record is None:
                continue
            me = f"{guest.user.name}-{guest.user.ids}"
            if guest.leaves is not None:
                if not INSIDE(guest.leaves[0].ids, tuple(self.queue.values())):
                    raise Broken(f"{guest.user.name} waits to leave, and all others have left")
                continue
            seen = frozenset(guest.seen[1] if guest.seen[0] == record.generation else ())
            step = DECIDE(record, tuple(self.queue.values()), me, seen, over=False)
            if not isinstance(step, rules.Waits):
                raise Broken(f"{guest.user.name} was not notified: {step}")


def _inside(user: User, ids: tuple[str, ...]) -> set[str]:
    """Return the contender of a user that entered with these, and does not leave yet."""
    entry = None if user.inside is None else user.inside[0].entry
    return {entry.ticket.id} & {*ids} if entry is not None else set()


def schedule(seed: int, rounds: int = 5) -> Counter[str]:
    """Have some users come and go at random, with faults for a while; returns what became of their calls."""
    at = Gathering(seed)
    rng = at.rng
    parties = rng.choice((1, 2, 2, 3))
    users = [User(at, name, parties) for name in "ABCD"[: parties + rng.randrange(2)]]
    calls = dict.fromkeys(users, rounds * 2)
    steps = 0
    came: Counter[str] = Counter()
    while any(calls.values()) or at.guests:
        steps += 1
        if steps > LONGEST:
            raise Broken(f"no end after {steps} steps")
        _step(at, calls, came, faulty=steps < rng.randrange(100, 500))
    while at.cleaning:
        at.clean()
    while at.ending:
        at.expire()
    for user in users:
        if user.inside is not None:
            at.remove(f"{user.name}-{user.ids}")
    if at.queue:
        raise Broken(f"these are left: {list(at.queue)}")
    return came


def _step(at: Gathering, calls: dict[User, int], came: Counter[str], *, faulty: bool) -> None:
    rng = at.rng
    busy = {guest.user for guest in at.guests}
    comers = [user for user, left in calls.items() if left and user not in busy]
    ready = [guest for guest in at.guests if not guest.waits]
    choices: list[Callable[[], object]] = [
        partial(_step_one, at, guest, came, faulty=faulty) for guest in ready
    ]
    choices += [partial(_come, at, user, calls) for user in comers]
    choices += [at.clean] * bool(at.cleaning) + [at.expire] * bool(at.ending)
    if choices and rng.random() > (HURRY if ready else 0.1):
        rng.choice(choices)()
        return
    if not ready:
        at.quiet()
    at.now += rng.choice((0.5, 5.0))


def _step_one(at: Gathering, guest: Guest, came: Counter[str], *, faulty: bool) -> None:
    drawn = at.rng.random() if faulty else 1.0
    guest.step("struck" if drawn < STRUCK else "lost" if drawn < LOST else "done")
    if guest.over:
        at.guests.remove(guest)
        at.ended(guest)
        came[type(guest.error).__name__ if guest.error else "left" if guest.leaves else "passed"] += 1


def _come(at: Gathering, user: User, calls: dict[User, int]) -> None:
    rng = at.rng
    calls[user] -= 1
    if user.inside is None:
        at.comes(user, rng.choice((2.0, 20.0, 60.0)), stays=rng.random() < 0.4)
    else:
        if rng.random() < LOST:
            user.lose_session()
        at.leaves(user, rng.choice((20.0, 60.0)))
