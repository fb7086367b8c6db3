"""Locks in a forked child: a thread of the parent may have one, and the child has no such thread.

Nothing would ever let go of that lock. So each object here that has locks and is used by a child as well
makes them anew in it.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Protocol

from recipes._mutex import new_rlock

__all__ = ["free", "make_anew"]


class HasLocks(Protocol):
    """An object that a forked child goes on using."""

    def after_fork(self) -> None:
        """In the child: make the locks anew."""


_ours: weakref.WeakSet[HasLocks] = weakref.WeakSet()


def make_anew(one: HasLocks) -> None:
    """Have ``after_fork`` called in each child that is forked, as long as this object is referred to."""
    _ours.add(one)


def free(lock: Any) -> Any:
    """Return a lock that this thread can take: a new one, or this ``RLock`` if the thread has it already."""
    return lock if lock._is_owned() else new_rlock()  # noqa: SLF001 - nobody else knows


def _after_fork_in_child() -> None:
    for one in list(_ours):
        one.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
