"""The locks of threads that this package takes by ``with``: no interrupt leaves one of them locked.

On Python 3.14 a signal handler may run between the ``__enter__`` of a function of C, as that of a lock is,
and the block of the ``with`` statement. What it raises there leaves the lock locked for ever. Python 3.13
runs none there, and 3.15 none again (https://github.com/python/cpython/issues/148874). Where a function of
Python returns, or a loop takes its next item, no version runs one: so from 3.14 on a loop takes these locks.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

__all__ = ["Mutex", "new_lock", "new_rlock"]

IN_A_LOOP = sys.version_info >= (3, 14)  # 3.15 too, so that what holds there is tested alike


class Mutex:
    """A ``threading.Lock`` or ``RLock`` that a loop takes."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._left = lock.__exit__
        self._taken = self._taking()
        self.acquire, self.release = lock.acquire, lock.release

    def _taking(self) -> Iterator[bool]:
        return iter(self._lock.acquire, None)  # without an end: it returns True, or raises

    def __enter__(self) -> bool:
        for taken in self._taken:
            return taken
        self._taken = self._taking()
        raise StopIteration  # of a signal handler's, which has ended the iterator too

    __exit__ = property(attrgetter("_left"))
    """Of C: a function of Python could be interrupted before its first line."""

    def __getattr__(self, name: str) -> Any:
        """Return what else a lock has, such as what ``threading.Condition`` asks for."""
        return getattr(self._lock, name)


def new_lock() -> Any:
    """Return a new ``threading.Lock``."""
    return Mutex(threading.Lock()) if IN_A_LOOP else threading.Lock()


def new_rlock() -> Any:
    """Return a new ``threading.RLock``."""
    return Mutex(threading.RLock()) if IN_A_LOOP else threading.RLock()
