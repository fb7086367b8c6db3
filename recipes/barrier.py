"""The barrier: so many parties wait for each other, and pass together or not at all."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from recipes._api.barrier import BaseBarrier
from recipes._api.held_tasks import current_task
from recipes._api.signatures import like

if TYPE_CHECKING:
    from recipes._run.blocking import BlockingRuntime
    from recipes._run.tasks import AsyncRuntime

__all__ = ["AsyncBarrier", "Barrier"]


class Barrier(BaseBarrier):
    """A barrier: ``parties`` calls wait for each other; all of them pass, or it breaks for all of them.

    It is used again and again, generation by generation, as `threading.Barrier`. A generation breaks if one
    that waits is interrupted, is out of time, or is gone with its session; the next begins clean. A process
    that was killed while it waited counts as one that came until its session has ended. Cheap to make, which
    does no I/O, and safe to share: each call is a party of its own. A lock of its name is another thing.

    Args:
        name: The barrier's name.
        parties: How many pass together, 1 to 1 000; the same number everywhere. It may be another one from
            when nothing uses the barrier.

    Raises:
        ValueError: The name or ``parties`` does not fit.
        TooWeak: The store keeps no values.
    """

    _runtime: BlockingRuntime

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all parties have come, and return how many came before this one in its generation.

        So one of them gets 0, and may do what is to be done once.

        Args:
            timeout: Seconds for all to come; None: any time. When they are over the generation is broken,
                which takes an answer of the store: up to the request timeout more.

        Raises:
            BarrierBroken: The generation is broken, for all that waited in it.
            BarrierMismatch: Others name another number of parties; a ValueError too.
            StoreUnavailable: No answer from the store in time. The others may have passed, or not.
            StoreRefused: The store said no.
            ClientClosed: The client was closed.
            ValueError: The timeout is negative or not finite; nothing was sent.
        """
        return self._cross(timeout, stays=False)

    def enter(self, timeout: float | None = None) -> int:
        """Do as `wait`, and stay inside until `leave`: the two are a double barrier.

        This thread or task is inside then, once.

        Args:
            timeout: As for `wait`.

        Raises:
            RecipesError: As for `wait`.
            RuntimeError: This thread or task is inside.
        """
        return self._cross(timeout, stays=True)

    def leave(self, timeout: float | None = None) -> None:
        """Wait until all that entered together leave; for one that has crashed it does not wait.

        This thread or task is outside from here on, whatever is raised.

        Args:
            timeout: Seconds for the others to leave; None: any time.

        Raises:
            BarrierBroken: Others were inside when the time was over, or this one was not inside any more,
                as its session has ended, or the client was closed.
            StoreUnavailable: No answer from the store in time.
            StoreRefused: The store said no.
            RuntimeError: It did not enter, by this object.
            ValueError: The timeout is negative or not finite; it is still inside.
        """
        owner = threading.current_thread()
        program, call = self._leaving(owner, timeout)
        try:
            self._runtime.run(program, call)
        finally:
            call.unwind()
            self._left(owner)

    def _cross(self, timeout: float | None, *, stays: bool) -> int:
        owner = threading.current_thread()
        program, call = self._crossing(owner, timeout, stays=stays)
        try:
            place = self._runtime.run(program, call)
            return self._entered(owner, place, call) if stays else place.index
        except BaseException:
            call.unwind()
            raise


class AsyncBarrier(BaseBarrier):
    """A barrier for asyncio, as `Barrier` is for threads; parties are calls of tasks.

    Args:
        name: The barrier's name.
        parties: How many pass together, 1 to 1 000; the same number everywhere.

    Raises:
        ValueError: The name or ``parties`` does not fit.
        TooWeak: The store keeps no values.
    """

    _runtime: AsyncRuntime

    @like(Barrier.wait)
    async def wait(self, timeout: float | None = None) -> int:
        return await self._cross(timeout, stays=False)

    @like(Barrier.enter)
    async def enter(self, timeout: float | None = None) -> int:
        return await self._cross(timeout, stays=True)

    @like(Barrier.leave)
    async def leave(self, timeout: float | None = None) -> None:
        owner = current_task()
        program, call = self._leaving(owner, timeout)
        try:
            await self._runtime.run(program, call)
        finally:
            call.unwind()
            self._left(owner)

    async def _cross(self, timeout: float | None, *, stays: bool) -> int:
        owner = current_task()
        program, call = self._crossing(owner, timeout, stays=stays)
        try:
            place = await self._runtime.run(program, call)
            return self._entered(owner, place, call) if stays else place.index
        except BaseException:
            call.unwind()
            raise
