"""The arithmetic of turns: who held a lock from when to when, and what follows from that."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["HandOvers", "Turn", "hand_overs", "overlaps", "rising", "together"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One grant of the lock and what was done under it, as its worker told it; boot time, seconds.

    Attributes:
        value: What was written (the counter) or seen (the sum of the accounts).
        downgrade_called_at: When a writer asked to go on as a reader, None if it did not.
        mode: "exclusive" or "shared", as the lock was acquired.
        kept: Whether a writer read back what it had written.
    """

    worker: int
    token: int
    value: int
    asked_at: float
    acquired_at: float
    release_called_at: float
    downgrade_called_at: float | None = None
    mode: str = "exclusive"
    kept: bool = True


@dataclass(frozen=True, slots=True)
class HandOvers:
    """How often the lock went from one worker to another.

    Attributes:
        count: How often.
        latencies: Seconds from release (or downgrade) called to acquired, of those whose next holder
            was already waiting.
        busiest: How many there were in one second, at most.
    """

    count: int
    latencies: tuple[float, ...]
    busiest: int = 0

    @property
    def median_s(self) -> float | None:
        """The median latency; None if nobody had to wait."""
        return statistics.median(self.latencies) if self.latencies else None

    @property
    def p90_s(self) -> float | None:
        """The latency that nine of ten do not exceed."""
        ordered = sorted(self.latencies)
        return ordered[(9 * len(ordered) - 1) // 10] if ordered else None


def hand_overs(turns: Iterable[Turn]) -> HandOvers:
    """Count the changes of holder, in the order of the tokens.

    Whoever wants to hold alone waits for all that came before it, a reader for the writers among them,
    until they release or downgrade.
    """
    before: Turn | None = None
    all_gone = writers_gone = -math.inf
    times: list[float] = []
    latencies: list[float] = []
    for turn in sorted(turns, key=lambda turn: turn.token):
        exclusive = turn.mode == "exclusive"
        freed_at = all_gone if exclusive else writers_gone
        if before is not None and before.worker != turn.worker:
            times.append(turn.acquired_at)
            if turn.asked_at < freed_at:
                latencies.append(turn.acquired_at - freed_at)
        all_gone = max(all_gone, turn.release_called_at)
        if exclusive:
            writers_gone = max(writers_gone, turn.downgrade_called_at or turn.release_called_at)
        before = turn
    return HandOvers(len(times), tuple(latencies), _busiest(times))


def _busiest(times: Iterable[float]) -> int:
    """Return how many of these times lie within one second, at most."""
    window: deque[float] = deque()
    most = 0
    for at in sorted(times):
        window.append(at)
        while window[0] <= at - 1.0:
            window.popleft()
        most = max(most, len(window))
    return most


def overlaps(turns: Iterable[Turn]) -> int:
    """Count those who held the lock beside somebody they must not be beside.

    A holder is taken to hold from the return of ``acquire`` to the call of ``release``; as a writer only
    to the call of ``downgrade``, for readers may come from then on.
    """
    count = 0
    writer_until = anybody_until = -math.inf
    for start, end, exclusive in sorted(_spans(turns)):
        count += start < (anybody_until if exclusive else writer_until)
        anybody_until = max(anybody_until, end)
        if exclusive:
            writer_until = max(writer_until, end)
    return count


def together(turns: Iterable[Turn]) -> int:
    """Return how many held the lock as readers at one moment, at most."""
    steps = sorted(
        step for start, end, exclusive in _spans(turns) if not exclusive for step in ((start, 1), (end, -1))
    )
    most = now = 0
    for _, change in steps:
        now += change
        most = max(most, now)
    return most


def rising(tokens: Sequence[int | None]) -> bool:
    """Whether every token is larger than the one before it."""
    return None not in tokens and all(a < b for a, b in pairwise(tokens))  # type: ignore[operator]


def _spans(turns: Iterable[Turn]) -> Iterable[tuple[float, float, bool]]:
    """Yield from when to when each holder held, and whether it held alone."""
    for turn in turns:
        if turn.mode != "exclusive":
            yield turn.acquired_at, turn.release_called_at, False
        elif turn.downgrade_called_at is None:
            yield turn.acquired_at, turn.release_called_at, True
        else:
            yield turn.acquired_at, turn.downgrade_called_at, True
            yield turn.downgrade_called_at, turn.release_called_at, False
