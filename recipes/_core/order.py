"""Who blocks whom: the pure heart of every recipe that queues.

A lock is a queue of ephemeral, ordered contenders (the ZooKeeper recipe of
predecessor watches; Go's ``concurrency.Mutex`` on etcd has the same shape). A recipe
is one `Order`: what kind of contender it adds, and the predicate that names, among
the contenders ahead, those *any one of whose going may free me*. Nothing named means
granted.

A predicate must be monotone (a contender that goes never blocks anybody), which
gives the rule for watching: leave the nearest blocker out and ask again. If somebody
still blocks, I cannot be free before one of *those* is gone, so they are what to
watch, and the nearest only becomes interesting once it is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from recipes._core.record import record

__all__ = ["EVERYBODY", "EXCLUSIVE", "SHARED", "WRITER", "Ahead", "Contender", "Order", "granted", "waiting"]


@record
class Contender:
    """Somebody in a queue, as the store shows it.

    Attributes:
        ref: Its node or key.
        id: The id of the attempt that made it; empty for another client's layout.
        kind: "R" shared; everything else excludes all others.
        session: The owner's session; empty if it is not known.
        downgraded: A writer that was granted, and lets readers in beside it since. A store
            that shows this only to those it concerns says False to others.
        token: When it was created, where another may come to have its ref; else 0.
    """

    ref: str
    id: str = ""
    kind: str = "W"
    session: str = ""
    downgraded: bool = False
    token: int = 0

    @property
    def shared(self) -> bool:
        """Whether it lets other shared contenders in beside it."""
        return self.kind == "R"


Ahead = tuple[Contender, ...]  # nearest first


def _nearest(ahead: Ahead) -> Ahead:
    return ahead[:1]


def _nearest_writer(exclusive: Ahead) -> Ahead:
    """Return the nearest writer, unless it downgraded: it was granted, so nobody ahead is in the way."""
    return () if exclusive and exclusive[0].downgraded else exclusive[:1]


@dataclass(frozen=True, slots=True)
class Order:
    """One recipe's way of queueing.

    Attributes:
        kind: The kind of contender it adds ("lock" for the plain lock, "W", "R", ...).
        blocked_by: The predicate: contenders ahead, nearest first, to those any one of
            whose going may free me.
        depth: How many of the nearest contenders the predicate has to see.
        exclusive_only: The predicate looks at exclusive contenders alone, and at whether they downgraded.
        steps_up: Move up while the holder still holds (see `targets`). Not for those of whom
            many wait for the same one: they would all wake for nothing.
    """

    kind: str
    blocked_by: Callable[[Ahead], Ahead] = _nearest
    depth: int = 1
    exclusive_only: bool = False
    steps_up: bool = True

    def blockers(self, ahead: Ahead) -> Ahead:
        """Return those any one of whose going may free me; empty: granted."""
        return self.blocked_by(self.visible(ahead))

    def visible(self, ahead: Ahead) -> Ahead:
        """Return the contenders that count for this recipe."""
        if self.exclusive_only:
            return tuple(contender for contender in ahead if not contender.shared)
        return ahead

    def targets(self, ahead: Ahead) -> Ahead:
        """Return whom to watch: nobody (granted), or those without whose going I cannot be free."""
        ahead = self.visible(ahead)
        blockers = self.blocked_by(ahead)
        if not blockers or not self.steps_up:
            return blockers
        without_nearest = tuple(contender for contender in ahead if contender is not blockers[0])
        return self.blocked_by(without_nearest) or blockers

    @property
    def reach(self) -> int:
        """How many contenders ahead a bounded read has to show: one more than the predicate needs."""
        return self.depth + 1


def granted(queue: Sequence[Contender]) -> list[bool]:
    """Return who of a queue, from its head on, holds as the store shows it; he may not know it yet."""
    held: list[bool] = []
    nearest: Contender | None = None  # the nearest ahead that is exclusive
    for number, contender in enumerate(queue):
        if contender.shared:
            held.append(nearest is None or nearest.downgraded)
        else:
            held.append(number == 0)
            nearest = contender
    return held


EXCLUSIVE = Order("lock")
WRITER = Order("W")
SHARED = Order("R", _nearest_writer, exclusive_only=True, steps_up=False)
EVERYBODY = Order("W", depth=2**31 - 2)
"""Looks at all who are ahead, whoever they are; for counting them."""


def waiting(ahead: Ahead) -> int:
    """Return how many of all those ahead wait themselves: not the first, nor the readers that hold beside it.

    Readers beside a writer that downgraded count as waiting: not every store shows them apart.
    """
    first_come = ahead[::-1]
    readers = len(list(takewhile(lambda contender: contender.shared, first_come)))
    return len(ahead) - max(readers, min(len(ahead), 1))
