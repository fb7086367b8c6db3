"""What stands in a queue of a model, and which of it may hold: what the oracle holds the package to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from recipes._contract.contenders import Contender
from recipes._rules.holding import holders

__all__ = ["Given", "Stands", "free", "seen"]

Given = tuple[str, int]
"""A queue and a token of it. A store that draws tokens from a clock may give one of them in two queues."""


class Stands(NamedTuple):
    """A contender on the store, as the store itself knows it.

    Attributes:
        token: Its fencing token, which is its place.
        contender: Its id.
        kind: What the rule of which says what blocks it.
        mark: The state of its recipe.
        data: What its user says.
        version: How often it was rewritten.
        session: The session that it ends with.
    """

    token: int
    contender: str
    kind: str
    mark: str = ""
    data: bytes = b""
    version: int = 0
    session: int = 0


def seen(standing: Iterable[Stands]) -> list[Contender]:
    """Return what the rules judge of them."""
    return [Contender(str(one.token), one.contender, one.kind, mark=one.mark) for one in standing]


def free(standing: list[Stands]) -> list[Stands]:
    """Return those that hold by the rules of their kinds, in order."""
    return standing[: holders(seen(standing))]
