"""What waited and what held, from when to when: what the events of a lock add up to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from urllib.parse import unquote

from recipes.cli.history.reading import Happening
from recipes.cli.history.stores import first_names
from recipes.events import transition_of

__all__ = ["NAMELESS", "Hold", "LockHistory", "Mark", "Wait", "called", "histories"]

NAMELESS = "a store that the log does not name"
End = Literal["acquired", "released", "lost", "timeout", "cancelled", "requeued", "open"]


@dataclass(slots=True)
class Wait:
    """A stretch in the queue.

    Attributes:
        lane: Who.
        start: From when.
        end: Until when.
        mode: For what.
        how: How it ended.
        token: What it ended with.
        seconds: How long it was, counted from the call, as the event says.
    """

    lane: str
    start: float
    end: float
    mode: str
    how: End = "open"
    token: int | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class Hold:
    """A grant.

    Attributes:
        lane: Whose.
        start: From when.
        end: Until when it was reported.
        mode: What it was granted as.
        token: Its fencing token.
        attempt: 2 and more for one that had queued anew.
        how: How it ended.
        queued: Whether somebody was ahead.
        waited_s: How long it had waited.
        downgraded_at: From when it was shared, if it was downgraded.
        superseded_at: When another was granted it, though this one's end had not been reported.
    """

    lane: str
    start: float
    end: float
    mode: str
    token: int | None
    attempt: int = 1
    how: End = "open"
    queued: bool = False
    waited_s: float = 0.0
    downgraded_at: float | None = None
    superseded_at: float | None = None

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.end - self.start

    def stretches(self) -> Iterator[tuple[float, float, bool]]:
        """Yield from when to when it was held, and whether it was shared: a downgraded grant yields two."""
        until = self.superseded_at or self.end
        if self.mode == "shared" or self.downgraded_at is None:
            yield self.start, until, self.mode == "shared"
        else:
            yield self.start, min(self.downgraded_at, until), False
            if self.downgraded_at <= until:
                yield self.downgraded_at, until, True


@dataclass(frozen=True, slots=True)
class Mark:
    """Something out of the ordinary.

    Attributes:
        lane: Whose.
        at: When.
        what: "suspect", "lost", "requeued", "timeout" or "cancelled".
        reason: Why.
    """

    lane: str
    at: float
    what: str
    reason: str


@dataclass(slots=True)
class LockHistory:
    """All that happened to one lock, or whatever is held.

    Attributes:
        recipe: What it is: the noun of its events.
        lock: Its name.
        store: The URL of its store, as it was named first; None if the log does not say.
        title: Its name for people, with what it is unless that is a lock, and the store if there are several.
        start: The time of its first event.
        end: That of its last.
        lanes: The processes, in a natural order.
        waits: Their waits.
        holds: Their grants, in the order in which they were reported.
        marks: What was out of the ordinary.
    """

    recipe: str
    lock: str
    store: str | None
    title: str
    start: float
    end: float
    lanes: list[str] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


def histories(happenings: Sequence[Happening], apart: Collection[str] = ()) -> list[LockHistory]:
    """Return what happened to each lock of each store, in the order of their first events.

    Args:
        happenings: The events.
        apart: The items of a group's work, as ``group/item``, that have a history of their own; the others
            of a group have one together.
    """
    stores = first_names(one.store for one in happenings if one.store is not None)
    locks: dict[tuple[str, str, str | None], list[Happening]] = defaultdict(list)
    for one in (_gathered(one, apart) for one in happenings):
        locks[one.event.partition(".")[0], one.name, stores.get(one.store or "")].append(one)
    several = len({store for _, _, store in locks}) > 1
    found = []
    for (recipe, name, store), events in locks.items():
        what = called(recipe, name)
        title = f"{what} on {store or NAMELESS}" if several else what
        start = min(one.at - (one.waited_s or one.held_s or 0.0) for one in events)
        history = LockHistory(recipe, name, store, title, start, events[-1].at)
        _fill(history, events)
        found.append(history)
    return found


def called(recipe: str, name: str) -> str:
    """Return a name for people: with what it is, unless that is a lock."""
    return name if recipe == "lock" else f"{recipe} {name}"


def _gathered(one: Happening, apart: Collection[str]) -> Happening:
    """Return the event of an item as one of all items of its group: a member has many at once."""
    if not one.event.startswith("partition.") or one.name in apart:
        return one
    return replace(one, name=unquote(one.name.partition("/")[0]), mode="shared")


def _fill(history: LockHistory, events: Sequence[Happening]) -> None:
    """Add up what happened."""
    contenders: dict[str, _Lane] = {}
    for one in events:
        if one.lane not in contenders:
            contenders[one.lane] = _Lane(one.lane, history)
        contenders[one.lane].take(one)
    for lane in contenders.values():
        lane.close(history.end)
    history.lanes = sorted(contenders, key=_natural)
    history.waits.sort(key=lambda wait: wait.start)
    _supersede(history.holds)


def _natural(text: str) -> list[tuple[int, int | str]]:
    """Return a key that puts 10 behind 9."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"(\d+)", text)]


