"""What a lock on a Memcached costs at least: two round trips, by a raw socket.

Acquire adds an item, release deletes it by the count that it got. Nothing can wait here, nothing is renewed,
and no call has a deadline.
"""

from __future__ import annotations

import socket

from bench.takers import SESSION_S, Release, Take, Taker

__all__ = ["Floor"]

VALUE = b"v" * 53
"""As long as what names a holder."""


class Floor(Taker):
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def use(self, name: str, side: str) -> Take:
        """Return what takes a free lock; AssertionError if it is not free."""
        key = f"floor:{name}".encode()
        acquire = b"ms %b %d T%d ME c\r\n%b\r\n" % (key, len(VALUE), SESSION_S, VALUE)

        def take() -> Release:
            code, count = self._asked(acquire).split()
            assert code == b"HD", "it should be free"

            def let_go() -> None:
                assert self._asked(b"md %b C%b\r\n" % (key, count[1:])) == b"HD\r\n"

            return let_go

        return take

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _asked(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        return self._socket.recv(4096)
