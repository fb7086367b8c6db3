"""ZooKeeper's frames: a length of four bytes, then a header, then what the operation needs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from integration.harness.wire import Request, Wire

__all__ = ["ZooKeeperWire"]

OPERATIONS = {
    1: "create", 2: "delete", 3: "exists", 4: "get", 5: "set", 6: "getAcl", 7: "setAcl", 8: "getChildren",
    9: "sync", 11: "ping", 12: "getChildren2", 13: "check", 14: "multi", 15: "create2", 16: "reconfig",
    18: "removeWatches", 19: "createContainer", 21: "createTtl", 22: "multiRead", 100: "auth",
    101: "setWatches", 104: "getAllChildrenNumber", 105: "setWatches2", 106: "addWatch", -11: "close",
}  # fmt: skip
"""Names of operations as tests use them, by number (ZooKeeper's ``ZooDefs.OpCode``)."""

WITHOUT_PATH = {"ping", "auth", "close", "setWatches", "setWatches2", "reconfig"}
MULTI = {"multi", "multiRead"}
EVENT = -1  # the xid of a notification
LARGEST = 2**24  # a longer "length" is no length, but a four-letter word


class ZooKeeperWire(Wire):
    """Requests by their ``xid``: replies come in order, events in between. ``connect`` is the first frame."""

    def __init__(self) -> None:
        self._up = Frames()
        self._down = Frames()
        self._waiting: dict[int, Request] = {}
        self._connecting: Request | None = None
        self._connected = False

    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        for frame in self._up.feed(data):
            yield frame, [] if self._up.raw else [self._asked(frame)]

    def received(self, data: bytes) -> Iterator[tuple[bytes, list[Request | None]]]:
        if self._up.raw:
            yield data, []
            return
        for frame in self._down.feed(data):
            yield frame, [self._answered(frame)]

    def _asked(self, frame: bytes) -> Request:
        if self._connecting is None:
            self._connecting = Request("connect", "", frame)
            return self._connecting
        xid, number = struct.unpack_from(">ii", frame, 4)
        label = OPERATIONS.get(number, str(number))
        request = self._waiting[xid] = Request(label, _path(label, frame), frame)
        return request

    def _answered(self, frame: bytes) -> Request | None:
        if not self._connected:
            self._connected = True
            return self._connecting
        (xid,) = struct.unpack_from(">i", frame, 4)
        return None if xid == EVENT else self._waiting.pop(xid, None)


class Frames:
    """Cuts one direction into frames; ``raw`` once it turned out to carry none."""

    def __init__(self) -> None:
        self.raw = False
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield each frame that is complete, its length included."""
        self._buffer += data
        while len(self._buffer) >= 4:
            (length,) = struct.unpack_from(">I", self._buffer)
            self.raw = self.raw or length > LARGEST
            size = len(self._buffer) if self.raw else 4 + length
            if len(self._buffer) < size:
                return
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            yield frame


def _path(label: str, frame: bytes) -> str:
    """Return the path an operation names first; of a multi, that of its first part."""
    if label in WITHOUT_PATH:
        return ""
    at = 12 + (9 if label in MULTI else 0)  # a part begins with its type, a flag and an error
    if len(frame) < at + 4:
        return ""
    (length,) = struct.unpack_from(">i", frame, at)
    return frame[at + 4 : at + 4 + max(length, 0)].decode(errors="replace")
