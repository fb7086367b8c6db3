"""What blocks a contender of a semaphore: the permits of those ahead, each of which says how many there are.

A contender holds if, for every contender up to and including itself, the weights up to that one do not
exceed the limit that one carries. So holders are the head of the queue, the first in line is the first that
does not hold, and a smaller limit holds back those behind it. If each judged by its own limit alone, a
contender could come free by the going of one far ahead, of which what it watches says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from recipes._contract.contenders import GRANTED, Ahead, Contender
from recipes._contract.rule import Rule
from recipes._record import record

__all__ = ["Permits", "limit_of", "may_hold", "permits", "permits_of"]

_KIND = re.compile(r"S([1-9][0-9]{0,8})\.([1-9][0-9]{0,8})")
MOST = 999_999_999


@record
class Permits:
    """What a contender takes, and of how many; the predicate of its kind."""

    weight: int
    limit: int

    def __call__(self, ahead: Ahead) -> Ahead:
        """Return the nearest, unless all up to this contender have their permits.

        Each takes one at least, so as many as the limit block, whatever is ahead of them.
        """
        return () if _fit((*map(_taken_by, reversed(ahead)), self)) else ahead[: self.limit]

    def stuck(self, held: Ahead, waiting: Ahead) -> bool:
        """Whether this contender, or one of those that wait ahead, needs permits that its own owner holds."""
        taken = sum(_taken_by(one).weight for one in held)
        return any(taken + one.weight > one.limit for one in (self, *map(_taken_by, waiting)))


_EVERYTHING = Permits(MOST + 1, MOST + 1)
"""What a contender of an unknown kind takes: it holds alone, and nothing behind it does."""


def permits(weight: int, limit: int) -> Rule:
    """Return the rule of a contender that takes ``weight`` of ``limit`` permits.

    Raises:
        TypeError: One is no whole number.
        ValueError: There is no such limit, or the weight is not from 1 to it.
    """
    for what, number, most in (("limit", limit, MOST), ("weight", weight, limit)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{what} is a whole number, not {type(number).__name__}")
        if not 1 <= number <= most:
            raise ValueError(f"{what}={number}: from 1 to {most} fit")
    taken = Permits(weight, limit)
    return Rule(
        f"S{weight}.{limit}",
        taken,
        depth=limit,
        minds_marks=True,
        steps_up=False,
        mode="shared",
        weight=weight,
        stuck=taken.stuck,
    )


@lru_cache(maxsize=1024)  # of kinds there is no end: others may write any
def permits_of(kind: str) -> Rule | None:
    """Return the rule of a kind, ``S<weight>.<limit>``; None if it is not one of a semaphore."""
    found = _KIND.fullmatch(kind)
    weight, limit = (0, 0) if found is None else map(int, found.groups())
    return permits(weight, limit) if 0 < weight <= limit else None


def limit_of(contender: Contender) -> int | None:
    """Return how many permits there are, as a contender says; None if it says nothing of that."""
    rule = permits_of(contender.kind)
    return None if rule is None else rule.depth


def may_hold(ahead: Ahead, *, complete: bool, position: int) -> bool:
    """Whether the nearest contender may hold, as far as can be seen from behind it.

    Args:
        ahead: The contenders ahead, nearest first.
        complete: These are all.
        position: How many there are at least.
    """
    if ahead[0].mark == GRANTED:
        return True
    if complete:
        return _fit(map(_taken_by, reversed(ahead)))
    return position <= (limit_of(ahead[0]) or 1)  # one of an unknown kind holds alone


def _taken_by(contender: Contender) -> Permits:
    rule = permits_of(contender.kind)
    return _EVERYTHING if rule is None or rule.weight is None else Permits(rule.weight, rule.depth)


def _fit(queue: Iterable[Permits]) -> bool:
    taken = 0
    for one in queue:
        taken += one.weight
        if taken > one.limit:
            return False
    return True
