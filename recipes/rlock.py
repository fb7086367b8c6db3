"""The re-entrant lock: its owner, a thread or task, may enter it again while it holds it."""

from __future__ import annotations

import threading
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from recipes._api.locks import LockBase
from recipes._programs.reentry import Entries
from recipes.grant import AsyncGrant, Grant
from recipes.lock import BlockingLock, TaskLock

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.hold import Hold
    from recipes._run.runtime import Call

__all__ = ["AsyncRLock", "RLock"]


class _BaseRLock(LockBase):
    """What both faces of a re-entrant lock share."""

    _recipe: ClassVar[str] = "rlock"

    def _again(self, owner: object) -> Any:
        entries = self._runtime.entries.get((owner, self._queue))
        if entries is None:
            return None
        entry = entries.new()
        try:
            return self._granted(entry) if entries.enter(entry, self._runtime.now()) else None
        except BaseException:
            entry.release(self._runtime.now())  # nobody else would leave it
            if entry.freed:
                self._runtime.withdraw_behind(entry)
            raise

    def _grantable(self, hold: Hold) -> Hold:
        known = self._runtime.entries
        for key, entries in list(known.items()):
            if entries.whole.ended and self._is_over(key[0]):
                known.pop(key, None)  # lost, and its owner went without leaving
        key = (hold.owner, self._queue)
        known[key] = entries = Entries(hold, self._guard(), self._left)
        entry = entries.new()
        entered = entries.enter(entry, self._runtime.now())
        return entry if entered else hold  # it ended at once: whoever asks will see

    def _left(self, entries: Entries) -> None:
        key = (entries.whole.owner, self._queue)
        if self._runtime.entries.get(key) is entries:
            self._runtime.entries.pop(key, None)

    def _disown(self, call: Call) -> None:
        """Forget what a call was granted that ends in an exception."""
        entries = self._runtime.entries.get((call.owner, self._queue))
        if entries is not None and entries.whole is call.hold:
            self._left(entries)

    @staticmethod
    @abstractmethod
    def _guard() -> AbstractContextManager[Any]:
        """Return what keeps the entries of one owner together."""

    @staticmethod
    @abstractmethod
    def _is_over(owner: Any) -> bool:
        """Return whether the owner, a thread or task, has ended."""


class RLock(_BaseRLock, BlockingLock[Grant]):
    """An exclusive lock that the thread which holds it may enter again, as ``threading.RLock``.

    In the queue it is one contender, like a `Lock`, and excludes the locks of the same name. Its
    owner is the thread (in asyncio the task) that acquired it: there, every further acquire
    returns at once, without asking the store, with one more grant of the same token; also
    through another `RLock` of the same client and name. The lock is given back when all of them
    were released, in any order and from any thread.

    When it is lost, all its grants are. Then the owner has to release them (each ``with`` block
    does, and ends as `LockLost`) before it may acquire again: until then every acquire raises
    `LockLost`, for what was read under the old token must not be written under a new one.

    Args:
        max_hold: As for `Lock`, for all grants together: progress of one counts, and what the first
            acquire asked for.
    """

    _grant = Grant

    def _take(self, call: Call, program: Program[Hold] | Program[Hold | None]) -> Grant | None:
        try:
            return super()._take(call, program)
        except BaseException:
            self._disown(call)
            raise

    _guard = staticmethod(threading.RLock)  # a signal's handler may release in the middle

    @staticmethod
    def _is_over(owner: Any) -> bool:
        return not owner.is_alive()


class AsyncRLock(_BaseRLock, TaskLock[AsyncGrant]):
    """Same as `RLock`, but awaits; owners are tasks: another task waits, also one that the owner started.

    Args:
        max_hold: As for `RLock`.
        on_lost: What ``async with`` does when the grant is lost: "cancel" the body, or
            only "tell" by ``grant.lost``.
    """

    _grant = AsyncGrant

    async def _take(self, call: Call, program: Program[Hold] | Program[Hold | None]) -> AsyncGrant | None:
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
