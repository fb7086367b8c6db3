"""What spans and durations come to: percentiles, hand-overs, ratios."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from bench.stage import Turn

__all__ = [
    "Summary",
    "fairness",
    "handed",
    "handovers",
    "operations",
    "ratio",
    "settled",
    "spacing",
    "summary",
]


@dataclass(frozen=True)
class Summary:
    """A sample, in microseconds."""

    count: int
    p50: float
    p90: float
    mean: float

    def as_json(self) -> dict[str, float]:
        """Return it for JSON, to a tenth of a microsecond."""
        return {name: round(value, 1) for name, value in asdict(self).items()}


def summary(sample_ns: Iterable[float]) -> Summary | None:
    """Return what a sample comes to; None if there is none."""
    sample = sorted(one / 1000 for one in sample_ns)
    if not sample:
        return None
    return Summary(len(sample), percentile(sample, 0.5), percentile(sample, 0.9), statistics.fmean(sample))


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share of an ordered sample lies, between neighbours in proportion."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def handovers(turn: Turn) -> list[int]:
    """Return from each release called to the next acquire returned, while all contend; in nanoseconds.

    AssertionError if two held at once: such a figure would be worth nothing. From one contender to
    itself is no hand-over, and does not count.
    """
    return handed(turn, since=settled(turn))


def settled(turn: Turn) -> int:
    """Return when everybody had held once: from then on all contend."""
    return max((spans[0][0] for spans in turn.spans if spans), default=turn.end)


def handed(turn: Turn, since: int = 0) -> list[int]:
    """Return all hand-overs from an instant on; AssertionError as `handovers`."""
    held = sorted((got, gone, who) for who, spans in enumerate(turn.spans) for got, gone in spans)
    found = []
    for (_, gone, giver), (got, _, taker) in pairwise(held):
        assert got >= gone, "two contenders held the lock at once"
        if giver != taker and since <= gone and got <= turn.end:
            found.append(got - gone)
    return found


def spacing(turn: Turn) -> list[float]:
    """Return the mean time from one grant to the next, while all contend; a list of one, or none."""
    since = settled(turn)
    inside = sorted(got for spans in turn.spans for got, _ in spans if since <= got <= turn.end)
    return [(inside[-1] - inside[0]) / (len(inside) - 1)] if len(inside) > 1 else []


def fairness(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the longest wait of several turns, also against a fair one, and the poorest against the richest.

    A wait is from a release called to the next acquire returned, or from the start. A fair one is as long as
    a turn of all contenders, one after another, took on average.
    """
    longest, fair, share, grants = 0, 0.0, 1.0, 0
    for turn in turns:
        counts = [len(spans) for spans in turn.spans]
        end = max([turn.end, *(gone for spans in turn.spans for _, gone in spans)])
        fair += len(counts) * (end - turn.start) / sum(counts) / len(turns)
        share, grants = min(share, min(counts) / max(counts)), grants + sum(counts)
        for spans in turn.spans:
            since = [turn.start, *(gone for _, gone in spans)]
            until = [*(got for got, _ in spans), turn.end if not spans else spans[-1][1]]
            longest = max(longest, *map(operator.sub, until, since))
    return {
        "longest wait ms": round(longest / 1e6, 1),
        "fair wait ms": round(fair / 1e6, 1),
        "longest/fair": round(longest / fair, 2),
        "poorest/richest": round(share, 2),
        "grants": grants,
    }


def operations(turn: Turn) -> float:
    """Return how many grants a second there were between start and end."""
    done = sum(1 for spans in turn.spans for _, gone in spans if gone <= turn.end)
    return done / ((turn.end - turn.start) / 1e9)


def ratio(mine: float | None, theirs: float | None) -> float | None:
    """Return the quotient; None if either is missing."""
    return None if not mine or not theirs else mine / theirs
