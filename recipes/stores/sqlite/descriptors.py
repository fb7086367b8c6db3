"""Whether a descriptor is still the one that was opened, before it is used or closed.

Code that makes a daemon closes all descriptors that it finds (``os.closerange``), and what the process opens
next gets the same numbers. A number alone says nothing; the file or socket that is open under it does.
"""

from __future__ import annotations

import os
import socket
import sys
import weakref
from contextlib import suppress

__all__ = ["Descriptor", "Files", "Identity", "identity", "open_files"]

Identity = tuple[int, int]
"""The device and the inode of a file, or of a socket."""

OPEN = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
BESIDE = ("", "-wal", "-shm")
"""What SQLite has open: the file, its log, and the memory that its processes share."""


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


def open_files() -> dict[int, Identity]:
    """Return all that this process has open; nothing where the system does not tell."""
    try:
        numbers = [int(name) for name in os.listdir(OPEN)]  # noqa: PTH208 - numbers, not paths
    except OSError:
        return {}
    found = ((number, identity(number)) for number in numbers)
    return {number: what for number, what in found if what is not None}


class Files:
    """The descriptors that SQLite opened for one connection; it does not say which they are.

    Connections of one process share descriptors, and keep those of closed ones for later. So where none is
    new, any of that file may be the one: of each file one at least has to be there.

    Args:
        path: The file.
        before: What was open before the connection was.
    """

    def __init__(self, path: str, before: dict[int, Identity]) -> None:
        after = open_files().items()
        self._any_of: list[list[tuple[int, Identity]]] = []
        for end in BESIDE:
            wanted = identity(path + end)
            candidates = [(number, what) for number, what in after if what == wanted]
            new = [(number, what) for number, what in candidates if before.get(number) != what]
            if candidates:
                self._any_of.append(new or candidates)

    @property
    def whole(self) -> bool:
        """Whether none of them was closed by anybody but SQLite."""
        for one in self._any_of:
            for number, what in one:
                if identity(number) == what:
                    break
            else:
                return False
        return True


_ours: weakref.WeakSet[Descriptor] = weakref.WeakSet()


def _close_all() -> None:
    for one in list(_ours):
        one.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
