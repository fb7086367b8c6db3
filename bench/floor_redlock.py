"""What a lock on five Redis costs at least: two round trips to the quickest three, by raw sockets.

What each is asked is what `bench.floor_redis` asks one. The answers of the slower two are read when they
come. Nothing can wait here, nothing is renewed, and no call has a deadline.
"""

from __future__ import annotations

import selectors
import socket

from bench.floor_redis import loaded, requests
from bench.takers import Release, Take, Taker

__all__ = ["Floor"]


class Floor(Taker):
    """A connection to each."""

    def __init__(self, address: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._owed: dict[socket.socket, int] = {}
        """How many lines each has yet to send."""
        for one in address.split(","):
            host, _, port = one.partition(":")
            made = socket.create_connection((host, int(port)))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            loaded(made)
            self._owed[made] = 0
            self._selector.register(made, selectors.EVENT_READ, made)
        self._quorum = len(self._owed) // 2 + 1

    def use(self, name: str, side: str) -> Take:
        """Return what takes a free lock; AssertionError if it is not free."""
        acquire, release = requests(name)

        def let_go() -> None:
            self._asked(release, b":1\r\n")

        def take() -> Release:
            self._asked(acquire, b"+OK\r\n")
            return let_go

        return take

    def close(self) -> None:
        """Close the connections."""
        for one in self._owed:
            one.close()

    def _asked(self, request: bytes, wanted: bytes) -> None:
        for server in self._owed:
            server.sendall(request)
            self._owed[server] += 1
        answered = 0
        while answered < self._quorum:
            for key, _ in self._selector.select():
                one: socket.socket = key.data
                said = one.recv(4096)
                assert said.endswith(b"\n"), "it should answer with whole lines"
                self._owed[one] -= said.count(b"\n")
                if not self._owed[one]:
                    assert said.endswith(wanted), "it should be free, and then held"
                    answered += 1
