"""The re-entrant lock: its owner, a thread or task, may enter it again while it holds it."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from recipes._api.held import Held
from recipes._api.held_tasks import AsyncHeld
from recipes._api.held_threads import BlockingHeld
from recipes._mutex import new_rlock
from recipes._programs.reentry import Reentries
from recipes.grant import AsyncGrant, Grant

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from recipes._run.runtime import Call

__all__ = ["AsyncRLock", "RLock"]


class _BaseRLock(Held):
    """What a re-entrant lock is in both runtimes."""

    _recipe: ClassVar[str] = "rlock"

    def _may_reenter(self, owner: object) -> bool:
        return (owner, self._queue) in self._runtime.reentries

    def _reenter(self, owner: object) -> HeldState | None:
        reentries = self._runtime.reentries.get((owner, self._queue))
        if reentries is None:
            return None
        reentry = reentries.new()
        try:
            return reentry if reentries.enter(reentry, self._runtime.now()) else None
        except BaseException:
            self._runtime.give_back(reentry)  # nobody else would leave it
            raise

    def _grantable(self, hold: HeldState) -> HeldState:
        known = self._runtime.reentries
        for key, reentries in list(known.items()):
            if reentries.whole.ended and self._is_over(key[0]):
                known.pop(key, None)  # lost, and its owner went without leaving
        key = (hold.owner, self._queue)
        reentries = Reentries(hold, self._guard(), self._left)
        reentry = reentries.new()
        if not reentries.enter(reentry, self._runtime.now()):
            return hold  # it ended at once: the next call will see
        known[key] = reentries  # last: what is interrupted before leaves nothing here
        return reentry

    def _left(self, reentries: Reentries) -> None:
        known, key = self._runtime.reentries, (reentries.whole.owner, self._queue)
        if known.get(key) is reentries and (left := known.pop(key, reentries)) is not reentries:
            known.setdefault(key, left)  # its owner has acquired it again in between

    def _disown(self, call: Call) -> None:
        """Forget what a call was granted that ends in an exception."""
        reentries = self._runtime.reentries.get((call.owner, self._queue))
        if reentries is not None and reentries.whole is call.hold:
            self._left(reentries)

    @staticmethod
    @abstractmethod
    def _guard() -> AbstractContextManager[Any]:
        """Return what keeps the entries of one owner together."""

    @staticmethod
    @abstractmethod
    def _is_over(owner: Any) -> bool:
        """Return whether the owner, a thread or task, has ended."""


class RLock(_BaseRLock, BlockingHeld[Grant]):
    """An exclusive lock that the thread which holds it may enter again, as ``threading.RLock``.

    In the queue it is one contender, like a `Lock`, and excludes the locks of the same name. Its
    owner is the thread that acquired it: there, every further acquire returns at once, without
    asking the store, with one more grant of the same token; also through another `RLock` of the
    same client and name. The lock is given back when all of them were released, in any order and
    from any thread.

    When it is lost, all its grants are. Then the owner has to release them (each ``with`` block
    does, and ends as `LockLost`) before it may acquire again: until then every acquire raises
    `LockLost`, for what was read under the old token must not be written under a new one.

    Args:
        name: The lock's name.
        max_hold: Seconds after which its grants are lost, and the next in line gets it, unless
            `Grant.progress` of one was called; the first acquire's counts. At least 0.1; None: never.

    Raises:
        ValueError: The name is empty, or longer than 1 024 encoded bytes;
            ``max_hold`` is too short.
        TypeError: The name is no text, or ``max_hold`` no number.
    """

    _grant = Grant

    def _take(self, call: Call, program: Program[Any]) -> Grant | None:
        try:
            return super()._take(call, program)
        except BaseException:
            self._disown(call)
            raise

    _guard = staticmethod(new_rlock)  # a signal's handler may release in the middle

    @staticmethod
    def _is_over(owner: Any) -> bool:
        return not owner.is_alive()


class AsyncRLock(_BaseRLock, AsyncHeld[AsyncGrant]):
    """An exclusive lock that the task which holds it may enter again.

    In the queue it is one contender, like an `AsyncLock`, and excludes the locks of the same name.
    In the task that acquired it (another waits, also one that this started) every further acquire
    returns at once, with one more grant of the same token; it is given back when all are released.
    When it is lost, all its grants are, and until the task has released them (each ``async with``
    block does, and ends as `LockLost`) every acquire raises `LockLost`.

    Args:
        name: The lock's name.
        max_hold: Seconds after which its grants are lost, and the next in line gets it, unless
            `AsyncGrant.progress` of one was called; the first acquire's counts. At least 0.1.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.

    Raises:
        ValueError: The name is empty, or longer than 1 024 encoded bytes;
            ``max_hold`` is too short; ``on_lost`` is neither.
        TypeError: The name is no text, or ``max_hold`` no number.
    """

    _grant = AsyncGrant

    async def _take(self, call: Call, program: Program[Any]) -> AsyncGrant | None:
        try:
            return await super()._take(call, program)
        except BaseException:
            self._disown(call)
            raise

    _guard = staticmethod(nullcontext)

    @staticmethod
    def _is_over(owner: Any) -> bool:
        over: bool = owner.done()
        return over
