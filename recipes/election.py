"""The election: one candidate leads at a time, says something, and is followed by the next in line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from recipes._api.acquiring import Acquiring
from recipes._api.held_tasks import AsyncQueued
from recipes._api.held_threads import BlockingQueued
from recipes._api.leadership import AsyncLeadership, AsyncWork, BaseElection, Leader, Leadership, Work
from recipes._api.observing import AsyncObserving, Observing
from recipes._api.options import AcquireOptions
from recipes._api.signatures import documented_as, like

__all__ = ["AsyncElection", "AsyncLeadership", "Election", "Leader", "Leadership"]

T = TypeVar("T")


class Election(BaseElection, BlockingQueued[Leadership]):
    """An election: one candidate leads at a time, in order of arrival, and all can see which.

    Cheap to make, which does no I/O, and safe to share; every campaign is a candidate of its own.
    `Election.holders` shows the leader, and `Election.waiters` the candidates. A lock of its name is another
    thing.

    Args:
        name: The election's name.
        max_hold: Seconds after which a leader that makes no ``progress`` loses its leadership.

    Raises:
        ValueError: The name or ``max_hold`` does not fit.
    """

    _grant = Leadership

    def campaign(
        self,
        value: str = "",
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
    ) -> Leadership:
        """Wait until elected, and return the leadership, which is held then, for a ``with`` statement.

        In asyncio ``await`` it, or enter it with ``async with``.

        Args:
            value: What the leader says to those who look: its address, for example.
            timeout: As for `Lock.acquire`, and so are the others.
            max_waiters: How many may wait, with this one.
            on_session_lost: When the place in the queue is gone: "requeue", or "fail".
            on_queued: Called with the number of those ahead.
            on_position: Called when that number changes.

        Raises:
            WouldDeadlock: This thread or task leads already.
            RecipesError: As for `Lock.acquire`; a ValueError if the value or an option does not fit.
        """
        how = AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position, self._data(value))
        return self._acquire(how)

    def leader(self) -> Leader | None:
        """Return which candidate leads, as the store shows it; None if there is none.

        For display, or to find it: no proof, for it may have given up by its own clock, or not know yet.

        Raises:
            RecipesError: As for `Lock.holders`.
        """
        return self._outside(self._look())

    def observe(self) -> Observing[Leader | None]:
        """Return an iterator over the leaders: the one there is, then what every change comes to.

        None while there is none. A slow reader skips leaders, and always sees the last. It outlasts outages,
        and ends with the client. All observers of an election that a client has are one watch: one that
        begins later shows first what that has seen last, which may be a moment old.
        """
        return Observing(*self._observed)

    def run(self, work: Work[T], value: str = "") -> T:
        """Campaign, call ``work(leadership)`` when elected, and do both again if that was lost meanwhile.

        Resigns when ``work`` has ended, and returns what it returned, or raises what it raised. If the
        leadership was lost by then, and ``work`` returned or raised `LockLost` of it, it campaigns again,
        but never before ``work`` has ended. In asyncio a loss, or closing the client, cancels ``work``. A
        thread cannot be: there ``work`` has to look at ``leadership.held``, or wait for ``leadership.lost``.

        Args:
            work: What the leader does, in this thread or task; it is called once for each leadership.
            value: What the leader says to those who look.

        Raises:
            ClientClosed: The client was closed: that, an interrupt, or in asyncio a cancel, ends it.
            RecipesError: As for `campaign`.
        """
        return self._lead(lambda: self.campaign(value), work)


class AsyncElection(BaseElection, AsyncQueued[AsyncLeadership]):
    """An election for asyncio, as `Election` is for threads; candidates are tasks.

    Args:
        name: The election's name.
        max_hold: Seconds after which a leader that makes no ``progress`` loses its leadership.
        on_lost: What ``async with`` and `AsyncElection.run` do when leadership is lost: "cancel" the body,
            or "tell" alone.

    Raises:
        ValueError: The name, ``max_hold`` or ``on_lost`` does not fit.
    """

    _grant = AsyncLeadership

    @like(Election.campaign)
    def campaign(
        self,
        value: str = "",
        *,
        timeout: float | None = None,
        max_waiters: int | None = None,
        on_session_lost: Literal["requeue", "fail"] = "requeue",
        on_queued: Callable[[int], object] | None = None,
        on_position: Callable[[int], object] | None = None,
    ) -> Acquiring[AsyncLeadership]:
        how = AcquireOptions(timeout, max_waiters, on_session_lost, on_queued, on_position, self._data(value))
        return self._acquiring(how, "campaign")

    @like(Election.leader)
    async def leader(self) -> Leader | None:
        return await self._outside(self._look())

    @like(Election.observe)
    def observe(self) -> AsyncObserving[Leader | None]:
        return AsyncObserving(*self._observed)

    @documented_as(Election.run)
    async def run(self, work: AsyncWork[T], value: str = "") -> T:
        return await self._lead_async(lambda: self.campaign(value), work)
