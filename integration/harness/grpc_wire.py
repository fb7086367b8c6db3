"""gRPC in the frames of HTTP/2, as etcd speaks it, told in the gateway's words: both are judged alike."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpack import Decoder
from hyperframe import frame as frames

from integration.harness.etcd_messages import CALLS, MESSAGES, in_json
from integration.harness.wire import Request, Wire

__all__ = ["GrpcWire"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9
WATCH = "/v3/watch"


class Frames:
    """Cuts one direction into frames, each with the bytes it came in."""

    def __init__(self, preface: bytes = b"") -> None:
        self._preface = preface
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, frames.Frame | None]]:
        """Yield each frame that is complete; what every client says first is none."""
        self._buffer += data
        if self._preface and len(self._buffer) >= len(self._preface):
            said, self._preface = self._taken(len(self._preface)), b""
            assert said == PREFACE, "a client of gRPC should begin as one of HTTP/2"
            yield said, None
        while not self._preface and len(self._buffer) >= HEAD:
            frame, size = frames.Frame.parse_frame_header(memoryview(bytes(self._buffer[:HEAD])))
            if len(self._buffer) < HEAD + size:
                return
            piece = self._taken(HEAD + size)
            frame.parse_body(memoryview(piece)[HEAD:])
            yield piece, frame

    def _taken(self, size: int) -> bytes:
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece


class Messages:
    """Cuts the messages out of what one side says on one stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return each message that is complete."""
        self._buffer += data
        found = []
        while len(self._buffer) >= 5 and len(self._buffer) >= (end := 5 + int.from_bytes(self._buffer[1:5])):
            found.append(bytes(self._buffer[5:end]))
            del self._buffer[:end]
        return found

    @property
    def amid(self) -> bool:
        """Whether a message has begun and is not over."""
        return bool(self._buffer)


@dataclass
class Call:
    """One stream, until the server has ended it."""

    path: str
    asks: str
    up: Messages = field(default_factory=Messages)
    down: Messages = field(default_factory=Messages)
    said: list[bytes] = field(default_factory=list)
    request: Request | None = None
    answered: bool = False
    chunks: deque[Request] = field(default_factory=deque)


class GrpcWire(Wire):
    """Many calls side by side on one connection, each answered on a stream of its own.

    A call is a request when all of it was sent. The stream of watches is one when it is opened, and each
    message on it another, as `HttpWire` has them; what the server says there, and of which it tells no
    event, answers the oldest of them. Of that stream a message is passed on whole.
    """

    def __init__(self) -> None:
        self._up = Frames(PREFACE)
        self._down = Frames()
        self._headers = Decoder()
        self._block = b""
        self._calls: dict[int, Call] = {}
        self._kept = b""
        self._tells: list[bool] = []

    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        for piece, frame in self._up.feed(data):
            yield piece, [] if frame is None else self._asked(frame)

    def received(self, data: bytes) -> Iterator[tuple[bytes, list[Request | None]]]:
        answered: list[Request | None] = []
        for piece, frame in self._down.feed(data):
            self._kept += piece
            if frame is not None:
                answered += self._answered(frame)
            if not any(call.down.amid for call in self._calls.values()):
                whole, self._kept = self._kept, b""
                yield whole, answered
                answered, self._tells = [], []

    def tells(self, piece: bytes, answered: list[Request | None]) -> bool:
        return bool(self._tells) and all(self._tells)

    def _asked(self, frame: frames.Frame) -> list[Request]:
        call = self._calls.get(frame.stream_id)
        if isinstance(frame, frames.HeadersFrame | frames.ContinuationFrame):
            self._block += frame.data
            return self._begun(frame.stream_id) if "END_HEADERS" in frame.flags else []
        if isinstance(frame, frames.RstStreamFrame):
            self._calls.pop(frame.stream_id, None)
        elif isinstance(frame, frames.DataFrame) and call is not None:
            messages = call.up.feed(frame.data)
            if call.path == WATCH:
                asked = [Request(f"{WATCH} chunk", WATCH, in_json(call.asks, one)) for one in messages]
                call.chunks += asked
                return asked
            call.said += messages
            if "END_STREAM" in frame.flags:
                body = b"".join(call.said)
                call.request = Request(call.path, call.path, in_json(call.asks, body) if call.asks else body)
                return [call.request]
        return []

    def _begun(self, stream: int) -> list[Request]:
        headers = dict(self._headers.decode(self._block, raw=True))
        self._block = b""
        name = headers[b":path"].decode()
        call = self._calls[stream] = Call(*CALLS.get(name, (name, "")))
        if call.path != WATCH:
            return []
        call.request = Request(WATCH, WATCH, b"")
        return [call.request]

    def _answered(self, frame: frames.Frame) -> list[Request | None]:
        call = self._calls.get(frame.stream_id)
        if call is None:
            return []
        found: list[Request | None] = []
        if isinstance(frame, frames.HeadersFrame) and not call.answered and call.request is not None:
            call.answered = True
            found.append(call.request)
        if isinstance(frame, frames.DataFrame) and call.path == WATCH:
            for message in call.down.feed(frame.data):
                self._tells.append(bool(MESSAGES["WatchResponse"].FromString(message).events))
                found.append(None if self._tells[-1] or not call.chunks else call.chunks.popleft())
        if "END_STREAM" in frame.flags or isinstance(frame, frames.RstStreamFrame):
            del self._calls[frame.stream_id]
        return found
