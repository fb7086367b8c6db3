"""Whether what was measured over time grows: a tested statistic, which noise and steps do not fool.

The samples, taken at regular times, are put together in blocks, each its median, so that what a fault does
for a moment counts for nothing. The two largest rises from one block to the next are taken for ordinary ones,
as an allocator takes memory in steps and keeps it. A line is fitted to that (least squares). It is a leak if
it rises by more than its own uncertainty explains, and by more than a floor that says what is worth a word.
`test_growth.py` plants leaks and noise.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

__all__ = ["Growth", "growth"]

BLOCKS = 12
STEPS = 2
CRITICAL = 4.0
"""How many times its standard error a rise has to be: by Student's t, once in 800 of noise alone."""

Sample = tuple[float, float]


@dataclass(frozen=True)
class Growth:
    """What a series of measurements does.

    Attributes:
        level: Its median.
        rise: By how much it rises over the whole time, without the largest steps.
        error: The standard error of that.
        steps: How much was in those steps, beyond that.
        floor: A smaller rise is not worth a word.
        seconds: How long the time was.
    """

    level: float
    rise: float
    error: float
    steps: float
    floor: float
    seconds: float

    @property
    def per_hour(self) -> float:
        """The rise in an hour."""
        return self.rise * 3600 / self.seconds

    @property
    def leaks(self) -> bool:
        """Whether it grows, beyond noise, and by more than the floor."""
        return self.rise > self.floor and self.rise > CRITICAL * self.error


def growth(samples: Sequence[Sample], floor: float) -> Growth | None:
    """Return what samples, each a time in seconds and a value, do over their time; None if they are too few.

    Args:
        samples: In order of time.
        floor: By how much they may rise over all of it.
    """
    if len(samples) < BLOCKS:
        return None
    blocks = _blocks(samples)
    changes = [after - before for before, after in pairwise(blocks)]
    ordinary = statistics.median(changes)
    largest = sorted(range(len(changes)), key=changes.__getitem__)[-STEPS:]
    steps = sum(changes[place] - ordinary for place in largest)
    for place in largest:
        changes[place] = ordinary
    slope, error = _line(list(accumulate(changes, initial=blocks[0])))
    across = len(changes)
    return Growth(
        statistics.median(value for _, value in samples),
        slope * across,
        error * across,
        steps,
        floor,
        samples[-1][0] - samples[0][0],
    )


def _blocks(samples: Sequence[Sample]) -> list[float]:
    """Return the medians of twelve parts, each of as many samples."""
    bounds = [len(samples) * number // BLOCKS for number in range(BLOCKS + 1)]
    return [statistics.median(value for _, value in samples[start:end]) for start, end in pairwise(bounds)]


def _line(values: Sequence[float]) -> tuple[float, float]:
    """Return the slope of a line through values at 0, 1, 2 ..., and its standard error."""
    places = range(len(values))
    slope, start = statistics.linear_regression(places, values)
    middle = statistics.fmean(places)
    spread = sum((place - middle) ** 2 for place in places)
    off = sum((value - start - slope * place) ** 2 for place, value in zip(places, values, strict=True))
    return slope, float((off / (len(values) - 2) / spread) ** 0.5)
