"""Semaphores by the real program, step by step in any order: one seed decides which guest goes on next.

The store is a list. What it shows is as little as a store may show: as many as the rule needs, with or
without marks, and where it is not of one step, others go on between a contender's coming and its first
view. No event is notified that was not asked for, and nothing is read again in time: so a program that
watches the wrong contender waits for ever, and `Crowd.quiet` says so.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Any

from recipes._contract.contenders import Ahead, Contender
from recipes._contract.operations import (
    Check,
    Checked,
    Enqueue,
    Entry,
    List,
    Listing,
    Look,
    Probe,
    Rewrite,
    Snapshot,
    StoreOp,
    Ticket,
    Watch,
    Withdraw,
)
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes._programs.queueing import Attempt, acquire, try_acquire
from recipes._programs.steps import Abandon, Admit, Attach, Emit, Now, Wait
from recipes._rules.holding import holders
from tests.programs.stepping import admitted, session

__all__ = ["Broken", "Crowd", "Guest", "Shows"]

QUEUE = "~semaphore/q"


class Broken(AssertionError):
    """A promise of the semaphore does not hold."""


@dataclass(frozen=True, slots=True)
class Shows:
    """What a store shows: at once with the coming, marks in views, and how many are ahead."""

    at_once: bool = True
    marks: bool = True
    counts: bool = True


class Guest:
    """One acquire, or one try, as far as it got."""

    def __init__(self, crowd: Crowd, rule: Rule, *, tries: bool = False) -> None:
        self.crowd = crowd
        self.rule = rule
        self.name = self.came = ""
        self.granted = self.over = self.found_gone = False
        self.asked: Counter[type] = Counter()
        self.watching: set[str] = set()
        self.events: deque[Event] = deque()
        self.noted: list[Any] = []
        labels = {"name": "q", "recipe": "semaphore", "mode": "shared", "store": "list"}
        self.attempt = Attempt(QUEUE, rule, self._name_anew, labels)
        self.program: Any = (try_acquire if tries else acquire)(self.attempt)
        self.op: Any = next(self.program)

    @property
    def waits(self) -> bool:
        """Whether nothing but an event has it go on."""
        return isinstance(self.op, Wait) and self.op.at_most_s is None and not self.events

    @property
    def moves(self) -> bool:
        """Whether it can go on now."""
        return not self.over and not self.granted and not self.waits

    def step(self) -> None:
        """Do one operation; a store that shows nothing at once does a coming in two steps."""
        op = self.op
        if isinstance(op, Enqueue | Probe) and self._comes_apart(op):
            self._come()
            return
        if isinstance(op, StoreOp):
            self.asked[type(op)] += 1
        try:
            self.op = self.program.send(self._answer(op))
        except StopIteration as stop:
            self.granted, self.over = stop.value is not None, stop.value is None

    def leave(self) -> None:
        """Release, give up, or die: its contender goes, and it is not notified more."""
        self.over = True
        self.program.close()
        self.crowd.remove(self.name)

    def _name_anew(self) -> str:
        self.name = f"{self.rule.kind}-{next(self.crowd.numbers)}"
        return self.name

    def _comes_apart(self, op: Enqueue | Probe) -> bool:
        if self.crowd.shows.at_once or self.came == self.name:
            return False
        return isinstance(op, Enqueue) or not op.rule.blockers(self.crowd.queue[::-1])

    def _stands(self) -> bool:
        return any(one.ref == self.name for one in self.crowd.queue)

    def _come(self) -> None:
        crowd, self.came = self.crowd, self.name
        crowd.queue = (
            *crowd.queue,
            Contender(self.name, self.name, self.rule.kind, token=next(crowd.tokens)),
        )
        crowd.tell(Changed(QUEUE))

    def _answer(self, op: Any) -> Any:  # noqa: PLR0911, PLR0912 - one for each operation
        match op:
            case Now():
                return 100.0
            case Attach():
                return self.crowd.session
            case Enqueue():
                self.found_gone = False
                return self._joined(op.ticket)
            case Probe():
                blocked = self.came != self.name and op.rule.blockers(self.crowd.queue[::-1])
                return None if blocked else self._joined(op.ticket)
            case Watch():
                return self._arm(op.targets)
            case Look():
                self._arm(op.targets)
                return self._snapshot(op.mine.ticket, op.rule)
            case List():
                self.watching |= {op.queue} if op.watch else set()
                return Listing(self.crowd.queue[: op.most])
            case Rewrite():
                times = self.crowd.mark(op.entry.ref, op.mark)
                self.found_gone = times is None
                return times
            case Check():
                there = frozenset(one.ref for one in op.targets if one in self.crowd.queue)
                return Checked(self._stands(), there)
            case Withdraw():
                return self.crowd.remove(self.name)
            case Wait():
                return self.events.popleft() if self.events else None
            case Admit():
                self.crowd.admits(self)
                return admitted(self.crowd.session)(op)
            case Emit():
                self.noted.append(op.transition)
                return None
            case Abandon():
                self.crowd.remove(self.name)
                return None
            case _:
                raise AssertionError(f"a semaphore should not ask {op!r}")

    def _joined(self, ticket: Ticket) -> Snapshot:
        if self.came == self.name:
            return self._snapshot(ticket, self.rule)
        self._come()
        snapshot = self._snapshot(ticket, self.rule)
        assert snapshot.mine is not None, "it has just come"
        return replace(snapshot, as_of=snapshot.mine.token)

    def _snapshot(self, ticket: Ticket, rule: Rule) -> Snapshot:
        at = next((at for at, one in enumerate(self.crowd.queue) if one.ref == self.name), None)
        if at is None:
            return Snapshot(None, (), complete=True, position=0)
        ahead, shows = self.crowd.queue[:at][::-1], self.crowd.shows
        seen = (
            ahead[: rule.reach]
            if shows.marks
            else tuple(replace(one, mark="") for one in ahead[: rule.reach])
        )
        position = at if shows.counts else len(seen)
        entry = Entry(ticket, self.name, self.crowd.queue[at].token)
        return Snapshot(entry, seen, len(seen) < rule.reach, position, as_of=next(self.crowd.tokens))

    def _arm(self, targets: Ahead) -> bool:
        self.watching |= {target.ref for target in targets}
        standing = {one.ref: one.mark for one in self.crowd.queue}
        return all(standing.get(target.ref) == target.mark for target in targets)


class Crowd:
    """A queue, first come first, and those that want something of it."""

    def __init__(self, seed: int = 0, shows: Shows | None = None) -> None:
        self.random = random.Random(seed)
        self.shows = shows or Shows()
        self.session = session()
        self.queue: tuple[Contender, ...] = ()
        self.guests: list[Guest] = []
        self.numbers = itertools.count(1)
        self.tokens = itertools.count(1)
        self.grants = 0

    def come(self, rule: Rule, *, tries: bool = False) -> Guest:
        """Have one more begin; it goes on by `step`."""
        guest = Guest(self, rule, tries=tries)
        self.guests.append(guest)
        return guest

    def go(self, guest: Guest) -> None:
        """Have one leave."""
        self.guests.remove(guest)
        guest.leave()

    def step(self) -> bool:
        """Have one of those that can go on do so; False if none can."""
        able = [guest for guest in self.guests if guest.moves]
        if able:
            self.random.choice(able).step()
        return bool(able)

    def settle(self) -> None:
        """Have all go on until none can, and see that none waits for nothing."""
        while self.step():
            pass
        self.quiet()

    def disturb(self) -> None:
        """Drop every watch."""
        for guest in self.guests:
            if guest.waits:
                guest.watching.clear()
                guest.events.append(Disturbed())

    def quiet(self) -> None:
        """Nothing is under way: those hold that may."""
        free = {one.ref for one in self.queue[: holders(self.queue)]}
        for guest in self.guests:
            if guest.name in free and not guest.granted and not guest.over:
                raise Broken(f"{guest.name} may hold, and no event will tell it: {self.queue}")

    def admits(self, guest: Guest) -> None:
        """A grant is made: the permits are there, and it has overtaken nothing."""
        self.grants += 1
        refs = [one.ref for one in self.queue]
        if guest.found_gone:
            raise Broken(f"{guest.name} was granted, and has found itself gone")
        if guest.name not in refs:  # since it saw itself there, as an operator may have it
            return
        if refs.index(guest.name) >= holders(self.queue):
            raise Broken(f"{guest.name} was granted before its turn: {self.queue}")
        held = [one.rule for one in self.guests if one.granted and one.name in refs] + [guest.rule]
        if sum(one.weight or 0 for one in held) > max(one.depth for one in held):
            raise Broken(
                f"{guest.name} was granted beside {len(held) - 1} others: more than there are permits"
            )

    def mark(self, ref: str, mark: str) -> int | None:
        """Rewrite one in place."""
        if ref not in [one.ref for one in self.queue]:
            return None
        self.queue = tuple(replace(one, mark=mark) if one.ref == ref else one for one in self.queue)
        self.tell(Changed(ref))
        self.tell(Changed(QUEUE))
        return 1

    def remove(self, ref: str) -> bool:
        """Delete one."""
        left = tuple(one for one in self.queue if one.ref != ref)
        was_there, self.queue = len(left) < len(self.queue), left
        if was_there:
            self.tell(Gone(ref))
            self.tell(Changed(QUEUE))
        return was_there

    def tell(self, event: Gone | Changed) -> None:
        """Notify those that watch for it."""
        for guest in self.guests:
            if event.ref in guest.watching:
                guest.watching.discard(event.ref)
                guest.events.append(event)
