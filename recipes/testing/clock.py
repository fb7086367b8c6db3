"""The clock of a store for tests: it stands still until it is moved."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from recipes._contract.deadline import duration
from recipes._run.manual import EPSILON_S, ManualTime
from recipes._threads import new_thread

if TYPE_CHECKING:
    from recipes.stores.memory import MemoryServer
    from recipes.stores.memory_cell import CellServer

__all__ = ["Clock", "refuse_in_loop"]

REST_WITHIN_S = 10.0  # of real time; a mistake in the test then shows as an error and not as a hang
PASSES = 10  # of the event loop, in which a task may go from one call to its next


class Clock:
    """The time of a `Store` and of all its clients; it stands still until it is moved."""

    def __init__(self, now: ManualTime, server: MemoryServer | CellServer) -> None:
        self._time = now
        self._server = server

    @property
    def now(self) -> float:
        """The time in seconds, from no particular start."""
        return self._time.now()

    def advance(self, seconds: float) -> None:
        """Move the time on, and everything that happens meanwhile happens, in order.

        The time goes from one moment at which something is due to the next (renewals,
        ends of sessions, deadlines, timeouts, re-reads), and not on before every client
        has done what it had to. So a client that is not paused keeps its session however
        far the time is moved. ``advance(0)`` waits for what is due already.

        What your own code does between its calls is not waited for: wait for that by an
        event, or move the time in smaller steps.

        Args:
            seconds: How far; 0 or more.

        Raises:
            ValueError: The seconds are negative or not finite.
            RuntimeError: An event loop runs in this thread (use `advance_async`), or a
                call of a client does not come to rest within 10 s of real time.
        """
        target = self._target(seconds)
        refuse_in_loop("await clock.advance_async()")
        going = True
        while going:
            self._rest()
            going = self._step(target)

    async def advance_async(self, seconds: float) -> None:
        """Same as `advance`, but awaits, so that the tasks of this event loop go on."""
        target = self._target(seconds)
        going, heard = True, -1
        while going:
            heard = await self._rest_async(heard)
            going = self._step(target)

    @contextmanager
    def jumping(self) -> Generator[None]:
        """Let the time jump to what is due next whenever all calls wait, until the ``with`` ends.

        For a call in the test's own thread that has to see time pass: ``with
        clock.jumping(): lock.acquire(timeout=3600)`` takes milliseconds. Time then does not
        wait for anything but calls of clients, so other threads should do nothing else. In
        asyncio move the time beside the call instead, with `advance_async` in another task.

        Raises:
            RuntimeError: An event loop runs in this thread.
        """
        refuse_in_loop("run clock.advance_async() in another task")
        over = threading.Event()
        jumper = new_thread("jumping", self._jump, over)
        jumper.start()
        try:
            yield
        finally:
            over.set()
            with self._time.changed:
                self._time.changed.notify_all()
            jumper.join()

    def _jump(self, over: threading.Event) -> None:
        with self._time.changed:
            while not over.is_set():
                due = self._due()
                if self._time.settled() and self._time.awaited() and due < math.inf:
                    self._step(due)
                else:
                    self._time.changed.wait()

    def _target(self, seconds: float) -> float:
        checked = duration("seconds", seconds)
        if checked is None:
            raise TypeError("seconds is a number, not None")
        return self.now + checked

    def _due(self) -> float:
        return min(self._time.due(), self._server.next_expiry())

    def _step(self, target: float) -> bool:
        """Move to what is due next, at most to ``target``; False if nothing was due."""
        with self._time.lock:
            due = self._due()
            reached = due > target + EPSILON_S
            self._time.move(target if reached else due)
            self._server.expire()
            return not reached

    def _rest(self) -> None:
        with self._time.changed:
            if not self._time.changed.wait_for(self._time.settled, REST_WITHIN_S):
                raise _restless()

    async def _rest_async(self, heard: int) -> int:
        """Let the loop go on until all calls wait; and a bit more, if callers were notified of something."""
        passes = 0
        try:
            async with asyncio.timeout(REST_WITHIN_S):
                while passes < (1 if self._time.told == heard else PASSES):
                    await asyncio.sleep(0)
                    passes = passes + 1 if self._time.settled() else 0
        except TimeoutError:
            raise _restless() from None
        return self._time.told

    def __repr__(self) -> str:
        return f"<Clock at {self.now:g} s>"


def refuse_in_loop(instead: str) -> None:
    """Raise if an event loop runs in this thread, which what follows would block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"this would block the event loop of this thread: {instead}")


def _restless() -> RuntimeError:
    return RuntimeError(
        f"a call of a client has been busy for {REST_WITHIN_S:g} s: does a subscriber of events block?"
    )
