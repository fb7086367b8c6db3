"""Sockets of somebody else's under numbers that were the package's, and what was done to them."""

from __future__ import annotations

import fcntl
import os
import socket

__all__ = ["ABOVE", "Stranger"]

ABOVE = 400
"""The other ends have numbers from here on."""
THEIRS = b"theirs"


class Stranger:
    """One end of a connection.

    Args:
        number: Under which it is to be open, in place of what is; None: the lowest that is free.
    """

    def __init__(self, number: int | None = None) -> None:
        end, other = socket.socketpair()
        if number is not None:
            os.dup2(end.fileno(), number)
            end.close()
            end = socket.socket(fileno=number)
        self._end, self.number = end, end.fileno()
        self._kind = os.fstat(self.number).st_ino
        self._other = socket.socket(fileno=fcntl.fcntl(other.fileno(), fcntl.F_DUPFD, ABOVE))
        other.close()
        for one in (self._end, self._other):
            one.setblocking(False)
        self._other.send(THEIRS)

    def hurt(self) -> str:
        """Return what was done to it; empty: nothing."""
        try:
            if os.fstat(self.number).st_ino != self._kind:
                return f"{self.number} is another's"
            if self._end.recv(100) != THEIRS:
                return f"{self.number} was read from"
            self._other.send(THEIRS)
            return f"{self.number} received {self._other.recv(100)!r}"  # or its end
        except BlockingIOError:
            return ""
        except OSError as error:
            return f"{self.number}: {error}"

    def close(self) -> None:
        """Close both ends."""
        self._other.close()
        self._end.close()
