"""Whether a descriptor is still the one that was opened, before it is used or closed.

Code that makes a daemon closes all descriptors that it finds (``os.closerange``), and what the process opens
next gets the same numbers. A number alone says nothing; the file or socket that is open under it does.
"""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress

__all__ = ["TAKEN", "Descriptor", "Identity", "identity", "leave"]

Identity = tuple[int, int]
"""The device and the inode of a file, or of a socket."""

TAKEN = "a descriptor of the store was closed by other code of this process (os.closerange, for example)"


def identity(of: int | str) -> Identity | None:
    """Return what is open under a number, or is at a path; None: nothing."""
    try:
        found = os.stat(of)  # noqa: PTH116 - at every request
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Descriptor:
    """One descriptor of this package; it is closed in a child that was forked.

    Args:
        of: The number, or the socket, which from here on only `close` closes.
    """

    def __init__(self, of: int | socket.socket) -> None:
        self._of = of
        self._identity = identity(self.number)
        _ours.add(self)

    @property
    def number(self) -> int:
        """Under which it is open; below zero: it is closed."""
        of = self._of
        return of if isinstance(of, int) else of.fileno()

    @property
    def mine(self) -> bool:
        """Whether it is open, and nobody else has closed it."""
        number = self.number
        return number >= 0 and identity(number) == self._identity

    @property
    def taken(self) -> bool:
        """Whether somebody else has closed it; what is open under its number now is not ours."""
        number = self.number
        other = number >= 0 and identity(number) != self._identity
        return other and self.number == number  # else it was closed here meanwhile

    def close(self) -> None:
        """Close it, if it is ours; never raises. What an interrupt left of a socket is closed by the next."""
        of = self._of
        if not isinstance(of, int):
            if self.taken:
                of.detach()
            else:
                with suppress(OSError):
                    of.close()
            return
        self._of = -1
        if of >= 0 and identity(of) == self._identity:
            with suppress(OSError):
                os.close(of)


def leave(one: object) -> None:
    """Keep for good what would close, as it is finalized, a number that is somebody else's by now."""
    _left.append(one)
    with suppress(ImportError):  # at the end of the process the list goes
        import ctypes  # noqa: PLC0415 - of no use otherwise

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


_left: list[object] = []
_ours: weakref.WeakSet[Descriptor] = weakref.WeakSet()


def _close_all() -> None:
    for one in list(_ours):
        one.close()


getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_close_all)  # not on every platform
