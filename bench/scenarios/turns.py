"""Everybody has a turn, again and again: what disturbs the machine for a while disturbs all alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from bench.stage import Crew

__all__ = ["in_turn"]

T = TypeVar("T")


def in_turn(crews: Sequence[Crew], rounds: int, turn: Callable[[Crew], T]) -> dict[str, list[T]]:
    """Return what each crew did, turn by turn; who begins changes from round to round."""
    found: dict[str, list[T]] = {crew.kind.name: [] for crew in crews}
    for number in range(rounds):
        first = number % max(len(crews), 1)
        for crew in (*crews[first:], *crews[:first]):
            found[crew.kind.name].append(turn(crew))
    return found
