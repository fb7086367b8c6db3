"""gRPC on HTTP/2 frames, as far as a client needs it for calls and streams: bytes in, messages out; no I/O.

Sources: RFC 9113 (HTTP/2), RFC 7541 (HPACK), and gRPC's document "gRPC over HTTP2". Requests are written
without HPACK's tables and Huffman codes, and the server is asked to keep no table either: each block of
headers then stands for itself, and those that were seen before are known.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple
from urllib.parse import unquote

from recipes.stores.tls import ENDED, UNANSWERED

__all__ = ["GrpcError", "Heard", "Line", "Status", "head"]

DATA, HEADERS, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 3, 4, 5, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITY = 1, 1, 4, 8, 32
TABLE_SIZE, ENABLE_PUSH, MOST_STREAMS, STREAM_WINDOW, FRAME_SIZE = 1, 2, 3, 4, 5
UNKNOWN, INTERNAL, UNAVAILABLE = 2, 13, 14
NO_ERROR, CANCEL = 0, 8

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WIDE = 1 << 30
_LAST = (1 << 31) - 1
_LONGEST_FRAME = 16_384
_LONGEST_MESSAGE = 1 << 26
_LONGEST_HEADERS = 1 << 16
_MOST_TOGETHER = 1 << 10
_KNOWN_KEPT = 64
# No reset but a refusal says whether the call was carried out: gRPC's codes of 11 (too many calls) and
# 12 (not safe enough) would say that it was not. Nor does an error of a server in between.
_OF_RESET = {7: UNAVAILABLE, CANCEL: 1}
_OF_HTTP = {401: 16, 403: 7, 404: 12, 429: UNAVAILABLE}

_NAME = re.compile(r"[0-9a-z_.-]+")
_HTTP_1 = b"HTTP/1."
_TLS = (b"\x15\x03", b"\x16\x03")  # an alert, a handshake

_frame_head = struct.Struct(">HBBBL")
_message_head = struct.Struct(">BL")
_long = struct.Struct(">L")
_setting = struct.Struct(">HL")


class GrpcError(Exception):
    """What arrived is no gRPC over HTTP/2; the sentence says what it was."""


class Status(NamedTuple):
    """How a call ended: 0 is well; the codes are gRPC's."""

    code: int
    message: str


class Heard(NamedTuple):
    """What one stream received; with a status it has ended."""

    stream: int
    messages: list[bytes]
    status: Status | None


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return _frame_head.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


_OPENING = (
    _PREFACE
    + _frame(
        SETTINGS,
        0,
        0,
        b"".join(_setting.pack(*s) for s in ((TABLE_SIZE, 0), (ENABLE_PUSH, 0), (STREAM_WINDOW, _WIDE))),
    )
    + _frame(WINDOW, 0, 0, _long.pack(_WIDE))
)


def _literal(text: str) -> bytes:
    """Return a string as HPACK has it, in plain (RFC 7541, 5.2)."""
    value = text.encode("latin-1")
    if any(byte < 0x20 or byte == 0x7F for byte in value) or value != value.strip():
        raise ValueError("text that may not be in a header")
    size = len(value)
    if size < 127:
        return bytes((size,)) + value
    out = bytearray(b"\x7f")
    size -= 127
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out) + value


