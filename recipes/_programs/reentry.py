"""Re-entrance: one hold that its owner enters again and again; the last to leave releases it.

The store sees one contender. Each entry is a `HeldState` of its own to its holder: it is
left once, by itself, and it is lost together with the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from recipes._programs.hold import RELEASED, HeldState
from recipes.errors import LockLost

if TYPE_CHECKING:
    from recipes.events import Transition

__all__ = ["Reentries", "Reentry"]

NOT_LEFT = "and this thread or task has not released all of its grants yet"


class Reentries:
    """All re-entries of one owner into one hold.

    Args:
        whole: What the store granted.
        guard: Keeps entering and leaving apart, where threads do both.
        on_left: Called when the last entry was left.
    """

    def __init__(
        self, whole: HeldState, guard: AbstractContextManager[Any], on_left: Callable[[Reentries], None]
    ) -> None:
        self.whole = whole
        self._guard = guard
        self._on_left = on_left
        self._inside: dict[Reentry, None] = {}
        # Left when it was not held any more: nothing has reported the loss yet.
        self._unheld: dict[Reentry, None] = {}
        whole.on_end = self._on_end
        whole.entered = lambda: self.grants

    def new(self) -> Reentry:
        """Return an entry to enter with; its holder can leave it, entered or not."""
        return Reentry(self)

    def enter(self, reentry: Reentry, now: float) -> bool:
        """Enter once more; False if the hold was released: then it takes a new one.

        Raises:
            LockLost: The hold was lost, and its owner has not left it. To hold anew, under a
                token that is larger, would vouch for what was read under the old one.
        """
        whole = self.whole
        with self._guard:
            reason = whole.lost(now)
            if reason is None and not whole.ended:
                self._inside[reentry] = None
                return True
        if reason is None:
            return False
        what, labels = f"{reason}, {NOT_LEFT}", whole.labels
        raise LockLost(labels["name"], whole.entry.token, what, recipe=labels["recipe"])

    def leave(self, reentry: Reentry, now: float, tell: Callable[[Transition], None] | None) -> bool:
        """Leave; the last to leave releases the whole. False if it was left, or the whole lost."""
        whole = self.whole
        if whole.ended:  # nobody enters any more; and in a forked child nobody frees the guard
            whole.settle()  # first: this is notified of a loss, too
            self._inside.pop(reentry, None)
            held = False
        else:
            with self._guard:
                if reentry not in self._inside and self._inside:
                    if reentry not in self._unheld:
                        reentry.left()  # it was, but for this, if an interrupt struck
                    return False
                # If nobody is inside, an interrupt struck the last to leave: go on where it did.
                self._unheld[reentry] = None  # first: a loss is to be reported to this as well
                self._inside.pop(reentry, None)
                reentry.last = not self._inside  # behind that: a signal handler may have left the other one
                held = whole.release(now) if reentry.last else whole.remaining(now) > 0
                if held:
                    self._unheld.pop(reentry, None)
        if not self._inside:
            self._on_left(self)
        if held:
            reentry.left()
        if tell is not None:
            for transition in whole.loss_to_report():
                tell(transition)
        return held

    @property
    def grants(self) -> list[Any]:
        """The grants that were not released."""
        return [reentry.grant for reentry in list(self._inside) if reentry.grant is not None]

    def _on_end(self) -> None:
        inside = list(self._inside)  # first: one that leaves meanwhile goes over to the others
        for reentry in (*inside, *(() if self.whole.reason is None else list(self._unheld))):
            if reentry.on_end is not None:
                reentry.on_end()


class Reentry(HeldState):
    """One entry into a hold."""

    __slots__ = ("_among", "_whole", "last")

    def __init__(self, among: Reentries) -> None:
        whole = among.whole
        super().__init__(whole.entry, whole.session, whole.owner, whole.acquired_at, whole.labels)
        self._among = among
        self._whole = whole
        self.last = False  # nobody was inside any more as it was left

    def remaining(self, now: float) -> float:
        """As long as the whole is held and it was not left."""
        return 0.0 if self._end else self._whole.remaining(now)

    def progress(self, now: float) -> bool:
        """Count the ``max_hold`` of the whole from now on; False if it was left, or lost."""
        return not self._end and self._whole.progress(now)

    def lose(self, reason: str) -> bool:
        """End the whole as lost."""
        return self._whole.lose(reason)

    def release(self, now: float, tell: Callable[[Transition], None] | None = None) -> bool:
        """Leave it; see `Reentries.leave`."""
        return not self._end and self._among.leave(self, now, tell)

    def left(self) -> None:
        """End it as left while it was held."""
        self._finish(RELEASED)

    def guard(self) -> bool:
        """Note it of the whole; False if this was left."""
        return self._whole.guard() and not self._end

    def turned_out_lost(self, reason: str) -> None:
        """Correct the release of the whole: the store says that it had been lost before."""
        self._whole.turned_out_lost(reason)
        super().turned_out_lost(reason)

    @property
    def ended(self) -> bool:
        """Whether it was left, or the whole has ended."""
        return bool(self._end) or self._whole.ended

    @property
    def freed(self) -> bool:
        """Whether leaving it released the whole."""
        return self.last and self._whole.released

    @property
    def reason(self) -> str | None:
        """Why it was lost before it was left."""
        return super().reason if self._end else self._whole.reason

    def lost(self, now: float) -> str | None:
        """Return why it is lost, by what was reported or by the clock; None if it is not."""
        return self.reason if self._end else self._whole.lost(now)

    def loss_to_report(self) -> list[Transition]:
        """Return what is to be reported of the loss of the whole."""
        return self._whole.loss_to_report()

    def release_to_report(self, now: float) -> list[Transition]:
        """Return what is to be reported of the release of the whole, by the last to leave."""
        return self._whole.release_to_report(now) if self.last else []
