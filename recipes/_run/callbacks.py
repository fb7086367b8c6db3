"""Where a blocking client runs its users' callbacks: in threads that no store depends on.

Callbacks of one lane run one after the other; lanes do not wait for each other. A thread
is started when a callback is due and ends when none is left, so that none rests here,
and a client that was closed runs what is due as well as any other.

Nothing here waits for a lock: a signal handler may put a callback where it interrupts
another one that does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from recipes._threads import new_thread
from recipes.events import log

__all__ = ["Callbacks", "Lane"]

MOST_THREADS = 64
"""So many callbacks may block at once; others wait until one of them returns."""


class Callbacks:
    """The threads of one client's callbacks."""

    def __init__(self) -> None:
        self._ready: deque[Lane] = deque()
        self._free = deque([None] * MOST_THREADS)  # one for each thread that may be started

    def lane(self) -> Lane:
        """Return a lane: its callbacks run in order, beside those of all others."""
        return Lane(self._run)

    def _run(self, lane: Lane) -> None:
        """Have a thread run ``lane``; never blocks."""
        self._ready.append(lane)
        self._start()

    def _start(self) -> None:
        try:
            self._free.pop()
        except IndexError:  # a thread that ends looks again
            return
        try:
            new_thread("callbacks", self._serve).start()
        except BaseException as error:
            self._free.append(None)
            if not isinstance(error, RuntimeError):
                raise
            log.warning("no thread can be started for a callback; the next one tries again: %s", error)

    def _serve(self) -> None:
        try:
            while self._ready:
                try:
                    lane = self._ready.popleft()
                except IndexError:  # another thread was quicker
                    break
                lane.run()
        finally:
            self._free.append(None)
            if self._ready:  # it came after the last look, when no thread was free
                self._start()


class Lane:
    """Callbacks that run one after the other, in order."""

    __slots__ = ("_busy", "_due", "_run")

    def __init__(self, run: Callable[[Lane], None]) -> None:
        self._run = run
        self._due: deque[Callable[[], object]] = deque()
        self._busy = threading.Lock()

    def put(self, callback: Callable[[], object]) -> None:
        """Have ``callback`` run after those before it; never blocks."""
        self._due.append(callback)
        self._run(self)

    def run(self) -> None:
        """Run what is due, unless another thread does: that one looks again before it leaves."""
        while self._due and self._busy.acquire(blocking=False):
            try:
                while self._due:
                    self._call(self._due.popleft())
            finally:
                self._busy.release()

    @staticmethod
    def _call(callback: Callable[[], object]) -> None:
        """Call ``callback``; what it raises ends nothing else."""
        try:
            callback()
        except BaseException:
            log.exception("a callback failed")
