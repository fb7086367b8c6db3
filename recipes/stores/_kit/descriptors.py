"""Whether a descriptor is still the one that was opened, before it is used or closed.

Code that makes a daemon closes all descriptors that it finds (``os.closerange``), and what the process opens
next gets the same numbers. A number alone says nothing; the file or socket that is open under it does.
"""

from __future__ import annotations

import os
import socket
import weakref
from contextlib import suppress

__all__ = ["TAKEN", "Descriptor", "Identity", "identity"]

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
        self._of: int | socket.socket | None = of
        self.number = of if isinstance(of, int) else of.fileno()
        self._identity = identity(self.number)
        _ours.add(self)

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
        """Close it, if it is ours; never raises."""
        number, self.number = self.number, -1
        of, self._of = self._of, None
        if isinstance(of, socket.socket):
            of.detach()  # else it would close the number when it is finalized
        if number >= 0 and identity(number) == self._identity:
            with suppress(OSError):
                os.close(number)


_ours: weakref.WeakSet[Descriptor] = weakref.WeakSet()


def _close_all() -> None:
    for one in list(_ours):
        one.close()


getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_close_all)  # not on every platform
