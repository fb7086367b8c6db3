"""Sections: stretches of code that must not be entered again by the thread that is inside.

A signal handler and a finalizer run in the thread that they interrupt, between any two of its
instructions. If that thread holds a lock, a handler that wants the same lock waits for ever; and one
that waits for another thread of ours does so too, if that one wants the lock. So every lock of the
transports and drivers is taken inside a section, ``with section(), lock:``, and a public call asks
`Marks.struck` before it waits for anything.
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["Marks", "section"]


class Marks:
    """One mark for each thread; a thread is inside a section while it owns its mark.

    A mark is an ``RLock`` that no other thread ever takes: entering and leaving a section are one call
    of C each, so that no interrupt finds a section half entered, or leaves one entered.
    """

    def __init__(self) -> None:
        self._here = threading.local()

    def __call__(self) -> Any:
        """Return the mark of this thread, to be entered with ``with``."""
        try:
            return self._here.mark
        except AttributeError:
            return self._here.__dict__.setdefault("mark", threading.RLock())

    def struck(self) -> bool:
        """Return whether this thread is inside: then a handler asks, amid what it interrupted."""
        inside: bool = self()._is_owned()  # noqa: SLF001 - nobody else knows
        return inside


section = Marks()
"""A step of a transport or a driver that waits for nobody, and that other threads may wait for."""
