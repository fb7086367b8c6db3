"""What is held together: what a multi-lock and its grants share in both runtimes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from recipes._api.held import Acquired, Held
from recipes._contract.wakeups import Event
from recipes._programs.hold import SHARED
from recipes._programs.queueing import at_once
from recipes._programs.reentry import Reentry
from recipes._programs.together import (
    Part,
    Together,
    Whole,
    acquire_all,
    release_all,
    tell_end,
    try_all,
    verify_all,
)

if TYPE_CHECKING:
    from recipes._api.options import AcquireOptions
    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from recipes._run.runtime import Call

__all__ = ["BaseMultiGrant", "BaseMultiLock", "Grants"]

Grants = Sequence[tuple[Held, Any]]
"""The parts, each with its grant."""
_numbers = count(1)
"""Of the grants of multi-locks, of all clients: they have no token."""


class BaseMultiGrant:
    """What the grant of a multi-lock is in both runtimes."""

    _fences: ClassVar[bool] = False
    _hold: Any
    _of: Grants

    if TYPE_CHECKING:

        @property
        def token(self) -> None: ...

    def _found(self, lock: object) -> Any:
        for one, grant in self._of:
            if type(lock) is type(one) and one._shares_queue(lock):
                return grant
        raise KeyError(lock)

    def _verification(self) -> Program[bool]:
        return verify_all(self._hold)

    def _withdrawal(self, *, wait: bool) -> Program[bool]:
        return release_all(self._hold, wait=wait)

    def _releasing(self, call: Call) -> Call:
        call.session, call.kept = self._hold.session, [*self._hold.parts]
        return call


class BaseMultiLock(Acquired):
    """What a multi-lock is in both runtimes."""

    _recipe: ClassVar[str] = "multilock"
    _part: ClassVar[type[Held]]

    def __init__(self, runtime: Any, locks: Sequence[Held]) -> None:
        for lock in locks:
            if not isinstance(lock, self._part):
                words = "are locks, readers, writers and semaphores of the same API"
                raise TypeError(f"the parts of a multi-lock {words}, not {type(lock).__name__}")
            if lock._runtime is not runtime:
                raise ValueError(f"{lock!r} is of another client; all parts of a multi-lock are of one")
        if not locks:
            raise ValueError("a multi-lock has one part at least")
        self._locks = sorted(locks, key=lambda lock: lock._queue)
        for one, other in pairwise(self._locks):
            if one._queue == other._queue:
                raise ValueError(f"{one!r} and {other!r} are one queue: a multi-lock takes one of them")
        super().__init__(runtime, ", ".join(lock.name for lock in self._locks))
        self._queues = tuple(lock._queue for lock in self._locks)
        self._labels = {
            "name": self._name,
            "recipe": self._recipe,
            "mode": SHARED if all(lock._rule.mode == SHARED for lock in self._locks) else "exclusive",
            "store": runtime.backend.label,
        }

    def _refuse_deadlock(self, owner: object) -> None:
        for lock in self._locks:
            if not lock._may_reenter(owner):
                lock._refuse_deadlock(owner)

    def _acquisition(self, call: Call, options: AcquireOptions) -> Program[Whole]:
        return acquire_all(self._whole(call, options))

    def _trial(self, call: Call, options: AcquireOptions) -> Program[Whole | None]:
        whole = self._whole(call, options)
        trial = try_all(whole)
        return at_once(trial, partial(tell_end, whole)) if options.timeout == 0 else trial

    def _whole(self, call: Call, options: AcquireOptions) -> Whole:
        parts = [self._part_of(lock, call.owner, options) for lock in self._locks]
        requeues = options.on_session_lost == "requeue"
        kept: list[HeldState] = []
        call.kept = kept
        labels = {**self._labels, "grant": next(_numbers)}
        wake, keep = partial(call.mailbox.post, Event()), partial(setattr, call, "hold")
        return Whole(parts, labels, kept, wake, self._tell, keep, requeues)

    def _part_of(self, lock: Held, owner: object, options: AcquireOptions) -> Part:
        return Part(lock._attempt(owner, options), lambda: lock._reenter(owner))

    def _granted(self, granted: Whole) -> Any:
        """Return the grant; what is in ``granted.held`` at any moment goes if this is interrupted."""
        of, held, hold = [], granted.held, granted.hold
        assert hold is not None, "what is granted was reported as acquired"
        for at, lock in enumerate(self._locks):
            if not isinstance(held[at], Reentry):
                held[at] = lock._grantable(held[at])
            of.append((lock, lock._grant_of(held[at])))
        hold.consist_of(held)
        return self._grant_of(hold, of)

    @abstractmethod
    def _grant_of(self, hold: Together, of: Grants) -> Any:
        """Return the grant of what is held."""

    def _tell(self, hold: Together) -> None:
        """Emit how it ended, of which any thread may be notified in the middle of something."""
        if self._runtime.state.closed is None:
            self._runtime.in_turn()(partial(self._report, hold))
        else:  # nothing that is begun now may come to run
            self._report(hold)

    def _report(self, hold: Together) -> None:
        for transition in hold.end_to_report(self._runtime.now()):
            self._runtime.emit(transition)
