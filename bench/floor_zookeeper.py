"""ZooKeeper by a bare socket: the exchanges of this package's lock, and nothing else.

No reconnecting, no timeouts, no threads, no proof of anything: what is left is what the
server and Python's sockets take. A session for each use, without pings.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import uuid
from typing import NamedTuple

from bench.takers import Release, Take, Taker

__all__ = ["Floor", "Wire"]

CREATE2, DELETE, GET, CHILDREN, CREATE, EXISTS, SYNC = 15, 2, 4, 8, 1, 3, 9
NO_NODE, NODE_EXISTS = -101, -110
EVENT = -1
LONGEST_MS = 60_000
ANYBODY = struct.pack(">ii", 1, 31) + struct.pack(">i5si6s", 5, b"world", 6, b"anyone")
EPHEMERAL, EPHEMERAL_SEQUENTIAL = 1, 3


class Reply(NamedTuple):
    """What a frame from the server says."""

    xid: int
    error: int
    body: bytes


class Wire:
    """One connection and its session."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._gone: set[str] = set()
        self._xids = itertools.count(1)
        self._socket.sendall(_frame(struct.pack(">iqiqi16s", 0, 0, LONGEST_MS, 0, 16, b"")))
        self._next_frame()

    def ask(self, *requests: tuple[int, bytes]) -> list[Reply]:
        """Send requests together, and return their replies."""
        data = [_frame(struct.pack(">ii", next(self._xids), kind) + body) for kind, body in requests]
        self._socket.sendall(b"".join(data))
        replies: list[Reply] = []
        while len(replies) < len(requests):
            reply = self.next()
            if reply.xid != EVENT:
                replies.append(reply)
        return replies

    def ephemeral(self, path: str) -> str:
        """Make a node of this session."""
        self.ask((CREATE, _text(path) + _text("") + ANYBODY + struct.pack(">i", EPHEMERAL)))
        return path

    def ask_for(self, path: str) -> None:
        """Have the leader answer, and look for a node behind it; AssertionError if it is not there."""
        _, found = self.ask((SYNC, _text("/")), (EXISTS, _text(path) + b"\0"))
        assert not found.error, "the node should be there"

    def wait_gone(self, path: str) -> None:
        """Wait for the event of a node that is watched."""
        while path not in self._gone:
            self.next()
        self._gone.discard(path)

    def next(self) -> Reply:
        """Return what the server says next; events are noted."""
        frame = self._next_frame()
        xid, _, error = struct.unpack_from(">iqi", frame)
        if xid == EVENT:
            self._gone.add(_string(frame[24:]))
        return Reply(xid, error, frame[16:])

    def close(self) -> None:
        """End the session with its connection, if it has not ended by itself."""
        with contextlib.suppress(OSError):
            self._socket.sendall(_frame(struct.pack(">ii", next(self._xids), -11)))
            self._next_frame()
        self._socket.close()

    def _next_frame(self) -> bytes:
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._length():
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._buffer += data
        end = 4 + self._length()
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        return frame

    def _length(self) -> int:
        return int.from_bytes(self._buffer[:4], "big")


class Floor(Taker):
    """The lock of this package, step by step, on a bare socket."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._wire: Wire | None = None

    def use(self, name: str, side: str) -> Take:
        if self._wire is not None:
            self._wire.close()
        wire = self._wire = Wire(self._address)
        node = f"/bench/{name}"
        for path in ("/bench", node):
            wire.ask((CREATE, _text(path) + _text("") + ANYBODY + struct.pack(">i", 0)))

        def take() -> Release:
            create = _text(f"{node}/_c_{uuid.uuid4()}-lock-") + _text("") + ANYBODY
            created, listed = wire.ask(
                (CREATE2, create + struct.pack(">i", EPHEMERAL_SEQUENTIAL)), (CHILDREN, _text(node) + b"\0")
            )
            own = _string(created.body)
            _wait_turn(wire, node, own.rpartition("/")[2], _ahead(listed.body, own))

            def release() -> None:
                wire.ask((DELETE, _text(own) + struct.pack(">i", -1)))

            return release

        return take


def _wait_turn(wire: Wire, node: str, own: str, ahead: list[str]) -> None:
    """Watch the second ahead; when it goes, watch the nearest and look, in one round trip."""
    while ahead:
        nearest = f"{node}/{ahead[-1]}"
        if len(ahead) > 1:
            second = f"{node}/{ahead[-2]}"
            (found,) = wire.ask((GET, _text(second) + b"\1"))
            if found.error != NO_NODE:
                wire.wait_gone(second)
            found, listed = wire.ask((GET, _text(nearest) + b"\1"), (CHILDREN, _text(node) + b"\0"))
            ahead = _ahead(listed.body, own)
            if len(ahead) > 1:
                continue
        else:
            (found,) = wire.ask((GET, _text(nearest) + b"\1"))
        if found.error != NO_NODE:
            wire.wait_gone(nearest)
            return
        ahead = ahead[:-1]


def _ahead(listed: bytes, own: str) -> list[str]:
    """Return the contenders ahead, nearest last."""
    (count,) = struct.unpack_from(">i", listed)
    names, at = [], 4
    for _ in range(count):
        (length,) = struct.unpack_from(">i", listed, at)
        names.append(listed[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return sorted((name for name in names if name[-10:] < own[-10:]), key=lambda name: name[-10:])


def _frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">i", len(data)) + data


def _string(data: bytes) -> str:
    (length,) = struct.unpack_from(">i", data)
    return data[4 : 4 + length].decode()
