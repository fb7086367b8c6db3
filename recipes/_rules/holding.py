"""Who of a queue holds, and how many wait."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from recipes._contract.contenders import Ahead, Contender

__all__ = ["granted", "waiting"]


def granted(queue: Sequence[Contender]) -> list[bool]:
    """Return which of a queue, from its head on, hold as the store shows it; they may not know yet."""
    held: list[bool] = []
    nearest: Contender | None = None  # the nearest ahead that is exclusive
    for number, contender in enumerate(queue):
        if contender.shared:
            held.append(nearest is None or nearest.downgraded)
        else:
            held.append(number == 0)
            nearest = contender
    return held


def waiting(ahead: Ahead) -> int:
    """Return how many of all those ahead wait themselves: not the first, nor the readers that hold beside it.

    Readers beside a writer that downgraded count as waiting: not every store shows them apart.
    """
    first_come = ahead[::-1]
    readers = len(list(takewhile(lambda contender: contender.shared, first_come)))
    return len(ahead) - max(readers, min(len(ahead), 1))