def head(authority: str, path: str, *, secure: bool, metadata: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return the headers of a call; ``metadata`` is never indexed, by nobody on the way.

    Raises:
        ValueError: Something may not be in a header; it is not shown.
    """
    block = None
    try:
        block = _block(authority, path, metadata, secure=secure)
    except ValueError:  # an encoding error as well, which has the text in it
        pass
    if block is None:  # outside of `except`: the error is not to lead to the other one
        raise ValueError("the path, the host or the metadata of a call cannot be sent in a header")
    return block


def _block(authority: str, path: str, metadata: Sequence[tuple[str, str]], *, secure: bool) -> bytes:
    parts = [
        b"\x20",  # no table: a server that has made its own smaller wants to read that
        b"\x83",
        b"\x87" if secure else b"\x86",
        b"\x04",
        _literal(path),
        b"\x01",
        _literal(authority),
    ]
    parts += [b"\x0f\x10", _literal("application/grpc"), b"\x00", _literal("te"), _literal("trailers")]
    for name, value in metadata:
        if not _NAME.fullmatch(name):
            raise ValueError("a name that metadata may not have")
        parts += [b"\x10", _literal(name), _literal(value)]
    return b"".join(parts)


class _Open:
    """A stream that has not ended: what is still to be sent, and what has come."""

    __slots__ = ("ends", "head", "part", "received", "unsent", "window")

    def __init__(self, head: bytes, window: int, *, ends: bool) -> None:
        self.head: bytes | None = head  # until it is sent
        self.window = window
        self.ends = ends
        self.unsent = bytearray()
        self.part = bytearray()  # of a message
        self.received = 0  # bytes since the server was last let send more


class Line:
    """One connection. Calls and messages go to ``outbox``, as far as the server lets them.

    Args:
        clock: Seconds of a monotonic clock.
        pong_every_s: Answer a ping at most once in so many seconds. A server that measures its bandwidth
            (grpc-go) pings anew with each request as soon as the last ping is answered.

    Attributes:
        outbox: What is to be sent now; the owner sends it and takes it out.
        usable: Whether other streams may begin, a thousand at most. The owner looks before it begins any: a
            server that has said farewell takes no notice of them, so they would never end.
    """

    __slots__ = (
        *(
            "_block",
            "_blocked",
            "_buffer",
            "_clock",
            "_first",
            "_frame_size",
            "_kept_initial",
            "_known",
            "_most",
        ),
        *("_next", "_ping", "_pong_at", "_pong_every_s", "_received", "_streams", "_waiting", "_window"),
        *("outbox", "usable"),
    )

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, pong_every_s: float = 0.0) -> None:
        self.outbox = bytearray(_OPENING)
        self.usable = True
        self._clock = clock
        self._pong_every_s = pong_every_s
        self._pong_at = 0.0
        self._ping: bytes | None = None
        self._buffer = b""
        self._next = 1
        self._streams: dict[int, _Open] = {}  # those that the server may say something of
        self._waiting: dict[int, _Open] = {}  # those of them with something to send that does not fit yet
        self._most = _LAST
        self._window = 65_535
        self._kept_initial = 65_535
        self._frame_size = _LONGEST_FRAME
        self._received = 0
        self._first = True
        self._block = b""
        self._blocked: tuple[int, int] | None = None
        self._known: dict[bytes, tuple[int | None, Status | None]] = {}

    def call(self, head: bytes, message: bytes) -> int:
        """Make a call of one message; returns the number of its stream."""
        return self._begin(head, message, ends=True)

    def open(self, head: bytes, message: bytes | None = None) -> int:
        """Begin a stream of messages; returns its number."""
        return self._begin(head, message, ends=False)

    def say(self, stream: int, message: bytes) -> None:
        """Send another message on a stream; one that has ended takes none."""
        if (opened := self._streams.get(stream)) is not None:
            self._put(stream, opened, message)
            self._pong()

    def cancel(self, stream: int) -> None:
        """Give a stream up: nothing more of it comes out."""
        opened = self._streams.pop(stream, None)
        if opened is not None:
            self._waiting.pop(stream, None)
            if opened.head is None:
                self.outbox += _frame(RST, 0, stream, _long.pack(CANCEL))
            self._let_go_on()

    def feed(self, data: bytes) -> list[Heard]:
        """Take what arrived; ``b""`` is the end of the connection.

        Raises:
            GrpcError: It is no such protocol, or it ended with a stream open. It is of no more use.
        """
        try:
            if not data:
                self.usable = False
                return self._over()
            found = self._frames(self._buffer + data if self._buffer else data)
        except GrpcError:
            self.usable = False
            raise
        self._pong()
        return found

    # What is sent.

    def _begin(self, head: bytes, message: bytes | None, *, ends: bool) -> int:
        stream, self._next = self._next, self._next + 2
        if self._next > _LAST - 2 * _MOST_TOGETHER:
            self.usable = False
        opened = self._streams[stream] = _Open(head, self._kept_initial, ends=ends)
        if message is not None:
            self._put(stream, opened, message)
        else:
            self._send(stream, opened)
        self._pong()
        return stream

    def _put(self, stream: int, opened: _Open, message: bytes) -> None:
        opened.unsent += _message_head.pack(0, len(message))
        opened.unsent += message
        self._send(stream, opened)

    def _send(self, stream: int, opened: _Open) -> None:
        """Send what the server lets in: as many streams, and as many bytes, as it said."""
        if opened.head is not None:
            if len(self._streams) > self._most and self._begun() >= self._most:
                self._waiting[stream] = opened
                return
            self._send_head(stream, opened.head)
            opened.head = None
        unsent = opened.unsent
        while unsent and (fits := min(opened.window, self._window, self._frame_size)) > 0:
            part = unsent[:fits]
            del unsent[:fits]
            size = len(part)
            opened.window -= size
            self._window -= size
            last = END_STREAM if opened.ends and not unsent else 0
            self.outbox += _frame_head.pack(size >> 8, size & 0xFF, DATA, last, stream)
            self.outbox += part
        if unsent:
            self._waiting[stream] = opened
        elif self._waiting:
            self._waiting.pop(stream, None)

    def _begun(self) -> int:
        return sum(other.head is None for other in self._streams.values())

    def _send_head(self, stream: int, block: bytes) -> None:
        size = self._frame_size
        self.outbox += _frame(HEADERS, END_HEADERS if len(block) <= size else 0, stream, block[:size])
        for at in range(size, len(block), size):
            last = END_HEADERS if at + size >= len(block) else 0
            self.outbox += _frame(CONTINUATION, last, stream, block[at : at + size])

    def _let_go_on(self) -> None:
        for stream, opened in list(self._waiting.items()):
            self._send(stream, opened)

    def _pong(self) -> None:
        if self._ping is not None and (now := self._clock()) >= self._pong_at:
            self.outbox += _frame(PING, ACK, 0, self._ping)
            self._ping, self._pong_at = None, now + self._pong_every_s

    # What arrives.

    def _over(self) -> list[Heard]:
        if self._streams:
            raise GrpcError(UNANSWERED if self._first else ENDED)
        return []

    def _frames(self, buffer: bytes) -> list[Heard]:
        found: list[Heard] = []
        at, have = 0, len(buffer)
        if self._first and have:
            self._greeted(buffer)
        take_by = self._by_kind
        while have - at >= 9:
            high, low, kind, flags, stream = _frame_head.unpack_from(buffer, at)
            size = high << 8 | low
            if size > _LONGEST_FRAME:
                raise GrpcError(f"a frame of {size} bytes, which is more than was allowed")
            start, end = at + 9, at + 9 + size
            if have < end:
                break
            stream &= _LAST
            if self._blocked is not None and (kind != CONTINUATION or stream != self._blocked[0]):
                raise GrpcError("a block of headers is not ended")
            if kind in take_by:  # others are passed over, as HTTP/2 asks
                take_by[kind](self, stream, flags, buffer[start:end], found)
            at = end
        self._buffer = buffer[at:]
        return found

    def _greeted(self, buffer: bytes) -> None:
        """See that it begins as HTTP/2 does, with settings; what else it is shows in the first bytes."""
        if buffer.startswith(_TLS):
            raise GrpcError("this port speaks TLS")
        if buffer.startswith(_HTTP_1):
            raise GrpcError(f"this port speaks HTTP/1: {buffer[:40]!r}")
        if any(start.startswith(buffer) for start in (_HTTP_1, *_TLS)):
            return  # too little to say
        if buffer[0] or buffer[3:4] not in (b"", b"\x04") or any(buffer[5:9]):
            raise GrpcError(f"this is not HTTP/2: {buffer[:24]!r}")
        self._first = len(buffer) < 9

    def _data(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        self._received += len(payload)
        if self._received > _WIDE // 2:
            self.outbox += _frame(WINDOW, 0, 0, _long.pack(self._received))
            self._received = 0
        opened = self._streams.get(stream)
        if opened is None:  # given up
            return
        part = _unpadded(payload) if flags & PADDED else payload
        if opened.part:
            opened.part += part
            messages, used = _messages(opened.part)
            del opened.part[:used]
        else:
            messages, used = _messages(part)
            if used < len(part):
                opened.part += part[used:]
        if flags & END_STREAM:
            self._ended(stream, messages, Status(INTERNAL, "the call ended without a status"), found)
            return
        opened.received += len(payload)
        if opened.received > _WIDE // 2:
            self.outbox += _frame(WINDOW, 0, stream, _long.pack(opened.received))
            opened.received = 0
        if messages:
            found.append(Heard(stream, messages, None))

    def _headers(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        if flags & PADDED:
            payload = _unpadded(payload)
        if flags & PRIORITY:
            payload = payload[5:]
        if not flags & END_HEADERS:
            self._block, self._blocked = payload, (stream, flags)
            return
        self._said(stream, flags, payload, found)

    def _said(self, stream: int, flags: int, block: bytes, found: list[Heard]) -> None:
        meaning = self._known.get(block)
        if meaning is None:
            if len(self._known) >= _KNOWN_KEPT:
                self._known.clear()
            meaning = self._known[block] = _meaning(block)
        if stream not in self._streams:
            return
        http, status = meaning
        last = bool(flags & END_STREAM)
        if http is not None and http != 200:
            if 100 <= http < 200 and not last:  # the answer is still to come
                return
            code = _OF_HTTP.get(http, UNKNOWN if http < 500 else UNAVAILABLE)
            status = Status(code, f"HTTP {http} is no answer of gRPC")
            if not last:  # a page follows
                self.outbox += _frame(RST, 0, stream, _long.pack(CANCEL))
            self._ended(stream, [], status, found, reset=last)
        elif last:
            self._ended(stream, [], status or Status(INTERNAL, "the call ended without a status"), found)

    def _continued(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        if self._blocked is None:
            raise GrpcError("headers go on that never began")
        self._block += payload
        if len(self._block) > _LONGEST_HEADERS:
            raise GrpcError("a block of headers has no end")
        if flags & END_HEADERS:
            (_, began), self._blocked = self._blocked, None
            self._said(stream, began, self._block, found)

    def _pinged(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        if len(payload) != 8:
            raise GrpcError("a ping of another size")
        if not flags & ACK:
            self._ping = payload

    def _reset(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        if len(payload) != 4:
            raise GrpcError("a reset of another size")
        if stream in self._streams:
            number = _long.unpack(payload)[0]
            status = Status(_OF_RESET.get(number, INTERNAL), f"the server reset the call ({number})")
            self._ended(stream, [], status, found, reset=False)

    def _pushed(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        raise GrpcError("the server pushes, which it was asked not to do")

    def _set(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        if flags & ACK:
            return
        if len(payload) % 6:
            raise GrpcError("settings of another size")
        for number, value in _setting.iter_unpack(payload):
            if number == STREAM_WINDOW:
                if value > _LAST:
                    raise GrpcError("a window that is too wide")
                for opened in self._streams.values():
                    opened.window += value - self._kept_initial
                self._kept_initial = value
            elif number == FRAME_SIZE:
                if not _LONGEST_FRAME <= value < 1 << 24:
                    raise GrpcError("a frame size that may not be")
                self._frame_size = value
            elif number == MOST_STREAMS:
                self._most = value
        self.outbox += _frame(SETTINGS, ACK, 0)
        self._let_go_on()

    def _widened(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        more = _long.unpack(payload)[0] & _LAST if len(payload) == 4 else 0
        opened = self._streams.get(stream)
        if not more or max(self._window if not stream else 0, opened.window if opened else 0) + more > _LAST:
            raise GrpcError("a window that may not be")
        if not stream:
            self._window += more
        elif opened is not None:
            opened.window += more
        self._let_go_on()

    def _going(self, stream: int, flags: int, payload: bytes, found: list[Heard]) -> None:
        if len(payload) < 8:
            raise GrpcError("a farewell of another size")
        self.usable = False
        last = _long.unpack_from(payload)[0] & _LAST
        status = Status(UNAVAILABLE, "the server is going away, and did not take the call")
        for number, opened in list(self._streams.items()):
            if number > last or opened.head is not None:
                del self._streams[number]
                self._waiting.pop(number, None)
                found.append(Heard(number, [], status))

    def _ended(
        self, stream: int, messages: list[bytes], status: Status, found: list[Heard], *, reset: bool = True
    ) -> None:
        """End a stream; with ``reset``, say so to a server that still expects something on it."""
        opened = self._streams.pop(stream)
        if reset and opened.head is None and (opened.unsent or not opened.ends):
            self.outbox += _frame(RST, 0, stream, _long.pack(NO_ERROR))
        if opened.part and not status.code:
            status = Status(INTERNAL, "the call ended in the middle of a message")
        found.append(Heard(stream, messages, status))
        if self._waiting:
            self._waiting.pop(stream, None)
            self._let_go_on()

    _by_kind: ClassVar[dict[int, Callable[[Line, int, int, bytes, list[Heard]], None]]] = {
        DATA: _data,
        HEADERS: _headers,
        RST: _reset,
        SETTINGS: _set,
        PUSH: _pushed,
        PING: _pinged,
        GOAWAY: _going,
        WINDOW: _widened,
        CONTINUATION: _continued,
    }


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise GrpcError("padding that is longer than its frame")
    return payload[1 : len(payload) - payload[0]]


def _messages(data: bytes | bytearray) -> tuple[list[bytes], int]:
    """Cut the whole messages out of data; returns how many bytes they took as well."""
    found: list[bytes] = []
    at, have = 0, len(data)
    while have - at >= 5:
        compressed, size = _message_head.unpack_from(data, at)
        if compressed:
            raise GrpcError("a compressed message, which was not asked for")
        if size > _LONGEST_MESSAGE:
            raise GrpcError(f"a message of {size} bytes")
        end = at + 5 + size
        if end > have:
            break
        found.append(bytes(data[at + 5 : end]))
        at = end
    return found, at


def _meaning(block: bytes) -> tuple[int | None, Status | None]:
    """Return the HTTP status and the gRPC status in a block of headers."""
    import hpack  # noqa: PLC0415 - a process that never asks needs it not

    try:
        headers = dict(hpack.Decoder().decode(block, raw=True))
        http, code = headers.get(b":status"), headers.get(b"grpc-status")
        message = unquote(headers.get(b"grpc-message", b"").decode("latin-1"), errors="replace")
        return None if http is None else int(http), None if code is None else Status(int(code), message)
    except (hpack.HPACKError, ValueError) as error:
        raise GrpcError(f"headers that cannot be read: {error}") from None
