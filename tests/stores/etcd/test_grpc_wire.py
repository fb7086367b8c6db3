"""etcd's gRPC beside its gateway: calls as streams, replies in their order, the stream of watches."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.errors import StoreFull, StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import codec
from recipes.stores.etcd.grpc_wire import GrpcLine, GrpcSpeaker, GrpcStream, GrpcWire
from recipes.stores.etcd.requests import EtcdError
from recipes.stores.etcd.wires import LOGIN, Reply, WireError

HERE = Endpoint("127.0.0.1", 2379)
GREETING = bytes.fromhex("000000040000000000")
OK = b"\x88\x5f\x10application/grpc"  # :status 200, content-type
DATA, HEADERS, GOAWAY, PING = 0, 1, 7, 6


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def literal(name: bytes, value: bytes) -> bytes:
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


def message(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4) + body


def answer(stream: int, body: bytes) -> bytes:
    """A whole reply that went well."""
    return (
        frame(HEADERS, 4, stream, OK)
        + frame(DATA, 0, stream, message(body))
        + frame(HEADERS, 5, stream, literal(b"grpc-status", b"0"))
    )


def refusal(stream: int, code: int, words: str) -> bytes:
    """A reply without a message."""
    status = literal(b"grpc-status", b"%d" % code) + literal(b"grpc-message", words.encode())
    return frame(HEADERS, 5, stream, OK + status)


def speaker() -> GrpcSpeaker:
    return GrpcWire(secure=False).speaker(HERE)


def line() -> GrpcLine:
    return speaker().line()


def test_calls_are_streams_and_their_replies_come_in_their_order() -> None:
    conn = line()
    sent = conn.ask([("/kv/range", codec.span(b"k")), ("/lease/revoke", {"ID": 7})], None)
    assert b"/etcdserverpb.KV/Range" in sent
    assert b"/etcdserverpb.Lease/LeaseRevoke" in sent
    assert b"hasleader" in sent
    assert conn.feed(GREETING + answer(3, b"two")) == []
    assert conn.feed(answer(1, b"one")) == [Reply(0, "", b"one"), Reply(0, "", b"two")]
    assert conn.usable
    assert conn.chatty


def test_what_the_server_says_meanwhile_is_no_reply() -> None:
    conn = line()
    conn.ask([("/kv/range", codec.span(b"k"))], None)
    assert conn.feed(GREETING) == []
    assert conn.more(), "the settings are acknowledged"
    assert conn.more() == b""
    conn.feed(answer(1, b""))
    assert conn.feed(frame(PING, 0, 0, bytes(8))) == []
    assert conn.usable
    assert conn.feed(frame(GOAWAY, 0, 0, bytes(8))) == []
    assert not conn.usable
    assert conn.feed(b"") == []


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", GREETING + frame(DATA, 8, 1, b"\x09")]
)
def test_a_connection_that_breaks_says_how(data: Any) -> None:
    conn = line()
    conn.ask([("/kv/range", codec.span(b"k"))], None)
    with pytest.raises(WireError):
        conn.feed(data)


def test_a_login_bears_no_token() -> None:
    asked = speaker()
    assert b"secret" in asked.line().ask([("/kv/range", codec.span(b"k"))], "secret")
    login = asked.line().ask([(LOGIN, {"name": "me", "password": "pass"})], "secret")
    assert b"secret" not in login
    assert "pass" not in repr(login)


def test_a_token_that_is_no_header_is_refused_without_it() -> None:
    with pytest.raises(ValueError, match="cannot be sent") as refused:
        line().ask([("/kv/range", codec.span(b"k"))], "sec\nret")
    assert "sec" not in str(refused.value)


def test_the_last_heads_are_kept() -> None:
    asked = speaker()
    heads = {asked.heads.of("/kv/range", f"token {number}") for number in range(200)}
    assert len(heads) == 200
    assert len(asked.heads._kept) <= 64


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        (5, "etcdserver: requested lease not found", EtcdError),
        (16, "etcdserver: invalid auth token", EtcdError),
        (14, "etcdserver: no leader", StoreUnavailable),
        (8, "etcdserver: mvcc: database space exceeded", StoreFull),
        (2, "", EtcdError),
    ],
)
def test_a_status_means_what_the_gateways_does(code: Any, words: Any, expected: Any) -> None:
    conn = line()
    conn.ask([("/kv/range", codec.span(b"k"))], None)
    (reply,) = conn.feed(GREETING + refusal(1, code, words))
    with pytest.raises(expected, match=words or "gRPC status 2"):
        speaker().meaning("/kv/range", reply)


def test_a_call_that_ends_well_without_a_message_is_no_answer() -> None:
    """Else the lease of a keepalive, which says nothing where it has ended, would be lost."""
    conn = line()
    conn.ask([("/lease/keepalive", {"ID": 7})], None)
    (reply,) = conn.feed(GREETING + refusal(1, 0, ""))
    with pytest.raises(StoreUnavailable, match="ended without an answer"):
        speaker().meaning("/lease/keepalive", reply)


def test_a_reply_is_read_by_its_path() -> None:
    assert speaker().meaning("/kv/range", Reply(0, "", b"\x20\x05")) == {"count": 5}
    assert speaker().meaning("/lease/keepalive", Reply(0, "", b"\x18\x05")) == {"result": {"TTL": 5}}
    with pytest.raises(StoreUnavailable, match="no message of etcd"):
        speaker().meaning("/kv/range", Reply(0, "", b"\x0a"))


def test_a_stream_of_watches() -> None:
    channel = GrpcWire(secure=True).channel(HERE, "secret", {"cancel_request": {"watch_id": 5}})
    assert b"/etcdserverpb.Watch/Watch" in channel.outbox
    assert channel.outbox.endswith(message(b"\x12\x02\x08\x05"))
    channel.outbox.clear()
    channel.say({"progress_request": {}})
    assert channel.outbox.endswith(message(b"\x1a\x00"))
    said = frame(HEADERS, 4, 1, OK) + frame(DATA, 0, 1, message(b"\x10\x05\x18\x01") + message(b"\x10\x06"))
    assert channel.feed(GREETING + said) == [
        {"result": {"watch_id": 5, "created": True}},
        {"result": {"watch_id": 6}},
    ]


@pytest.mark.parametrize(
    ("end", "error"),
    [
        (refusal(1, 14, "etcdserver: no leader"), {"grpc_code": 14, "message": "etcdserver: no leader"}),
        (
            frame(HEADERS, 5, 1, OK + literal(b"grpc-status", b"0")),
            {"grpc_code": 14, "message": "the watch stream was closed by the server"},
        ),
    ],
)
def test_a_stream_that_the_server_ends_has_an_error(end: Any, error: Any) -> None:
    channel = GrpcWire(secure=False).channel(HERE, None)
    assert channel.feed(GREETING + end) == [{"error": error}]


@pytest.mark.parametrize(
    "data", [b"nothing of the kind", b"", GREETING + frame(DATA, 0, 1, message(b"\x0a"))]
)
def test_a_stream_that_breaks_says_how(data: Any) -> None:
    channel: GrpcStream = GrpcWire(secure=False).channel(HERE, None)
    with pytest.raises(WireError, match="the watch stream"):
        channel.feed(data)
