"""The programs that look at a queue from outside, or remove another's contender from it."""

from __future__ import annotations

from typing import Any

from recipes._contract.deadline import Expired
from recipes._contract.operations import (
    Evict,
    List,
    Listing,
    Program,
    Queues,
)
from recipes._programs.queueing import _unanswered
from recipes._programs.steps import Attach
from recipes.errors import SessionLost

__all__ = ["evict", "look_up"]


def look_up(op: List | Queues) -> Program[Any]:
    """Read something from outside of any queue; once more if the session ends meanwhile."""
    while True:
        try:
            yield from Attach()
            found = yield from op
        except SessionLost:
            continue
        except Expired as expired:
            raise _unanswered(expired) from None
        return found


def evict(queue: str, named: int | str, most: int) -> Program[bool]:
    """Remove the contender with this token, or id, if it is among the first so many; False: there is none."""
    while True:
        listing: Listing = yield from look_up(List(queue, most))
        found = next((one for one in listing.contenders if named and named in (one.token, one.id)), None)
        if found is None:
            return False
        try:
            return (yield from Evict(queue, found.ref, found.token))
        except SessionLost:
            continue
        except Expired as expired:
            raise _unanswered(expired) from None
