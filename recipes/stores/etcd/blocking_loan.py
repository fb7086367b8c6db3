"""A watch connection that is lent to the caller that waits for what arrives on it."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any, Protocol

from recipes._descriptors import TAKEN, Descriptor
from recipes.stores.etcd.wires import Channel
from recipes.stores.sockets import Conn, any_ready

__all__ = ["Loan", "Waiter"]

_LOOKS_UP_S = 0.5
"""How long a caller waits in one go: what it waits for may be closed just before, and its number reused."""


class Waiter(Protocol):
    """What a caller waits with.

    Attributes:
        bell: To be called as soon as it may be ready, from any thread; set while the caller waits.
    """

    bell: Callable[[], None] | None

    def ready(self) -> bool:
        """Whether there is nothing more to wait for."""
        ...


class Loan:
    """A connection that a caller may be reading, and the bell that has it look up.

    Attributes:
        lent: Whether callers read it; else the thread does.
        mailbox: That of the call that is to read it, or did so last.
        waiter: What a caller waits with by now. It is the only one: of two, one could take the other's ring.

    Raises:
        OSError: This process has as many descriptors as it may.
    """

    __slots__ = ("_ears", "_of", "_own", "channel", "conn", "lent", "mailbox", "waiter")

    def __init__(self, channel: Channel, conn: Conn) -> None:
        self.channel = channel
        self.conn = conn
        self.lent = False
        self.mailbox: Any = None
        self.waiter: Waiter | None = None
        self._of = os.getpid()
        self._ears = socket.socketpair()
        for end in self._ears:
            end.setblocking(False)
        self._own = tuple(map(Descriptor, self._ears))

    @property
    def taken(self) -> bool:
        """Whether other code of this process closed the connection, or the bell."""
        return self.conn.taken or any(one.taken for one in self._own)

    def serves(self, waiter: Waiter) -> bool:
        """Whether a caller that waits with this is to read; not in a child that was forked."""
        return self.lent and self.waiter is waiter and self._of == os.getpid()

    def ring(self) -> None:
        """Have the caller look up."""
        if self._own[0].taken:  # it would be said to somebody else
            return
        with contextlib.suppress(OSError):  # full: it is rung already; closed: nobody waits
            self._ears[0].send(b"!")

    def arrived(self, timeout_s: float) -> bool:
        """Wait for something to read, so long at most; False as well when the bell is rung.

        Raises:
            OSError: Other code of this process closed what it waits for.
        """
        line, bell = self.conn.sock.fileno(), self._ears[1].fileno()
        if line < 0 or bell < 0:  # closed meanwhile
            return False
        ready = any_ready((line, bell), (), min(timeout_s, _LOOKS_UP_S))
        if self.taken:  # what is to be read there is somebody else's
            raise OSError(TAKEN)
        if bell in ready:
            with contextlib.suppress(OSError):
                self._ears[1].recv(4096)
        return line in ready

    def close(self) -> None:
        """Close the bell; a caller that waits looks up first."""
        self.ring()
        for one in self._own:
            one.close()
