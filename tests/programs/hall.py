"""A queue of real programs, and nothing else: each waits for the events it asked for, and for no others.

No store is there: what a look shows is exact, and as little of it as a store may show. An event
that a program did not ask for is not told, and nothing is read again in time; so a program
that watches the wrong contender waits for ever, and `Hall.free` says whom that befell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from recipes._contract.contenders import DOWNGRADED, Ahead, Contender
from recipes._contract.operations import Check, Checked, Enqueue, Entry, Look, Snapshot, Ticket, Watch
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Event, Gone
from recipes._programs.queueing import Attempt, acquire
from recipes._programs.steps import Admit, Attach, Emit, Now, Wait
from recipes._rules.holding import holders
from tests.programs.stepping import admitted, session

__all__ = ["Guest", "Hall"]


class Guest:
    """One acquire, as far as it got."""

    def __init__(self, hall: Hall, number: int, rule: Rule) -> None:
        self.hall = hall
        self.rule = rule
        self.name = f"{rule.kind}{number}"
        self.granted = False
        self.looks = 0
        self.watching: set[str] = set()
        self.events: deque[Event] = deque()
        attempt = Attempt("q", rule, lambda: self.name, {"name": "q", "recipe": "lock"})
        self._program: Any = acquire(attempt)
        self._op: Any = next(self._program)
        self.go_on()

    def go_on(self) -> None:
        """Run until it is granted, or waits for an event that has not come."""
        while not self.granted and not (isinstance(self._op, Wait) and not self.events):
            try:
                self._op = self._program.send(self._answer(self._op))
            except StopIteration:
                self.granted = True

    def _answer(self, op: Any) -> Any:  # noqa: PLR0911 - one for each operation
        match op:
            case Now():
                return 100.0
            case Attach():
                return self.hall.session
            case Enqueue():
                self.hall.queue.insert(0, Contender(self.name, self.name, self._kind))
                return self._snapshot(op.ticket)
            case Watch():
                return self._arm(op.targets)
            case Look():
                self._arm(op.targets)
                self.looks += 1
                return self._snapshot(op.mine.ticket)
            case Check():
                return Checked(True, frozenset(one.ref for one in op.targets if one in self.hall.queue))
            case Wait():
                return self.events.popleft()
            case Admit():
                return admitted(self.hall.session)(op)
        assert isinstance(op, Emit), f"a free queue should not make it ask {op!r}"
        return None

    @property
    def _kind(self) -> str:
        return "W" if self.rule.kind == "lock" else self.rule.kind

    def _snapshot(self, ticket: Ticket) -> Snapshot:
        seen = self.rule.visible(self.hall.ahead_of(self))
        entry = Entry(ticket, self.name, 1)
        nearest = seen[: self.rule.reach]
        cheap = not self.rule.exclusive_only and len(self.hall.queue) <= self.hall.cheap_up_to
        return Snapshot(entry, nearest, len(nearest) < self.rule.reach, len(seen), cheap=cheap)

    def _arm(self, targets: Ahead) -> bool:
        self.watching |= {target.ref for target in targets}
        return all(target in self.hall.queue for target in targets)


class Hall:
    """The queue, latest first, and who stands in it; a look at one of ``cheap_up_to`` at most is cheap."""

    def __init__(self, cheap_up_to: int = 0) -> None:
        self.cheap_up_to = cheap_up_to
        self.session = session()
        self.queue: list[Contender] = []
        self.guests: dict[str, Guest] = {}
        self._number = 0

    def come(self, rule: Rule) -> Guest:
        """Have one more join."""
        self._number += 1
        guest = Guest(self, self._number, rule)
        self.guests[guest.name] = guest
        return guest

    def go(self, guest: Guest) -> list[Guest]:
        """Have one leave, as who releases or gives up; returns who heard of it."""
        del self.guests[guest.name]
        self.queue = [one for one in self.queue if one.ref != guest.name]
        return self._tell(Gone(guest.name), guest.name)

    def downgrade(self, guest: Guest) -> list[Guest]:
        """Have a writer that holds let readers in; returns who heard of it."""
        self.queue = [replace(one, mark=DOWNGRADED) if one.ref == guest.name else one for one in self.queue]
        return self._tell(Changed(guest.name), guest.name)

    def ahead_of(self, guest: Guest) -> Ahead:
        """Return who stands before it, nearest first."""
        names = [one.ref for one in self.queue]
        return tuple(self.queue[names.index(guest.name) + 1 :])

    def free(self) -> Iterator[Guest]:
        """Yield those that hold by the rules of their kinds."""
        first_come = self.queue[::-1]
        for contender in first_come[: holders(first_come)]:
            yield self.guests[contender.ref]

    def _tell(self, event: Event, ref: str) -> list[Guest]:
        heard = [guest for guest in self.guests.values() if ref in guest.watching and not guest.granted]
        for guest in heard:
            guest.watching.discard(ref)
            guest.events.append(event)
        for guest in heard:
            guest.go_on()
        return heard
