"""The figures of a lock: how long contenders waited and held, what a hand-over took, what was lost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recipes.cli.history.spans import Hold, LockHistory, Wait

__all__ = [
    "Gap",
    "Quantiles",
    "Summary",
    "gaps",
    "longest_waits",
    "overlaps",
    "summary",
]

LISTED = 5


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Of so many durations, in seconds; by the nearest rank, so each is one that occurred."""

    count: int
    p50_s: float
    p90_s: float
    p99_s: float
    longest_s: float

    @classmethod
    def of(cls, durations: Iterable[float]) -> Quantiles | None:
        """Return those of some durations; None if there are none."""
        found = sorted(durations)
        if not found:
            return None
        return cls(len(found), *(found[math.ceil(q * len(found)) - 1] for q in (0.5, 0.9, 0.99, 1.0)))

    def in_milliseconds(self) -> tuple[str, ...]:
        """Return them as they are printed for people: how many, and the times in milliseconds."""
        times = (self.p50_s, self.p90_s, self.p99_s, self.longest_s)
        return (str(self.count), *(f"{seconds * 1000:.2f}" for seconds in times))


@dataclass(frozen=True, slots=True)
class Gap:
    """A hand-over: from a release, as it was reported, to the next grant of one that waited.

    Attributes:
        at: When the lock was free.
        seconds: For how long; 0 if the grant was reported before the release.
        giver: The process that had it.
        taker: The process that got it.
        token: What the taker was given.
    """

    at: float
    seconds: float
    giver: str
    taker: str
    token: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one lock, or whatever is held.

    Attributes:
        recipe: What it is: the noun of its events.
        lock: Its name.
        store: The URL of its store; None if the log does not say.
        seconds: From its first event to its last.
        contenders: How many lanes came.
        grants: How many were granted.
        contended: The share of grants, 0 to 1, that had to queue.
        busy: The share of the time in which somebody held.
        longest_queue: How many waited at once, at most.
        shared_at_once: How many held it shared at once, at most.
        wait: The waits of those that were granted, from the call on.
        hold: The grants that ended.
        hand_over: See `Gap`.
        lost: Grants that were lost.
        suspect: Grants that were in doubt.
        requeued: Waiters that had to queue anew.
        timeouts: Waiters that gave up.
        cancelled: Waiters that were interrupted.
    """

    recipe: str
    lock: str
    store: str | None
    seconds: float
    contenders: int
    grants: int
    contended: float
    busy: float
    longest_queue: int
    shared_at_once: int
    wait: Quantiles | None
    hold: Quantiles | None
    hand_over: Quantiles | None
    lost: int
    suspect: int
    requeued: int
    timeouts: int
    cancelled: int

    def as_fields(self) -> dict[str, Any]:
        """Return it as it is printed for programs."""
        return asdict(self)


def summary(history: LockHistory) -> Summary:
    """Count one lock."""
    marks = Counter(mark.what for mark in history.marks)
    holds = history.holds
    seconds = history.end - history.start
    return Summary(
        recipe=history.recipe,
        lock=history.lock,
        store=history.store,
        seconds=seconds,
        contenders=len(history.lanes),
        grants=len(holds),
        contended=sum(hold.queued for hold in holds) / len(holds) if holds else 0.0,
        busy=_covered((hold.start, hold.superseded_at or hold.end) for hold in holds) / (seconds or 1.0),
        longest_queue=_most((wait.start, wait.end) for wait in history.waits),
        shared_at_once=_most(
            (start, end) for hold in holds for start, end, shared in hold.stretches() if shared
        ),
        wait=Quantiles.of(hold.waited_s for hold in holds),
        hold=Quantiles.of(hold.seconds for hold in holds if hold.how != "open"),
        hand_over=Quantiles.of(gap.seconds for gap in gaps(history)),
        lost=marks["lost"],
        suspect=marks["suspect"],
        requeued=marks["requeued"],
        timeouts=marks["timeout"],
        cancelled=marks["cancelled"],
    )


def gaps(history: LockHistory) -> list[Gap]:
    """Return the hand-overs, in the order of their times.

    One is from the end of the last grant that stood in the way. After one that was lost there is none: the
    log does not say when the store gave it up.
    """
    found: list[Gap] = []
    last: Hold | None = None
    last_exclusive: Hold | None = None
    for hold in sorted(history.holds, key=lambda hold: hold.start):
        shared = hold.mode == "shared"
        giver = last_exclusive if shared else last
        if giver is not None and giver.how == "released" and hold.queued:
            at = _free_at(giver, shared=shared)
            if at >= hold.start - hold.waited_s:
                found.append(Gap(at, max(0.0, hold.start - at), giver.lane, hold.lane, hold.token))
        last = _later(last, hold, shared=False)
        if not shared:
            last_exclusive = _later(last_exclusive, hold, shared=True)
    return found


def _free_at(hold: Hold, *, shared: bool) -> float:
    """Return when a grant stood no longer in the way of one that is shared, or not."""
    if hold.downgraded_at is not None and shared:
        return hold.downgraded_at
    return hold.superseded_at or hold.end


def _later(one: Hold | None, other: Hold, *, shared: bool) -> Hold:
    """Return which of two stood in the way for longer."""
    if one is None or _free_at(one, shared=shared) <= _free_at(other, shared=shared):
        return other
    return one


def longest_waits(history: LockHistory, count: int = LISTED) -> Sequence[Wait]:
    """Return the longest waits, the longest first."""
    return sorted(history.waits, key=lambda wait: -wait.seconds)[:count]


def overlaps(history: LockHistory) -> int:
    """Count the grants that began while another one excluded them.

    It takes a log whose releases and downgrades have the time of the *call*: a usual log has that of the
    store's answer, by which the next contender may be holding the lock. Grants that did not end with a
    release do not count: of a lost one the log does not say when the store gave it up.
    """
    released = (hold for hold in history.holds if hold.how == "released")
    count = 0
    alone_until = anybody_until = -math.inf
    for start, end, shared in sorted(stretch for hold in released for stretch in hold.stretches()):
        count += start < (alone_until if shared else anybody_until)
        anybody_until = max(anybody_until, end)
        if not shared:
            alone_until = max(alone_until, end)
    return count


def _covered(stretches: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union."""
    total, reached = 0.0, -math.inf
    for start, end in sorted(stretches):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _most(stretches: Iterable[tuple[float, float]]) -> int:
    """Return how many there are at once, at most."""
    steps = sorted(step for start, end in stretches for step in ((start, 1), (end, -1)))
    now = most = 0
    for _, step in steps:
        now += step
        most = max(most, now)
    return most