class _Lane:
    """One that waits and holds; several at a time, where threads share a lane."""

    def __init__(self, name: str, history: LockHistory) -> None:
        self._name = name
        self._history = history
        self._waiting: list[Wait] = []
        self._holding: list[Hold] = []

    def take(self, one: Happening) -> None:
        """Take the next event."""
        match transition_of(one.event):
            case "queued":
                self._queued(one)
            case "acquired":
                self._acquired(one)
            case "downgraded":
                self._holder(one).downgraded_at = one.at
            case "released":
                self._ended(one, "released")
            case "lost":
                self._mark(one, "lost")
                self._ended(one, "lost")
            case "requeued":
                self._mark(one, "requeued")
                if not self._lost_at_once(one):
                    self._left(one, "requeued")
                self._waiting.append(Wait(self._name, one.at, one.at, one.mode))
            case "timeout" | "cancelled" as how:
                self._mark(one, how)
                self._left(one, "timeout" if how == "timeout" else "cancelled")
            case other:
                self._mark(one, other)

    def close(self, at: float) -> None:
        """End what is still open with the log."""
        for wait in self._waiting:
            wait.end, wait.seconds = at, at - wait.start
            self._history.waits.append(wait)
        for hold in self._holding:
            hold.end = at

    def _queued(self, one: Happening) -> None:
        if one.attempt > 1 and self._waiting:  # it waits since it was to queue anew
            return
        self._waiting.append(Wait(self._name, one.at, one.at, one.mode))

    def _acquired(self, one: Happening) -> None:
        queued = any(wait.mode == one.mode for wait in self._waiting)
        if queued:
            self._left(one, "acquired")
        waited_s = one.waited_s or 0.0
        hold = Hold(self._name, one.at, one.at, one.mode, one.token, one.attempt)
        hold.queued, hold.waited_s = queued, waited_s
        self._holding.append(hold)
        self._history.holds.append(hold)

    def _left(self, one: Happening, how: End) -> None:
        """End the wait that this is about: the oldest of its kind."""
        since = one.at - (one.waited_s or 0.0)
        wait = next((wait for wait in self._waiting if wait.mode == one.mode), None)
        if wait is None:
            wait = Wait(self._name, since, one.at, one.mode)
        else:
            self._waiting.remove(wait)
        wait.end, wait.how, wait.token = one.at, how, one.token
        wait.seconds = one.at - wait.start if one.waited_s is None else one.waited_s
        self._history.waits.append(wait)

    def _lost_at_once(self, one: Happening) -> bool:
        """End a grant that was lost before its caller had it; whether this is about one."""
        if any(wait.mode == one.mode for wait in self._waiting):
            return False
        for hold in self._holding:
            if hold.attempt == one.attempt:
                self._holding.remove(hold)
                hold.end, hold.how = one.at, "lost"
                return True
        return False

    def _holder(self, one: Happening) -> Hold:
        """Return the grant that this is about; one from before the log began is made up."""
        for hold in self._holding:
            if hold.token == one.token:
                return hold
        hold = Hold(self._name, one.at - (one.held_s or 0.0), one.at, one.mode, one.token)
        self._holding.append(hold)
        self._history.holds.append(hold)
        return hold

    def _ended(self, one: Happening, how: End) -> None:
        hold = self._holder(one)
        self._holding.remove(hold)
        hold.end, hold.how = one.at, how

    def _mark(self, one: Happening, what: str) -> None:
        self._history.marks.append(Mark(self._name, one.at, what, one.reason or ""))


def _supersede(holds: Sequence[Hold]) -> None:
    """Find when what was lost had gone to another: one that was stopped reports late, a killed one never."""
    starts = sorted(hold.start for hold in holds)
    of_writers = sorted(hold.start for hold in holds if hold.mode != "shared")
    for lost in holds:
        if lost.how in ("lost", "open"):
            shared = lost.mode == "shared" or lost.downgraded_at is not None
            others = of_writers if shared else starts
            at = bisect_right(others, lost.start)
            lost.superseded_at = others[at] if at < len(others) and others[at] < lost.end else None
