"""The descriptors that SQLite has open, of which it does not say which they are."""

from __future__ import annotations

import os
import sys

from recipes.stores._kit.descriptors import Identity, identity

__all__ = ["Files", "open_files"]

OPEN = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
BESIDE = ("", "-wal", "-shm")
"""What SQLite has open: the file, its log, and the memory that its processes share."""


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
