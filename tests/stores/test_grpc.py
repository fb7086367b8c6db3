"""gRPC on HTTP/2: against a server of the library h2, and by frames made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.stores import grpc
from recipes.stores.grpc import GrpcError, Heard, Line, Status

DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
GREETING = bytes.fromhex("000000040000000000")
HEAD = grpc.head("host:1", "/a.B/C", secure=False, metadata=[("token", "secret")])
FIRST = [(":status", "200"), ("content-type", "application/grpc")]
WELL = Status(0, "")
NO_STATUS = Status(13, "the call ended without a status")


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def frames(data: bytes | bytearray) -> list[tuple[int, int, int, bytes]]:
    found, at = [], 0
    while at < len(data):
        end = at + 9 + int.from_bytes(data[at : at + 3])
        found.append(
            (data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9]), bytes(data[at + 9 : end]))
        )
        at = end
    return found


def number(value: int) -> bytes:
    return value.to_bytes(4)


def setting(name: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, name.to_bytes(2) + number(value))


def message(body: bytes) -> bytes:
    return b"\0" + number(len(body)) + body


def block(**fields: str) -> bytes:
    """Headers without Huffman codes and tables; ``_status`` is ``:status``."""
    found = b""
    for name, value in fields.items():
        text = (":" + name[1:] if name[0] == "_" else name.replace("_", "-")).encode()
        found += b"\0" + bytes((len(text),)) + text + bytes((len(value),)) + value.encode()
    return found


OK = block(_status="200")
ENDED = block(grpc_status="0")


def greeted() -> Line:
    """A line whose server has greeted; nothing is left to be sent."""
    line = Line()
    assert line.feed(GREETING) == []
    line.outbox.clear()
    return line


def called(*, opened: bool = False) -> Line:
    """A line with one stream, number 1."""
    line = greeted()
    assert (line.open(HEAD, b"ask") if opened else line.call(HEAD, b"ask")) == 1
    line.outbox.clear()
    return line


class Server:
    """The other end, of the library h2."""

    def __init__(self, line: Line, settings: dict[int, int] | None = None) -> None:
        self.line = line
        self.conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.conn.initiate_connection()
        self.conn.update_settings(settings or {})
        self.asked: dict[int, bytes] = {}
        self.headers: dict[int, list[tuple[Any, Any]]] = {}
        self.reset: dict[int, int] = {}

    def hear(self) -> None:
        """Take what the line has to send."""
        data = bytes(self.line.outbox)
        self.line.outbox.clear()
        for event in self.conn.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                assert event.stream_id is not None
                self.headers[event.stream_id] = list(event.headers or ())
            elif isinstance(event, h2.events.DataReceived):
                assert event.stream_id is not None
                self.asked[event.stream_id] = self.asked.get(event.stream_id, b"") + (event.data or b"")
                self.conn.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                assert event.stream_id is not None
                self.reset[event.stream_id] = int(event.error_code or 0)

    def say(self) -> list[Heard]:
        """Send what there is."""
        return self.line.feed(self.conn.data_to_send())

    def talk(self) -> list[Heard]:
        """Let both say everything."""
        found: list[Heard] = []
        while self.line.outbox or not found:
            self.hear()
            data = self.conn.data_to_send()
            if not data:
                break
            found += self.line.feed(data)
        return found

    def answer(self, stream: int, *bodies: bytes, status: Sequence[tuple[str, str]] = ()) -> None:
        self.conn.send_headers(stream, FIRST)
        data = b"".join(map(message, bodies))
        for at in range(0, len(data), 16_384):
            self.conn.send_data(stream, data[at : at + 16_384])
        self.conn.send_headers(stream, status or [("grpc-status", "0")], end_stream=True)


# Against h2.


@pytest.mark.parametrize("size", [0, 5, 100_000, 300_000])
def test_a_call_is_asked_and_answered_whole(size: int) -> None:
    line = Line()
    server = Server(line)
    stream = line.call(HEAD, b"q" * size)
    server.talk()
    assert server.asked[stream] == message(b"q" * size)
    names = {bytes(name): bytes(value) for name, value in raw(server.headers[stream])}
    assert names[b":path"] == b"/a.B/C"
    assert names[b":scheme"] == b"http"
    assert names[b"token"] == b"secret"
    server.answer(stream, b"r" * size, b"2")
    heard = server.talk()
    assert b"".join(part for h in heard for part in h.messages) == b"r" * size + b"2"
    assert heard[-1].status == WELL
    assert line.feed(b"") == []
    assert not line.usable


def raw(headers: list[tuple[Any, Any]]) -> list[tuple[bytes, bytes]]:
    """The same whether this h2 says headers as text or as bytes."""
    return [tuple(x if isinstance(x, bytes) else x.encode() for x in pair) for pair in headers]  # type: ignore[misc]


def test_what_is_refused_has_the_words_of_the_server() -> None:
    line = Line()
    server = Server(line)
    stream = line.call(HEAD, b"")
    server.talk()
    server.answer(stream, status=[("grpc-status", "5"), ("grpc-message", "not%20here")])
    assert server.talk()[-1] == Heard(stream, [], Status(5, "not here"))


def test_no_more_streams_than_the_server_lets_in() -> None:
    line = Line()
    server = Server(line, {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    server.say()
    streams = [line.call(HEAD, b"%d" % at) for at in range(4)]
    server.talk()
    line.cancel(streams[3])
    for at, stream in enumerate(streams[:3]):
        assert list(server.asked) == streams[: at + 1]
        server.answer(stream)
        assert server.talk()[-1] == Heard(stream, [], WELL)
    assert server.reset == {}


def test_a_server_that_keeps_no_table_of_headers_reads_every_call() -> None:
    line = Line()
    server = Server(line, {h2.settings.SettingCodes.HEADER_TABLE_SIZE: 0})
    server.say()
    for _ in range(2):
        stream = line.call(HEAD, b"")
        server.talk()
        server.answer(stream)
        assert server.talk()[-1] == Heard(stream, [], WELL)


def test_messages_of_both_sides_go_on_one_stream_until_it_is_given_up() -> None:
    line = Line()
    server = Server(line)
    stream = line.open(HEAD)
    line.say(stream, b"a")
    server.talk()
    server.conn.send_headers(stream, FIRST)
    server.conn.send_data(stream, message(b"1") + message(b"2"))
    assert server.talk() == [Heard(stream, [b"1", b"2"], None)]
    line.say(stream, b"b")
    line.cancel(stream)
    line.cancel(stream)
    line.say(stream, b"nobody hears it")
    server.hear()
    assert server.asked[stream] == message(b"a") + message(b"b")
    assert server.reset == {stream: 8}


def test_a_stream_that_the_server_ends_is_ended_by_this_side_too() -> None:
    line = Line()
    server = Server(line)
    stream = line.open(HEAD, b"a")
    server.talk()
    server.answer(stream)
    assert server.say()[-1] == Heard(stream, [], WELL)
    assert frames(line.outbox)[-1] == (RST, 0, stream, number(0))
    line.say(stream, b"too late")
    assert frames(line.outbox)[-1] == (RST, 0, stream, number(0))


# What is sent.


@pytest.mark.parametrize("size", [1, 126, 127, 254, 255, 20_000])
@pytest.mark.parametrize("secure", [True, False])
def test_headers_of_every_length_are_read_as_they_were_meant(size: int, secure: bool) -> None:
    import hpack

    head = grpc.head("h", "/p", secure=secure, metadata=[("a-b_c.1", "v" * size)])
    assert dict(hpack.Decoder().decode(head, raw=True)) == {
        b":method": b"POST",
        b":scheme": b"https" if secure else b"http",
        b":path": b"/p",
        b":authority": b"h",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
        b"a-b_c.1": b"v" * size,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "secret") for name in ("", "Token", "to ken", ":path", "token\n", "tök")),
        *(("token", value) for value in ("secret\n", "secret\0", " secret", "secret\u20ac", "secret\x7f")),
    ],
)
def test_what_no_header_may_have_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="cannot be sent in a header") as caught:
        grpc.head("h", "/p", secure=True, metadata=[(name, value)])
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_long_headers_are_sent_in_parts() -> None:
    line = greeted()
    head = grpc.head("h", "/p", secure=False, metadata=[("a", "v" * 40_000)])
    line.open(head)
    sent = frames(line.outbox)
    assert [(kind, flags) for kind, flags, _, _ in sent] == [
        (HEADERS, 0),
        (CONTINUATION, 0),
        (CONTINUATION, 4),
    ]
    assert b"".join(part for *_, part in sent) == head


def test_a_narrow_window_is_kept_to_until_it_is_widened() -> None:
    line = greeted()
    line.feed(setting(4, 3))
    line.outbox.clear()
    line.call(HEAD, b"abc")
    assert frames(line.outbox)[1:] == [(DATA, 0, 1, b"\0\0\0")]
    line.outbox.clear()
    line.feed(frame(WINDOW, 0, 1, number(1)))
    assert frames(line.outbox) == [(DATA, 0, 1, b"\0")]
    line.outbox.clear()
    line.feed(setting(4, 100))
    assert frames(line.outbox) == [(SETTINGS, ACK, 0, b""), (DATA, END_STREAM, 1, b"\3abc")]


def test_larger_frames_are_sent_where_they_are_let_in() -> None:
    line = greeted()
    line.feed(setting(5, 30_000) + setting(99, 1))
    line.outbox.clear()
    line.call(HEAD, b"x" * 25_000)
    assert [len(part) for *_, part in frames(line.outbox)[1:]] == [25_005]


def test_both_windows_are_widened_again_by_what_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc, "_WIDE", 100)
    line = called(opened=True)
    part = message(b"x" * 35)
    line.feed(frame(DATA, 0, 1, part))
    assert frames(line.outbox) == []
    line.feed(frame(DATA, 0, 1, part))
    assert frames(line.outbox) == [(WINDOW, 0, 0, number(80)), (WINDOW, 0, 1, number(80))]


def test_pings_are_answered_once_in_a_while() -> None:
    now = 10.0
    line = Line(clock=lambda: now, pong_every_s=2.0)
    line.feed(GREETING)
    line.outbox.clear()
    line.feed(frame(PING, 0, 0, b"first..."))
    line.feed(frame(PING, 0, 0, b"second..") + frame(PING, ACK, 0, b"no ping."))
    assert frames(line.outbox) == [(PING, ACK, 0, b"first...")]
    now = 12.0
    stream = line.open(HEAD)
    assert frames(line.outbox)[-1] == (PING, ACK, 0, b"second..")
    line.say(stream, b"a")
    assert frames(line.outbox)[-1][0] == DATA


def test_numbers_of_streams_come_to_an_end() -> None:
    line = greeted()
    line._next = last = (1 << 31) - 1 - 2 * 1025
    while line.usable:
        last = line.call(HEAD, b"")
    assert last == (1 << 31) - 1 - 2 * 1024
    for _ in range(1024):  # that many may begin together, when it was usable
        last = line.call(HEAD, b"")
    assert last == (1 << 31) - 1


# How streams end.


@pytest.mark.parametrize(
    ("data", "heard"),
    [
        (frame(HEADERS, 5, 1, OK + ENDED), Heard(1, [], WELL)),
        (frame(HEADERS, 5, 1, OK), Heard(1, [], NO_STATUS)),
        (frame(DATA, END_STREAM, 1, message(b"a")), Heard(1, [b"a"], NO_STATUS)),
        (frame(DATA, PADDED, 1, b"\2" + message(b"a") + b"\0\0"), Heard(1, [b"a"], None)),
        (
            frame(DATA, 0, 1, message(b"ab")[:6]) + frame(HEADERS, 5, 1, ENDED),
            Heard(1, [], Status(13, "the call ended in the middle of a message")),
        ),
        (frame(HEADERS, 4, 1, block(_status="100")) + frame(HEADERS, 5, 1, OK + ENDED), Heard(1, [], WELL)),
        (
            frame(HEADERS, 5, 1, block(_status="100")),
            Heard(1, [], Status(2, "HTTP 100 is no answer of gRPC")),
        ),
        (
            frame(HEADERS, 5 | PADDED | WITH_PRIORITY, 1, b"\1" + b"\0" * 5 + OK + ENDED + b"\0"),
            Heard(1, [], WELL),
        ),
        (
            frame(HEADERS, 1, 1, OK) + frame(CONTINUATION, 0, 1) + frame(CONTINUATION, 4, 1, ENDED),
            Heard(1, [], WELL),
        ),
        (frame(PRIORITY, 0, 1, b"\0" * 5) + frame(77) + frame(HEADERS, 5, 1, ENDED), Heard(1, [], WELL)),
    ],
)
def test_what_is_heard_of_a_stream_at_whatever_byte_it_is_cut(data: bytes, heard: Heard) -> None:
    for at in range(len(data)):
        line = called()
        assert line.feed(data[:at] or frame(77)) + line.feed(data[at:]) == [heard]
    line = called()
    assert [h for byte in data for h in line.feed(bytes((byte,)))] == [heard]
    assert line.outbox == b""


@pytest.mark.parametrize(("http", "code"), [(401, 16), (404, 12), (500, 14), (503, 14), (302, 2), (0, 2)])
def test_an_answer_of_http_alone_has_the_code_that_fits_and_its_page_is_not_read(
    http: int, code: int
) -> None:
    line = called()
    words = f"HTTP {http} is no answer of gRPC"
    assert line.feed(frame(HEADERS, 4, 1, block(_status=str(http)))) == [Heard(1, [], Status(code, words))]
    assert frames(line.outbox) == [(RST, 0, 1, number(8))]
    assert line.feed(frame(DATA, END_STREAM, 1, b"<html>") + frame(HEADERS, 5, 1, ENDED)) == []


@pytest.mark.parametrize(
    ("number_", "code"),
    [(0, 13), (1, 13), (2, 13), (3, 13), (7, 14), (8, 1), (9, 13), (11, 13), (12, 13), (1000, 13)],
)
def test_a_reset_says_nothing_of_what_was_done_and_is_not_answered(number_: int, code: int) -> None:
    line = called(opened=True)
    data = frame(RST, 0, 3, number(8)) + frame(RST, 0, 1, number(number_))
    assert line.feed(data) == [Heard(1, [], Status(code, f"the server reset the call ({number_})"))]
    assert line.outbox == b""


def test_an_answer_before_the_question_was_sent_whole_ends_both() -> None:
    line = greeted()
    line.call(HEAD, b"x" * 100_000)
    line.outbox.clear()
    assert line.feed(frame(HEADERS, 5, 1, OK + ENDED)) == [Heard(1, [], WELL)]
    assert frames(line.outbox) == [(RST, 0, 1, number(0))]


def test_a_farewell_ends_what_was_not_taken_and_leaves_what_was() -> None:
    line = greeted()
    line.feed(setting(3, 2))
    taken, left, waits = (line.call(HEAD, b"") for _ in range(3))
    line.outbox.clear()
    heard = line.feed(frame(GOAWAY, 0, 0, number(taken) + number(0)))
    assert [(h.stream, h.status.code) for h in heard if h.status] == [(left, 14), (waits, 14)]
    assert not line.usable
    assert line.outbox == b""
    assert line.feed(frame(HEADERS, 5, taken, OK + ENDED)) == [Heard(taken, [], WELL)]
    assert line.outbox == b""


def test_a_farewell_ends_calls_that_wait_whatever_number_it_says() -> None:
    line = greeted()
    line.feed(setting(3, 1))
    taken, waits = line.call(HEAD, b""), line.call(HEAD, b"")
    line.outbox.clear()
    heard = line.feed(frame(GOAWAY, 0, 0, number((1 << 31) - 1) + number(0)))
    assert [(h.stream, h.status and h.status.code) for h in heard] == [(waits, 14)]
    assert line.feed(frame(HEADERS, 5, taken, OK + ENDED)) == [Heard(taken, [], WELL)]
    assert line.outbox == b""


def test_headers_seen_before_are_known_and_not_too_many_are_kept() -> None:
    line = called()
    for at in range(200):
        line.feed(frame(HEADERS, 4, 99, block(x=str(at))))
    assert len(line._known) <= 64
    assert line.feed(frame(HEADERS, 5, 1, ENDED)) == [Heard(1, [], WELL)]


def test_a_large_message_is_put_together_from_its_parts() -> None:
    line = called()
    part = line._streams[1].part
    data = message(b"x" * 1_000_000) + message(b"y")
    heard = []
    for at in range(0, len(data), 9_999):
        heard += line.feed(frame(DATA, 0, 1, data[at : at + 9_999]))
        assert line._streams[1].part is part  # a new one each time would copy all that came so far
    assert heard == [Heard(1, [b"x" * 1_000_000, b"y"], None)]
    assert all(type(body) is bytes for body in heard[0].messages)


# What is no gRPC.


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (bytes.fromhex("15030300020246"), "speaks TLS"),
        (b"\x16\x03", "speaks TLS"),
        (b"HTTP/1.1", "speaks HTTP/1"),
        (b"HTTP/1.1 400 Bad Request\r\n", "speaks HTTP/1"),
        (b"SSH", "not HTTP/2"),
        (b"+OK", "not HTTP/2"),
        (b"\x15\x04", "not HTTP/2"),
        (b"\0\0\0\1", "not HTTP/2"),
        (b"\0\0\0\4\0\0\0\0\1", "not HTTP/2"),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
def test_what_else_a_port_speaks_is_told_by_the_first_bytes(data: bytes, words: str, cut: bool) -> None:
    line = Line()
    parts = [bytes((byte,)) for byte in data] if cut else [data]
    with pytest.raises(GrpcError, match=words):
        _ = [line.feed(part) for part in parts]
    assert not line.usable


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\0\x40\1\0\0\0\0\0\1", "more than was allowed"),
        (frame(DATA, PADDED, 1), "padding"),
        (frame(DATA, PADDED, 1, b"\1"), "padding"),
        (frame(DATA, 0, 1, b"\1\0\0\0\0"), "compressed"),
        (frame(DATA, 0, 1, b"\0\xff\0\0\0"), "a message of"),
        (frame(HEADERS, 0, 1) + frame(DATA, 0, 1), "not ended"),
        (frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 3), "not ended"),
        (frame(CONTINUATION, 4, 1), "never began"),
        (frame(HEADERS, 0, 1) + frame(CONTINUATION, 0, 1, b"x" * 16_384) * 5, "has no end"),
        (frame(HEADERS, 4, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "cannot be read"),
        (frame(HEADERS, 4, 1, b"\0"), "cannot be read"),
        (frame(HEADERS, 4, 1, b"\xc0"), "cannot be read"),
        (frame(HEADERS, 4, 1, block(grpc_status="well")), "cannot be read"),
        (frame(PING, 0, 0, b"short"), "a ping"),
        (frame(RST, 0, 1, b"short"), "a reset"),
        (frame(PUSH, 4, 1, b"\0\0\0\2"), "pushes"),
        (frame(SETTINGS, 0, 0, b"\0"), "settings"),
        (setting(4, 1 << 31), "too wide"),
        (setting(5, 1), "a frame size"),
        (frame(WINDOW, 0, 0, number(0)), "a window"),
        (frame(WINDOW, 0, 0, b"\1"), "a window"),
        (frame(WINDOW, 0, 0, number((1 << 31) - 1)), "a window"),
        (frame(WINDOW, 0, 1, number((1 << 31) - 1)), "a window"),
        (frame(GOAWAY, 0, 0, b"\0"), "a farewell"),
        (b"", "closed by the server"),
    ],
)
def test_what_breaks_the_protocol_is_an_error_that_says_what_it_was(data: bytes, words: str) -> None:
    line = called()
    with pytest.raises(GrpcError, match=words):
        line.feed(data)
    assert not line.usable


def test_windows_of_both_may_be_widened() -> None:
    line = called()
    assert (
        line.feed(frame(WINDOW, 0, 0, number(5)) + frame(WINDOW, 0, 99, number(5)) + frame(SETTINGS, ACK))
        == []
    )
    assert line.outbox == b""


def test_a_connection_that_ends_before_a_word_asks_after_tls() -> None:
    line = Line()
    line.call(HEAD, b"")
    with pytest.raises(GrpcError, match="want TLS"):
        line.feed(b"")


# Whatever arrives, it is heard or an error.


def transcript() -> bytes:
    """What a server sends to a call and a stream."""
    line = Line()
    server = Server(line)
    call, stream = line.call(HEAD, b"a"), line.open(HEAD, b"b")
    server.hear()
    server.answer(call, b"x" * 50, b"y")
    server.conn.send_headers(stream, FIRST)
    server.conn.send_data(stream, message(b"z") * 3)
    server.conn.ping(b"12345678")
    server.conn.reset_stream(stream, 8)
    server.conn.close_connection()
    return server.conn.data_to_send()


SAID = transcript()


def listening() -> Line:
    line = Line()
    line.call(HEAD, b"a")
    line.open(HEAD, b"b")
    return line


def heard_of(*parts: bytes) -> list[Heard] | None:
    """What is heard of the parts; None if they are no gRPC. Anything else that is raised fails the test."""
    line, found = listening(), []
    try:
        for part in filter(None, parts):
            found += line.feed(part)
    except GrpcError:
        return None
    assert all(type(heard) is Heard for heard in found)
    ended = [heard.stream for heard in found if heard.status is not None]
    assert len(ended) == len(set(ended))
    return found


def together(found: list[Heard] | None) -> dict[int, tuple[bytes, Status | None]] | None:
    """What was heard of each stream, however it was cut."""
    if found is None:
        return None
    streams: dict[int, tuple[bytes, Status | None]] = {}
    for stream, messages, status in found:
        streams[stream] = (streams.get(stream, (b"", None))[0] + b"".join(messages), status)
    return streams


def test_a_transcript_says_the_same_at_whatever_byte_it_is_cut() -> None:
    whole = together(heard_of(SAID))
    assert whole == {1: (b"x" * 50 + b"y", WELL), 3: (b"zzz", Status(1, "the server reset the call (8)"))}
    for at in range(len(SAID)):
        assert together(heard_of(SAID[:at], SAID[at:])) == whole


@given(st.binary(max_size=200), st.booleans())
def test_random_bytes(data: bytes, greets: bool) -> None:
    heard_of(GREETING * greets, data)


@given(
    st.lists(
        st.builds(
            frame,
            st.integers(0, 10),
            st.integers(0, 255),
            st.sampled_from([0, 1, 3, 5, 1 << 31]),
            st.one_of(st.binary(max_size=40), st.sampled_from([OK, ENDED, message(b"a"), number(7)])),
        ),
        max_size=12,
    )
)
def test_random_frames(sent: list[bytes]) -> None:
    heard_of(GREETING, *sent)


@given(
    st.lists(st.tuples(st.integers(0, len(SAID) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, len(SAID)),
)
def test_mutated_transcripts_say_the_same_wherever_they_are_cut(
    changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(SAID)
    for at, byte in changes:
        data[at] = byte
    assert together(heard_of(bytes(data))) == together(heard_of(bytes(data[:cut]), bytes(data[cut:])))
