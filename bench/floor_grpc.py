"""etcd's gRPC by bare sockets: the exchanges of `bench.floor_etcd` in frames of HTTP/2.

Headers are made once, and nothing is looked at but whose data it is and where it ends. What is in a message
is written and read by this package's own tables.
"""

from __future__ import annotations

import struct
from typing import Any

from bench import floor_etcd
from bench.floor_etcd import Json, Wire, connected, received
from recipes.stores import grpc
from recipes.stores.etcd.grpc_messages import METHODS, read, write

__all__ = ["Floor", "GrpcWire"]

_frame = struct.Struct(">HBBBL")
_message = struct.Struct(">BL")


class Frames:
    """One connection."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket = connected(address)
        self._socket.sendall(bytes(grpc.Line().outbox))
        self._heads: dict[str, bytes] = {}
        self._buffer = b""
        self._next = -1

    def begin(self, path: str, message: bytes, last: int) -> tuple[int, bytes]:
        """Return the number of a new stream, and what begins it."""
        head = self._heads.get(path)
        if head is None:
            metadata = [("hasleader", "true")]
            head = grpc.head(self._address, METHODS[path].name, secure=False, metadata=metadata)
            self._heads[path] = head
        self._next += 2
        return self._next, framed(1, 4, self._next, head) + said(self._next, message, last)

    def send(self, data: bytes) -> None:
        """Send what was begun, or said."""
        self._socket.sendall(data)

    def hear(self) -> tuple[int, bytes | None]:
        """Return whose data came; None: its stream has ended."""
        while True:
            buffer = self._buffer
            if len(buffer) >= 9:
                high, low, kind, flags, stream = _frame.unpack_from(buffer)
                end = 9 + (high << 8 | low)
                if len(buffer) >= end:
                    self._buffer = buffer[end:]
                    if kind == 0:
                        return stream, buffer[9:end]
                    if kind == 1 and flags & 1:
                        return stream, None
                    if kind == 4 and not flags:
                        self.send(framed(4, 1, 0, b""))
                    continue
            self._buffer += received(self._socket)


def framed(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame."""
    size = len(payload)
    return _frame.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def said(stream: int, message: bytes, last: int) -> bytes:
    """Return a message on a stream, the only one if it is the ``last`` (1)."""
    return framed(0, last, stream, _message.pack(0, len(message)) + message)


class GrpcWire(Wire):
    """Calls and watches in etcd's own messages."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._calls = Frames(address)
        self._frames: Frames | None = None
        self._stream = 0
        self._buffer = b""

    def key(self, text: str) -> Any:
        return text.encode()

    def number(self, value: int) -> Any:
        return value

    def keys(self, found: Json) -> list[tuple[int, Any]]:
        return [(kv.created, kv.key) for kv in found.get("kvs", ())]

    def ask(self, *calls: tuple[str, Json]) -> list[Json]:
        data, parts = b"", {}
        for path, body in calls:
            stream, begun = self._calls.begin(path, write(METHODS[path].asks, body), 1)
            data += begun
            parts[stream] = b""
        self._calls.send(data)
        left = len(calls)
        while left:
            stream, part = self._calls.hear()
            if part is None:
                left -= 1
            else:
                parts[stream] += part
        answers = zip(calls, parts.values(), strict=True)
        return [read(METHODS[path].answers, part[_message.size :]) for (path, _), part in answers]

    def watch(self, key: Any) -> None:
        self._watch_id += 1
        create = {"key": key, "filters": ["NOPUT"], "watch_id": self._watch_id}
        message = write(METHODS["/watch"].asks, {"create_request": create})
        if self._frames is None:
            self._frames = Frames(self._address)
            self._stream, data = self._frames.begin("/watch", message, 0)
        else:
            data = said(self._stream, message, 0)
        self._frames.send(data)

    def _next(self) -> Json:
        assert self._frames is not None, "a watch should come first"
        while True:
            buffer = self._buffer
            if len(buffer) >= _message.size:
                end = _message.size + _message.unpack_from(buffer)[1]
                if len(buffer) >= end:
                    self._buffer = buffer[end:]
                    return read(METHODS["/watch"].answers, buffer[_message.size : end])
            _, part = self._frames.hear()
            assert part is not None, "the stream should not end"
            self._buffer += part


class Floor(floor_etcd.Floor):
    """The lock of this package, step by step, on bare sockets."""

    by = GrpcWire
