"""What a lock on Redis costs at least: two round trips, by a raw socket.

Acquire is one ``SET NX PX``, release one run of a script that compares and deletes. Nothing can wait here:
there is no queue, nothing is renewed, and no call has a deadline.
"""

from __future__ import annotations

import hashlib
import socket

from bench.takers import SESSION_S, Release, Take, Taker

__all__ = ["Floor", "asked", "loaded", "requests"]

DELETE = b"return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0"
SHA = hashlib.sha1(DELETE, usedforsecurity=False).hexdigest().encode()
VALUE = b"floor"


class Floor(Taker):
    """One connection."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loaded(self._socket)

    def use(self, name: str, side: str) -> Take:
        """Return what takes a free lock; AssertionError if it is not free."""
        acquire, release = requests(name)

        def let_go() -> None:
            assert asked(self._socket, release) == b":1\r\n"

        def take() -> Release:
            assert asked(self._socket, acquire) == b"+OK\r\n"
            return let_go

        return take

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def loaded(at: socket.socket) -> None:
    """Have a server keep the script."""
    assert asked(at, _packed(b"SCRIPT", b"LOAD", DELETE)).startswith(b"$40\r\n" + SHA)


def requests(name: str) -> tuple[bytes, bytes]:
    """Return what takes a lock that is free, and what releases it."""
    key = f"floor:{name}".encode()
    acquire = _packed(b"SET", key, VALUE, b"NX", b"PX", str(SESSION_S * 1000).encode())
    return acquire, _packed(b"EVALSHA", SHA, b"1", key, VALUE)


def asked(at: socket.socket, request: bytes) -> bytes:
    """Send a request, and return its answer, which is short."""
    at.sendall(request)
    return at.recv(4096)


def _packed(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
