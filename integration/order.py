"""In which order the tests of a run come, so that no process is left with what takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["spread"]

T = TypeVar("T")


def spread(items: Sequence[T], takes_long: Callable[[T], bool], processes: int) -> list[T]:
    """Return these, those that take long at the beginning of what every other process is given.

    xdist's ``worksteal`` gives each as many in a row. Others take from the end of what it has left, but
    nobody takes from its beginning. The other half runs the rest meanwhile: what computes beside what waits.
    """
    long, others = [one for one in items if takes_long(one)], [one for one in items if not takes_long(one)]
    found: list[T] = []
    left, beginning = len(items), (processes + 1) // 2
    for number in range(processes):
        share = left // (processes - number)
        left -= share
        own = [] if number % 2 else long[number // 2 :: beginning]
        room = max(0, share - len(own))
        found += [*own, *others[:room]]
        del others[:room]
    return [*found, *others]
