"""Whether a history can be put in order: the search of Wing and Gong, with the memory of Lowe.

A history is linearizable if every operation can be given one moment between its call and its
return, such that the operations, done in the order of these moments, are what a model allows
(Herlihy and Wing 1990). The search tries, one after the other, the operations that may come
next: those that were called before any other that is left has returned (Wing and Gong 1993). What
has been done, and the state it led to, is remembered; to come there again by another way is no
news (Lowe 2017). Of operations that are the same and that nobody saw return, the one that was called first
is taken first: it could be done wherever another could. The problem is NP-complete, so the search is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

__all__ = ["UNKNOWN", "Model", "Operation", "Undecided", "linearizable"]

UNKNOWN = math.inf
"""The return of an operation that nobody saw return: it may have happened at any time since, or never."""

LIMIT = 200_000

Way: TypeAlias = tuple[int, Hashable]
"""What has been done, a bit for each operation, and the state it led to."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What was asked and answered, and when; ``returned`` may be `UNKNOWN`."""

    what: str
    value: Hashable
    called: float
    returned: float


class Model(Protocol):
    """What the operations are about, as if there were one client only."""

    start: Hashable

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return the state after the operation, or None if it cannot happen in this one."""
        ...


class Undecided(Exception):
    """The search was given up: too many ways."""


def linearizable(model: Model, history: Iterable[Operation], *, limit: int = LIMIT) -> bool:
    """Whether the model allows the history.

    Raises:
        Undecided: After ``limit`` different situations there is no answer yet.
    """
    operations = sorted(history, key=lambda one: (one.returned, one.called))
    known = sum(one.returned != UNKNOWN for one in operations)
    needed = (1 << known) - 1
    earliest, twins = _earliest_calls(operations[:known]), _twins(operations, known)
    seen: set[Way] = set()
    ways: list[Iterator[Way]] = [iter([(0, model.start)])]
    while ways:
        way = next(ways[-1], None)
        if way is None:
            ways.pop()
        elif way[0] & needed == needed:
            return True
        elif way not in seen:
            seen.add(way)
            if len(seen) > limit:
                raise Undecided(f"{len(operations)} operations, more than {limit} situations")
            ways.append(_steps(model, operations, earliest, twins, way))
    return False


def _earliest_calls(operations: Sequence[Operation]) -> list[float]:
    """Return for each place the earliest call of the operations from there on."""
    earliest = [math.inf]
    for one in reversed(operations):
        earliest.append(min(earliest[-1], one.called))
    return earliest[::-1]


def _twins(operations: Sequence[Operation], known: int) -> dict[int, int]:
    """Return of those that nobody saw return the bits of what is done before: the same, called earlier."""
    last: dict[tuple[str, Hashable], int] = {}
    twins = {}
    for place in range(known, len(operations)):
        same = operations[place].what, operations[place].value
        twins[place] = last.get(same, 0)
        last[same] = 1 << place
    return twins


def _steps(
    model: Model,
    operations: Sequence[Operation],
    earliest: Sequence[float],
    twins: Mapping[int, int],
    way: Way,
) -> Iterator[Way]:
    """Yield where one more operation leads: what returned first is tried first, as it mostly was so."""
    done, state = way
    for place in _next(operations, earliest, twins, done):
        after = model.step(state, operations[place])
        if after is not None:
            yield done | 1 << place, after


def _next(
    operations: Sequence[Operation], earliest: Sequence[float], twins: Mapping[int, int], done: int
) -> Iterator[int]:
    """Yield the places of those that may come next."""
    place = (~done & done + 1).bit_length() - 1
    first_returned = operations[place].returned
    while earliest[place] <= first_returned:
        if not done >> place & 1 and operations[place].called <= first_returned:
            yield place
        place += 1
    for place, twin in twins.items():
        if operations[place].called > first_returned:
            return
        if not done >> place & 1 and done & twin == twin:
            yield place
