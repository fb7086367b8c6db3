"""Which contender blocks which: the pure heart of every recipe that queues.

A lock is a queue of ephemeral, ordered contenders (the ZooKeeper recipe of
predecessor watches; Go's ``concurrency.Mutex`` on etcd has the same shape). A recipe
is one `Rule`: what kind of contender it adds, and the predicate that names, among
the contenders ahead, those *any one of whose going may free me*. Nothing named means
granted.

A predicate must be monotone (a contender that goes never blocks anybody), which
gives the rule for watching: leave the nearest blocker out and ask again. If somebody
still blocks, I cannot be free before one of *those* is gone, so they are what to
watch, and the nearest only becomes interesting once it is alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from recipes._contract.contenders import Ahead
from recipes._record import record

__all__ = ["Mode", "Nearest", "Rule"]

Mode = Literal["exclusive", "shared"]


@record
class Nearest:
    """The predicate of most recipes: blocked once as many are ahead as may hold at once.

    It is data, so that a store can judge by it in a script of its own. Where a store's script does not
    know a predicate, `Probe` is to join, apply it to what it sees, and withdraw again.

    Attributes:
        limit: How many of those ahead that count block; with fewer, nobody does.
        let_in_by: The mark with which the nearest lets others in beside it; empty: no mark does.
    """

    limit: int = 1
    let_in_by: str = ""

    def __call__(self, ahead: Ahead) -> Ahead:
        """Return the nearest ``limit``; nobody if they are fewer, or the nearest lets others in."""
        if len(ahead) < self.limit or (self.let_in_by and ahead[0].mark == self.let_in_by):
            return ()
        return ahead[: self.limit]


def _holds_already(held: Ahead, waiting: Ahead) -> bool:
    """Whether the owner holds something: whatever is in the way waits for that, sooner or later."""
    del waiting  # whatever they are
    return bool(held)


@record
class Rule:
    """One recipe's way of queueing.

    Attributes:
        kind: The kind of contender it adds ("lock" for the plain lock, "W", "R", ...).
        blocked_by: The predicate: contenders ahead, nearest first, to those any one of
            whose going may free me. A dataclass, so that a store can read it (see `Nearest`).
        depth: How many of the nearest contenders the predicate has to see.
        exclusive_only: The predicate looks at exclusive contenders alone.
        own_kind_only: The predicate looks at contenders of the same kind alone: those of other kinds may
            hold or wait, it overtakes them. Stores show all, so ``depth`` has to reach the farthest.
        minds_marks: The predicate looks at the marks of contenders ahead, so a change of one is a wake-up.
        steps_up: Move up while the holder still holds (see `targets`). Not for those of whom
            many wait for the same one: they would all wake for nothing.
        mode: What its grants prove.
        weight: How many permits it takes; None: it takes none, and its grants have fencing tokens (of several
            that hold permits each is legitimate, whatever its number).
        stuck: Whether it would wait for ever, judged by what its owner holds in the same queue, and by
            those ahead that wait.
    """

    kind: str
    blocked_by: Callable[[Ahead], Ahead] = Nearest()
    depth: int = 1
    exclusive_only: bool = False
    own_kind_only: bool = False
    minds_marks: bool = False
    steps_up: bool = True
    mode: Mode = "exclusive"
    weight: int | None = None
    stuck: Callable[[Ahead, Ahead], bool] = _holds_already

    def blockers(self, ahead: Ahead) -> Ahead:
        """Return those any one of whose going may free me; empty: granted."""
        return self.blocked_by(self.visible(ahead))

    def visible(self, ahead: Ahead) -> Ahead:
        """Return the contenders that count for this recipe."""
        if self.exclusive_only:
            return tuple(contender for contender in ahead if not contender.shared)
        if self.own_kind_only:
            return tuple(contender for contender in ahead if contender.kind == self.kind)
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
    def hands_on(self) -> bool:
        """Whether the next may hold from the moment of a release, before the store has confirmed that."""
        return self.weight is None and not self.own_kind_only

    @property
    def reach(self) -> int:
        """How many contenders ahead a bounded read has to show: one more than the predicate needs."""
        return self.depth + 1
