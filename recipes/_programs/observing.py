"""The programs that look at a queue from outside, or remove another's contender from it."""

from __future__ import annotations

from typing import Any

from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Expel,
    Program,
    Queues,
    Standing,
    Survey,
)
from recipes._programs.queueing import _unanswered
from recipes._programs.steps import Attach
from recipes.errors import SessionLost

__all__ = ["expel", "look_up"]


def look_up(op: Survey | Queues) -> Program[tuple[Any, ...]]:
    """Read something from outside of any queue; once more if the session ends meanwhile."""
    while True:
        try:
            yield from Attach()
            found: tuple[Any, ...] = yield from op
        except SessionLost:
            continue
        except Expired as expired:
            raise _unanswered(expired) from None
        return found


def expel(queue: str, token: int, most: int) -> Program[bool]:
    """Remove the contender with this token, if it is among the first so many; False: there is none."""
    while True:
        standing: tuple[Standing, ...] = yield from look_up(Survey(queue, most))
        ref = next((one.contender.ref for one in standing if one.token == token), None)
        if ref is None:
            return False
        try:
            return (yield from Expel(queue, ref, token))
        except SessionLost:
            continue
        except Expired as expired:
            raise _unanswered(expired) from None
