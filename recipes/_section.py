"""Sections: stretches of code that must not be entered again by the thread that is inside.

A signal handler and a finalizer run in the thread that they interrupt, between any two of its
instructions. If that thread holds a lock, a handler that wants the same lock waits for ever; and one
that waits for another thread of ours does so too, if that one wants the lock. So every lock of the
transports and drivers is taken inside a section, ``with section.mark, lock:``, and a public call asks
`Section.struck` before it waits for anything.
"""

from __future__ import annotations

import threading
from typing import Any

from recipes._mutex import new_rlock

__all__ = ["Section", "section"]


class Section(threading.local):
    """A kind of section: a thread is inside while it owns its ``mark``.

    A mark is an ``RLock`` that no other thread ever takes: entering and leaving a section are one call
    of C each, so that no interrupt finds a section half entered, or leaves one entered.
    """

    mark: Any

    def __getattr__(self, name: str) -> Any:
        """Make the mark of this thread; once, for then it is an attribute like any other."""
        if name != "mark":
            raise AttributeError(name)
        return self.__dict__.setdefault("mark", new_rlock())

    def struck(self) -> bool:
        """Return whether this thread is inside: then a handler asks, amid what it interrupted."""
        inside: bool = self.mark._is_owned()  # noqa: SLF001 - nobody else knows
        return inside


section = Section()
"""A step of a transport or a driver that waits for nobody, and that other threads may wait for."""
