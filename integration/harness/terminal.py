"""A command on a terminal of its own: what it draws, the keys it is sent, and how it leaves the terminal."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any, Self

__all__ = ["CTRL_C", "Terminal"]

CTRL_C = b"\x03"
AGAIN_S = 10.0
TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""A key such as Ctrl-C signals the processes whose controlling terminal this is."""


class Terminal:
    """Runs ``command`` on a pseudo terminal for the length of the block.

    Args:
        command: What to run, with the whole path of the program.
        columns: How wide it is.
        lines: How high it is.
        environment: Beside that of this process.
    """

    def __init__(
        self, command: Sequence[str], *, columns: int = 80, lines: int = 24, environment: dict[str, str]
    ) -> None:
        self._own, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        self.drawn = b""
        usual = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE_TERMINAL, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**usual, "TERM": "xterm-256color", **environment},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._own)
        os.close(self._theirs)

    def interrupt(self, within_s: float = 90) -> int:
        """Press Ctrl-C until the process ends, as one does; returns the exit code.

        Python acts on a signal between two of its instructions, or when one breaks off a read: a key
        that is pressed just before `input` begins to read waits for the next key.
        """
        end = time.monotonic() + within_s
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it did not end: {self.drawn[-2000:]!r}"
            self.press(CTRL_C)
            again = time.monotonic() + AGAIN_S
            while self.process.poll() is None and time.monotonic() < again:
                self._read(0.05)
        return self.ended()

    @property
    def attributes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._theirs)

    def press(self, key: bytes) -> None:
        """Press a key."""
        os.write(self._own, key)

    def until(self, text: str, within_s: float = 90) -> None:
        """Read what is drawn until ``text`` is there; AssertionError if it does not come."""
        end = time.monotonic() + within_s
        while text.encode() not in self.drawn:
            assert time.monotonic() < end, f"{text!r} was not drawn: {self.drawn[-2000:]!r}"
            self._read(0.1)

    def ended(self, within_s: float = 90) -> int:
        """Read to the end of the process, and of what it drew; returns the exit code."""
        end = time.monotonic() + within_s
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it did not end: {self.drawn[-2000:]!r}"
            self._read(0.05)
        while self._read(0.0):
            pass
        return self.process.wait()

    def _read(self, within_s: float) -> bool:
        ready, _, _ = select.select([self._own], [], [], within_s)
        if ready:
            self.drawn += os.read(self._own, 1 << 16)
        return bool(ready)
