"""HTTP/1.1 as the etcd gateway speaks it: keep-alive, and streams that go both ways at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf

from integration.harness.wire import Request, Wire

__all__ = ["HttpWire"]


class Happened(Enum):
    """What the reader of one direction tells, each with what it read."""

    HEAD = auto()  # a head is complete
    CHUNK_BEGAN = auto()
    CHUNK = auto()  # a chunk is complete
    MESSAGE = auto()  # the message is complete


@dataclass
class Message:
    """One request or response while it is read."""

    first_line: str = ""
    chunked: bool = False
    length: float | None = None
    body: bytearray = field(default_factory=bytearray)

    @property
    def status(self) -> int:
        """The status of a response."""
        return int(self.first_line.split()[1])

    @property
    def path(self) -> str:
        """The path of a request, without its query."""
        return self.first_line.split()[1].partition("?")[0]


Event = tuple[Happened, Message]


class Reader:
    """One direction of a connection: lines, then bytes, then lines again.

    h11 would parse this too, but not say which bytes belonged to what.
    """

    def __init__(self, *, responses: bool) -> None:
        self._responses = responses
        self._message = Message()
        self._line = bytearray()
        self._left: float = 0  # bytes of the body or chunk still to come; 0 while lines are read
        self._expect = "first"

    def feed(self, data: bytes) -> Iterator[tuple[bytes, list[Event]]]:
        """Yield ``data`` in pieces that end where a head, a chunk or a message ends."""
        start = at = 0
        events: list[Event] = []
        while at < len(data):
            at, boundary = self._bytes(data, at, events) if self._left else self._lines(data, at, events)
            if boundary:
                yield data[start:at], events
                start, events = at, []
        if start < len(data):
            yield data[start:], events

    def _bytes(self, data: bytes, at: int, events: list[Event]) -> tuple[int, bool]:
        take = int(min(self._left, len(data) - at))
        self._message.body += data[at : at + take]
        self._left -= take
        if self._left:
            return at + take, False
        if self._message.chunked:
            self._expect = "chunk end"
            return at + take, False
        self._finish(events)
        return at + take, True

    def _lines(self, data: bytes, at: int, events: list[Event]) -> tuple[int, bool]:
        end = data.find(b"\n", at) + 1
        self._line += data[at : end or len(data)]
        if not end:
            return len(data), False
        line = bytes(self._line).strip().decode("latin-1")
        self._line.clear()
        return end, self._take(line, events)

    def _take(self, line: str, events: list[Event]) -> bool:
        """Read one line; whether a piece ends with it."""
        message = self._message
        match self._expect:
            case "first" if line:
                message.first_line, self._expect = line, "header"
            case "header" if line:
                self._header(*(part.strip().lower() for part in line.partition(":")[::2]))
            case "header":
                return self._head_done(events)
            case "size":
                self._left = int(line.partition(";")[0], 16)
                message.body.clear()
                if self._left:
                    events.append((Happened.CHUNK_BEGAN, message))
                else:
                    self._expect = "trailer"
            case "chunk end":
                self._expect = "size"
                events.append((Happened.CHUNK, message))
                return True
            case "trailer" if not line:
                self._finish(events)
                return True
            case _:  # an empty line between messages, or a trailer
                pass
        return False

    def _header(self, name: str, value: str) -> None:
        if name == "transfer-encoding" and "chunked" in value:
            self._message.chunked = True
        elif name == "content-length":
            self._message.length = int(value)

    def _head_done(self, events: list[Event]) -> bool:
        message = self._message
        if self._responses and message.status < 200:  # "100 Continue": the response is still to come
            self._message, self._expect = Message(), "first"
            return False
        events.append((Happened.HEAD, message))
        if message.chunked:
            self._expect = "size"
            return True
        bodiless = not self._responses or message.status in (204, 304)
        self._left = message.length if message.length is not None else 0 if bodiless else inf
        if not self._left:
            self._finish(events)
        return True

    def _finish(self, events: list[Event]) -> None:
        events.append((Happened.MESSAGE, self._message))
        self._message, self._expect = Message(), "first"


class HttpWire(Wire):
    """Requests in order, answered in order.

    A streamed request is notified when its head is complete (with an empty body) and again
    for each chunk, labelled ``<path> chunk``; the next chunk from the server answers a chunk.
    """

    def __init__(self) -> None:
        self._up = Reader(responses=False)
        self._down = Reader(responses=True)
        self._waiting: deque[Request] = deque()
        self._chunks: deque[Request] = deque()

    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        for piece, events in self._up.feed(data):
            yield piece, [request for event in events if (request := self._asked(*event))]

    def received(self, data: bytes) -> Iterator[tuple[bytes, list[Request | None]]]:
        for piece, events in self._down.feed(data):
            answered: list[Request | None] = []
            for what, _ in events:
                if what is Happened.HEAD:
                    answered.append(self._waiting.popleft() if self._waiting else None)
                elif what is Happened.CHUNK_BEGAN and self._chunks:
                    answered.append(self._chunks.popleft())
            yield piece, answered

    def tells(self, piece: bytes, answered: list[Request | None]) -> bool:
        return b'"events":' in piece and piece.endswith(b"\r\n")  # a whole chunk

    def _asked(self, what: Happened, message: Message) -> Request | None:
        stream = message.chunked
        if (what is Happened.HEAD and stream) or (what is Happened.MESSAGE and not stream):
            request = Request(message.path, message.path, bytes(message.body))
            self._waiting.append(request)
            return request
        if what is Happened.CHUNK:
            request = Request(f"{message.path} chunk", message.path, bytes(message.body))
            self._chunks.append(request)
            return request
        return None
