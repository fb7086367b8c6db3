"""Waiting for a lock such that no signal goes unheard."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["SLICE_S", "acquire"]

SLICE_S = 0.1
"""The longest that a thread waits in one go where signals are handled.

Python handles a signal between two of its own steps, or when it breaks off a wait. One that strikes
just before a wait begins does neither: its KeyboardInterrupt would come when the wait ends.
"""


class Lock(Protocol):
    """A ``Lock`` or an ``RLock``."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire it; False if that takes longer."""
        ...


def acquire(lock: Lock, timeout_s: float | None) -> bool:
    """Acquire ``lock`` within ``timeout_s`` seconds (None: whenever); in slices in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return lock.acquire(timeout=-1 if timeout_s is None else _allowed(timeout_s))
    until = None if timeout_s is None else time.monotonic() + timeout_s
    while not lock.acquire(timeout=SLICE_S if until is None else _allowed(until - time.monotonic(), SLICE_S)):
        if until is not None and time.monotonic() >= until:
            return False
    return True


def _allowed(timeout_s: float, most_s: float = threading.TIMEOUT_MAX) -> float:
    return min(max(timeout_s, 0.0), most_s)
