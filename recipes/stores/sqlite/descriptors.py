"""The descriptors that SQLite has open, of which it does not say which they are."""

from __future__ import annotations

import os
import sys
from itertools import count

from recipes._descriptors import Identity, identity

__all__ = ["Files", "Opening", "open_files"]

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


class Opening:
    """The opening of a connection, from here until `Files` has looked, or `ends`.

    Attributes:
        before: What was open as it began.
    """

    def __init__(self) -> None:
        _openings.add(self)
        self._alone = len(_openings) == 1
        self._number = next(_begun)
        self.before = open_files()

    def ends(self) -> bool:
        """Return whether no other was opened meanwhile, so that what is new is its own."""
        _openings.discard(self)
        return self._alone and next(_begun) == self._number + 1


_openings: set[Opening] = set()
_begun = count()
getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_openings.clear)  # not on every platform


class Files:
    """The descriptors that SQLite opened for one connection; it does not say which they are.

    Connections of one process share descriptors, and keep those of closed ones for later. So where none is
    new, or what is new may be another connection's, any of that file may be the one: of each file one at
    least has to be there.

    As long as the connection is open, each file keeps its name: SQLite removes the log and the memory with
    the last connection to the file, of any process.

    Args:
        path: The file.
        opening: The opening of the connection, which ends here.

    Attributes:
        file: What was at the path, once it was open.
        complete: Whether all of them were found: what is at each name is open, as far as the system tells.
    """

    def __init__(self, path: str, opening: Opening) -> None:
        opened = open_files()
        after = opened.items()
        alone, before = opening.ends(), opening.before
        self._names = [(path + end, identity(path + end)) for end in BESIDE]
        self.file = self._names[0][1]
        self._any_of: list[list[tuple[int, Identity]]] = []
        for _, wanted in self._names:
            candidates = [(number, what) for number, what in after if what == wanted]
            new = [(number, what) for number, what in candidates if before.get(number) != what]
            if candidates:
                self._any_of.append(new if alone and new else candidates)
        self.complete = all(wanted is not None for _, wanted in self._names) and (
            not opened or len(self._any_of) == len(BESIDE)
        )

    @property
    def whole(self) -> bool:
        """Whether none of them was closed by anybody but SQLite."""
        return self.links() is not None

    @property
    def named(self) -> bool:
        """Whether each is still at its name; `links` costs less, and does not see that one was renamed."""
        return all(identity(name) == what for name, what in self._names)

    def links(self) -> int | None:
        """Return how many names the file has that has the fewest; None: one was closed by others."""
        fewest = 1
        for one in self._any_of:
            for number, what in one:
                found = _status(number)
                if found is not None and (found.st_dev, found.st_ino) == what:
                    fewest = min(fewest, found.st_nlink)
                    break
            else:
                return None
        return fewest


def _status(number: int) -> os.stat_result | None:
    try:
        return os.fstat(number)
    except OSError:
        return None
