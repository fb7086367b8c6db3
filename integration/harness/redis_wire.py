"""The protocol of Redis, RESP2: commands one after the other, replies in order, messages in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from integration.harness.wire import Request, Wire

__all__ = ["RedisWire"]

SCRIPTS = ("eval", "evalsha")
MESSAGE = b"*3\r\n$7\r\nmessage\r\n"
"""How what was published begins, on a connection that has subscribed."""


class RedisWire(Wire):
    """Requests by the name of their command, and a run of this package's script by the name of its act."""

    def __init__(self) -> None:
        self._up = bytearray()
        self._down = bytearray()
        self._waiting: deque[Request] = deque()

    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        for piece in _pieces(self._up, data):
            request = _request(piece)
            replies = (
                piece.count(b"\r\n") // 2 - 1 if request.label == "subscribe" else 1
            )  # one for each channel
            self._waiting.extend([request] * replies)
            yield piece, [request]

    def received(self, data: bytes) -> Iterator[tuple[bytes, list[Request | None]]]:
        for piece in _pieces(self._down, data):
            yield piece, [None if piece.startswith(MESSAGE) or not self._waiting else self._waiting.popleft()]


def _request(piece: bytes) -> Request:
    words = piece.split(b"\r\n")[2::2] if piece.startswith(b"*") else piece.split()
    label, *rest = (word.decode(errors="replace") for word in words)
    label = label.lower()
    if label not in SCRIPTS:
        return Request(label, rest[0] if rest else "", piece)
    keys = int(rest[1])
    return Request(rest[3 + keys] if len(rest) > 3 + keys else label, rest[2] if keys else "", piece)


def _pieces(buffer: bytearray, data: bytes) -> Iterator[bytes]:
    """Yield each command or reply that is complete now; an inline command is one line."""
    buffer += data
    while buffer and (end := _end(buffer, 0)):
        piece = bytes(buffer[:end])
        del buffer[:end]
        yield piece


def _end(data: bytearray, at: int) -> int:
    """Return where what begins there ends; 0 if it is not all there."""
    line = data.find(b"\r\n", at) + 2
    if line < 2:
        return 0
    ends = ENDS.get(bytes(data[at : at + 1]))
    return line if ends is None else ends(data, line, int(data[at + 1 : line]))


def _end_of_text(data: bytearray, at: int, length: int) -> int:
    if length < 0:
        return at
    end = at + length + 2
    return end if end <= len(data) else 0


def _end_of_list(data: bytearray, at: int, length: int) -> int:
    for _ in range(length):
        at = _end(data, at)
        if not at:
            return 0
    return at


ENDS: dict[bytes, Callable[[bytearray, int, int], int]] = {b"$": _end_of_text, b"*": _end_of_list}
"""What is longer than its first line."""
