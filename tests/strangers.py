"""Sockets of somebody else's under numbers that were the package's, and what was done to them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
import time
from pathlib import Path

__all__ = ["ABOVE", "Stranger", "until_asleep"]

ABOVE = 400
"""The other ends have numbers from here on."""
THEIRS = b"theirs"
NAP_S = 0.003
BY_THEN_S = 5.0


def until_asleep() -> None:
    """Wait until no other thread of this process has run for a moment.

    One that has just looked whose a number is may be about to use it: nothing keeps others from taking it in
    between. A thread that polls without a pause is not waited for longer than a few seconds.
    """
    until, before = time.monotonic() + BY_THEN_S, _runs()
    while time.monotonic() < until:
        time.sleep(NAP_S)  # whoever waits for the interpreter has it now
        now = _runs()
        if now == before and all("S (sleeping)" in " ".join(of) for of in now.values()):
            return
        before = now


def _runs() -> dict[str, list[str]]:
    """Return how often each other thread was switched to, and whether it waits for something."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        if task.name != str(threading.get_native_id()):
            with contextlib.suppress(OSError):  # it has ended
                lines = (task / "status").read_text().splitlines()
                found[task.name] = [line for line in lines if "ctxt_switches" in line or "State:" in line]
    return found


class Stranger:
    """One end of a connection.

    Args:
        number: Under which it is to be open, in place of what is; None: the lowest that is free.
        silent: Nothing has come for it yet, and a read waits until something does.
    """

    def __init__(self, number: int | None = None, *, silent: bool = False) -> None:
        end, other = socket.socketpair()
        if number is not None:
            until_asleep()
            os.dup2(end.fileno(), number)
            end.close()
            end = socket.socket(fileno=number)
        self._end, self.number = end, end.fileno()
        self._kind = os.fstat(self.number).st_ino
        self._other = socket.socket(fileno=fcntl.fcntl(other.fileno(), fcntl.F_DUPFD, ABOVE))
        other.close()
        self._other.setblocking(False)
        self._end.setblocking(silent)
        if not silent:
            self._other.send(THEIRS)

    def hurt(self) -> str:
        """Return what was done to it; empty: nothing."""
        try:
            if os.fstat(self.number).st_ino != self._kind:
                return f"{self.number} is another's"
            if self._end.getblocking():  # it was silent
                self._other.send(THEIRS)
                self._end.setblocking(False)
            if _read(self._end) != THEIRS:
                return f"{self.number} was read from"
            self._other.send(THEIRS)
            said = _read(self._other)
            return "" if said is None else f"{self.number} received {said!r}"  # or its end
        except OSError as error:
            return f"{self.number}: {error}"

    def close(self) -> None:
        """Close both ends."""
        self._other.close()
        self._end.close()


def _read(end: socket.socket) -> bytes | None:
    """Return what has come, None if nothing has."""
    try:
        return end.recv(100)
    except BlockingIOError:
        return None
