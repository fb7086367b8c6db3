"""The members of a group, as its queue shows them."""

from __future__ import annotations

from recipes._contract.contenders import Contender
from recipes._record import record
from recipes._rules.holding import granted
from recipes._rules.members import member_of, unpack

__all__ = ["Listed", "members"]


@record
class Listed:
    """A member, its id and what it says, and the contender that it is."""

    id: str
    data: bytes
    contender: Contender


def members(queue: tuple[Contender, ...]) -> list[Listed]:
    """Return those of a queue that hold their ids, first come first.

    What waits for an id is no member yet, and what is not of this package's layout none at all.
    """
    found = []
    for contender, holds in zip(queue, granted(queue), strict=True):
        says = unpack(contender.data) if holds and contender.id and member_of(contender.kind) else None
        if says is not None:
            found.append(Listed(*says, contender))
    return found
