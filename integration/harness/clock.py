"""The wall clock of one server, which a test sets."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from integration.harness.throwaway import ServerUnavailable

__all__ = ["Clock"]

AHEAD = struct.Struct("=q")


class Clock:
    """A wall clock that is as many seconds ahead of the machine's as was said last; it needs a C compiler.

    Args:
        place: The beginning of the names of its files, which stay when the server is wiped.
    """

    def __init__(self, place: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise ServerUnavailable("a clock that can be set needs a C compiler (Debian: gcc)")
        self._ahead = Path(f"{place}.clock")
        self._library = Path(f"{place}.so")
        source = Path(__file__).with_name("clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", self._library, source], check=True, timeout=60)
        self._ahead.write_bytes(AHEAD.pack(0))

    @property
    def words(self) -> Sequence[str]:
        """Return what comes before the command of the program that is to have this clock."""
        return ["env", f"LD_PRELOAD={self._library}", f"CLOCK_AHEAD={self._ahead}"]

    def set(self, ahead_s: int) -> None:
        """Have it be so many seconds ahead of this machine's clock, at once."""
        with self._ahead.open("r+b") as file:
            file.write(AHEAD.pack(ahead_s))

    def close(self) -> None:
        """Remove its files."""
        for path in (self._ahead, self._library):
            path.unlink(missing_ok=True)
