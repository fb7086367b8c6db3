"""What a lock on Redis costs at least: two round trips, by a raw socket.

Acquire is one ``SET NX PX``, release one run of a script that compares and deletes. Nothing can wait here:
there is no queue, nothing is renewed, and no call has a deadline.
"""

from __future__ import annotations

import hashlib
import socket

from bench.takers import SESSION_S, Release, Take, Taker

__all__ = ["Floor"]

DELETE = b"return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0"
VALUE = b"floor"


class Floor(Taker):
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sha = hashlib.sha1(DELETE, usedforsecurity=False).hexdigest().encode()
        assert self._asked(_packed(b"SCRIPT", b"LOAD", DELETE)).startswith(b"$40\r\n" + sha)
        self._sha = sha

    def use(self, name: str, side: str) -> Take:
        """Return what takes a free lock; AssertionError if it is not free."""
        key = f"floor:{name}".encode()
        acquire = _packed(b"SET", key, VALUE, b"NX", b"PX", str(SESSION_S * 1000).encode())
        release = _packed(b"EVALSHA", self._sha, b"1", key, VALUE)

        def let_go() -> None:
            assert self._asked(release) == b":1\r\n"

        def take() -> Release:
            assert self._asked(acquire) == b"+OK\r\n"
            return let_go

        return take

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _asked(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        return self._socket.recv(4096)


def _packed(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
