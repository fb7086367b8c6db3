"""A register for each item, in a file that all write: it refuses a token smaller than one it has seen."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from pathlib import Path

__all__ = ["Registers"]

SLOT = struct.Struct("<Q")


class Registers:
    """So many registers.

    Args:
        path: The file.
        count: How many there are.
    """

    def __init__(self, path: Path, count: int) -> None:
        size = SLOT.size * count
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, size)
        self._seen = mmap.mmap(self._file, size)

    def write(self, slot: int, token: int) -> bool:
        """Write as the holder with this token; False: one with a larger token did before.

        While another process is at the same register it is not written, and nothing is known.
        """
        start = slot * SLOT.size
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, SLOT.size, start)
        except BlockingIOError:
            return True
        try:
            (seen,) = SLOT.unpack_from(self._seen, start)
            if token < seen:
                return False
            SLOT.pack_into(self._seen, start, token)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, SLOT.size, start)
        return True
