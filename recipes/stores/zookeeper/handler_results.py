"""kazoo's asynchronous results, without a hop to a worker thread and without a condition each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError

from recipes._section import section
from recipes.events import Log

__all__ = ["LeanResult", "survive"]

log = Log("recipes.kazoo")
Completion = Callable[["LeanResult"], object]


class LeanResult:
    """kazoo's ``IAsyncResult``; callbacks run in the thread that sets it, and must not block."""

    __slots__ = ("_arrived", "_callbacks", "_exception", "_lock", "_ready", "value")

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock  # one for all results of a handler: it is held for a few instructions
        self._callbacks: list[Completion] = []
        self._exception: BaseException | None = None
        self._ready = False
        self._arrived: threading.Event | None = None  # made only if somebody waits
        self.value: Any = None

    @property
    def exception(self) -> BaseException | None:
        """The exception, if it ended in one."""
        return self._exception

    def ready(self) -> bool:
        """Return whether there is a value or an exception."""
        return self._ready

    def successful(self) -> bool:
        """Return whether there is a value."""
        return self._ready and self._exception is None

    def set(self, value: Any = None) -> None:
        """Store the value; the first one counts."""
        self._settle(value, None)

    def set_exception(self, exception: BaseException) -> None:
        """Store the exception; the first one counts."""
        self._settle(None, exception)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return the value or raise the exception; KazooTimeoutError if there is none in time."""
        if not self._ready and not (block and self.wait(timeout)):
            raise KazooTimeoutError
        if self._exception is not None:
            raise self._exception
        return self.value

    def get_nowait(self) -> Any:
        """Return the value or raise the exception, if it is there."""
        return self.get(block=False)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a value or an exception."""
        with section.mark, self._lock:
            if self._ready:
                return True
            arrived = self._arrived = self._arrived or threading.Event()
        return arrived.wait(timeout)

    def rawlink(self, callback: Completion) -> None:
        """Call ``callback`` with this result when it is ready, or now."""
        with section.mark, self._lock:
            if not self._ready:
                self._callbacks.append(callback)
                return
        survive(callback, self)

    def unlink(self, callback: Completion) -> None:
        """Undo ``rawlink``."""
        with section.mark, self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _settle(self, value: Any, exception: BaseException | None) -> None:
        with section.mark, self._lock:
            if self._ready:
                return  # kazoo sets a result twice when a request races with close()
            self.value, self._exception, self._ready = value, exception, True
            callbacks, self._callbacks = self._callbacks, []
            arrived = self._arrived
        if arrived is not None:
            arrived.set()
        for callback in callbacks:
            survive(callback, self)


def survive(function: Callable[..., object], *args: object) -> None:
    """Call what somebody else wrote: kazoo's thread must survive it."""
    try:
        function(*args)
    except BaseException:
        log.exception("a callback raised in kazoo's connection thread")
