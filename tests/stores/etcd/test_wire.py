from __future__ import annotations

import contextlib

import pytest

from recipes.stores.etcd import wire
from recipes.stores.etcd.wire import Dialect, Exchange, HttpReply
from recipes.stores.etcd.wires import WireError

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{  }"
CHUNKED = (
    b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n"
    b"2\r\n{ \r\n2\r\n }\r\n0\r\nX: y\r\n\r\n"
)


def feed(*parts: bytes) -> HttpReply | None:
    exchange = Exchange()
    for part in parts[:-1]:
        assert exchange.feed(part) is None
    return exchange.feed(parts[-1])


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (PLAIN, HttpReply(200, "OK", b"{  }")),
        (CHUNKED, HttpReply(404, "Not Found", b"{  }")),
        (
            PLAIN.replace(b"200 OK", b"503 Service Unavailable"),
            HttpReply(503, "Service Unavailable", b"{  }"),
        ),
    ],
)
def test_a_reply_may_arrive_in_any_pieces(data: bytes, reply: HttpReply) -> None:
    assert feed(data) == reply
    assert feed(*[data[at : at + 1] for at in range(len(data))]) == reply
    for cut in range(1, len(data)):
        assert feed(data[:cut], data[cut:]) == reply


def test_what_follows_is_left_for_the_next_exchange() -> None:
    reply = feed(PLAIN + CHUNKED)
    assert reply is not None
    assert reply.rest == CHUNKED
    reply = feed(CHUNKED + PLAIN)
    assert reply is not None
    assert (reply.rest, reply.reusable) == (PLAIN, True)


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.replace(b"\r\nContent-Type", b"\r\nConnection: close\r\nContent-Type"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
)
def test_a_connection_that_the_server_will_close_is_not_reusable(data: bytes) -> None:
    reply = feed(data)
    assert reply is not None
    assert (reply.body, reply.reusable) == (b"{  }", False)


def test_a_body_may_last_until_the_end_of_the_connection() -> None:
    assert feed(b"HTTP/1.1 200 OK\r\n\r\n", b"abc", b"") == HttpReply(200, "OK", b"abc", reusable=False)


def test_interim_replies_are_passed_over() -> None:
    assert feed(b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN) == HttpReply(200, "OK", b"{  }")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((b"\x15\x03\x01\x00\x02\x02\x46",), "this is not HTTP"),
        ((b"SSH-2.0-OpenSSH\r\n",), "this is not HTTP"),
        ((b"",), "closed before a reply"),
        ((PLAIN[:30], b""), "no complete HTTP reply"),
        ((PLAIN[:-1], b""), "inside the body of an HTTP 200 reply"),
        ((CHUNKED[:-9], b""), "no complete HTTP reply"),
        ((b"HTTP/1.1 nonsense\r\n\r\n",), "no complete HTTP reply"),
        ((b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000,), "no complete HTTP reply"),
        (
            (PLAIN.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),),
            "no complete HTTP reply",
        ),
    ],
)
def test_what_is_no_reply_is_refused(parts: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(WireError, match=words):
        feed(*parts)


def test_a_request_is_one_piece_with_the_headers_etcd_needs() -> None:
    dialect = Dialect("[::1]:2379")
    data = dialect.request("/v3/kv/put", b"{}", "token")
    head, body = data.split(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v3/kv/put HTTP/1.1"
    assert sorted(lines[1:]) == sorted(
        [
            b"Host: [::1]:2379",
            b"Content-Type: application/json",
            b"Grpc-Metadata-hasleader: true",
            b"Authorization: token",
            b"Content-Length: 2",
        ]
    )
    assert body == b"{}"
    assert dialect.request("/v3/kv/put", b"{}", "token") == data
    assert b"Authorization" not in dialect.request("/v3/kv/put", b"{}")


def test_a_request_does_not_show_its_token() -> None:
    data = Dialect("h").request("/v3/kv/put", b"{}", "s3cret")
    assert b"s3cret" in data
    assert "s3cret" not in repr([data])


def test_a_login_carries_no_token() -> None:
    assert b"Authorization" not in Dialect("h").request("/v3/auth/authenticate", b"{}", "old")


def test_heads_are_not_kept_for_ever() -> None:
    dialect = Dialect("h")
    for number in range(200):
        dialect.request("/v3/kv/put", b"{}", f"token{number}")
    assert len(dialect._heads) <= 64


@pytest.mark.parametrize("token", ["secret\r\nX: y", "secret\N{SNOWMAN}"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="authorization token") as caught:
        Dialect("h").request("/v3/kv/put", b"{}", token)
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__


def chunked(*chunks: bytes, headers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: x\r\n%bTransfer-Encoding: chunked\r\n\r\n" % headers
    return head + b"".join(b"%X\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def test_a_long_reply_in_chunks_is_as_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipes.stores.etcd.wire.awaiting", None)  # no h11
    long = b"x" * 3000
    reply = Exchange().feed(chunked(long, b"y") + b"next")
    assert reply is not None
    assert (reply.status, reply.body, reply.rest, reply.reusable) == (200, long + b"y", b"next", True)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_reply_in_chunks_that_comes_in_two_parts(cut: int) -> None:
    data, exchange = chunked(b"ab", b"cd"), Exchange()
    assert exchange.feed(data[:-cut]) is None
    reply = exchange.feed(data[-cut:])
    assert reply is not None
    assert (reply.body, reply.reusable) == (b"abcd", True)


@pytest.mark.parametrize("headers", [b"Connection: close\r\n", b"Content-Length: 3\r\n"])
def test_chunks_beside_what_changes_the_framing_are_left_to_h11(headers: bytes) -> None:
    with contextlib.suppress(WireError):
        reply = Exchange().feed(chunked(b"ab", headers=headers))
        assert reply is not None
        assert (reply.body, reply.reusable) == (b"ab", b"close" not in headers)


def test_chunks_with_trailers_are_left_to_h11() -> None:
    reply = Exchange().feed(chunked(b"ab")[:-2] + b"X: y\r\n\r\n")
    assert reply is not None
    assert reply.body == b"ab"


def test_heads_that_are_alike_are_read_once() -> None:
    wire._known.clear()
    for number in range(3 * wire._HEADS_KEPT):
        head = b"HTTP/1.1 200 OK\r\nDate: %d\r\nContent-Length: 2\r\n\r\n" % (number // 2)
        reply = Exchange().feed(head + b"{}")
        assert reply is not None
        assert (reply.status, reply.body) == (200, b"{}")
        assert len(wire._known) <= wire._HEADS_KEPT
