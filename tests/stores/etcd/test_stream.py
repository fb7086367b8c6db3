from __future__ import annotations

import json
from typing import Any

import pytest

from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import stream
from recipes.stores.etcd.stream import Documents, Stream
from recipes.stores.etcd.wires import RefusedError, WireError

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def channel(only: dict[str, Any] | None = None) -> Stream:
    made = Stream(Endpoint("h", 1), "token", only)
    made.opening = bytes(made.outbox)  # type: ignore[attr-defined]
    made.outbox.clear()
    return made


def test_documents_are_cut_at_newlines_wherever_the_parts_end() -> None:
    data = b'{"a":1}\n\n{"b":2}\n{"c":3}\n'
    assert Documents().feed(data) == [{"a": 1}, {"b": 2}, {"c": 3}]
    documents = Documents()
    assert [d for at in range(len(data)) for d in documents.feed(data[at : at + 1])] == [
        {"a": 1},
        {"b": 2},
        {"c": 3},
    ]


@pytest.mark.parametrize("line", [b"nonsense\n", b"[1]\n", b"\xff\n"])
def test_what_is_no_document_ends_the_stream(line: bytes) -> None:
    with pytest.raises(WireError, match="no JSON object"):
        Documents().feed(line)


def test_a_document_without_end_is_not_collected_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_LONGEST", 100)
    documents = Documents()
    assert documents.feed(b"x" * 90) == []
    with pytest.raises(WireError, match="no end"):
        documents.feed(b"x" * 90)


def test_the_shared_channel_sends_its_messages_as_chunks() -> None:
    made = Stream(Endpoint("h", 1), "token")
    made.say({"create_request": {"key": b"k"}})
    head, body = bytes(made.outbox).split(b"\r\n\r\n")
    assert head.startswith(b"POST /v3/watch HTTP/1.1\r\n")
    assert b"\r\nConnection: close" in head
    assert b"\r\nTransfer-Encoding: chunked" in head
    assert b"\r\nGrpc-Metadata-hasleader: true" in head
    assert b"\r\nAuthorization: token" in head
    assert body == chunk(b'{"create_request":{"key":"aw=="}}\n')


def test_a_channel_for_one_watch_sends_a_complete_body() -> None:
    head, body = bytes(Stream(Endpoint("h", 1), None, {"a": 1}).outbox).split(b"\r\n\r\n")
    assert b"\r\nContent-Length: 8" in head
    assert json.loads(body) == {"a": 1}


def test_chunks_may_hold_several_documents_or_a_part_of_one() -> None:
    made = Stream(Endpoint("h", 1), None)
    assert made.feed(HEAD + chunk(b'{"a":1}\n{"b":') + chunk(b"2}\n{")) == [{"a": 1}, {"b": 2}]
    assert made.feed(chunk(b"}\n")) == [{}]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ((b"",), "closed by the server"),
        ((HEAD + b"0\r\n\r\n",), "closed by the server"),
        ((HEAD, b""), "closed by the server"),
        ((HEAD + chunk(b'{"a"'), b""), "closed by the server"),
        ((b"\x15\x03\x01\r\n\r\n",), "the watch stream broke"),
    ],
)
def test_a_stream_that_ends_says_so(parts: tuple[bytes, ...], words: str) -> None:
    made = Stream(Endpoint("h", 1), None)
    for part in parts[:-1]:
        assert made.feed(part) == []
    with pytest.raises(WireError, match=words):
        made.feed(parts[-1])


def test_documents_that_come_with_the_end_are_served_before_it() -> None:
    made = Stream(Endpoint("h", 1), None)
    first, last = made.feed(HEAD + chunk(b'{"a":1}\n') + b"0\r\n\r\n")
    assert first == {"a": 1}
    assert last["error"]["grpc_code"] == 14


def test_an_http_error_is_given_whole() -> None:
    made = Stream(Endpoint("h", 1), None)
    assert made.feed(b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 11\r\n\r\n{"code"') == []
    with pytest.raises(RefusedError) as caught:
        made.feed(b":16}")
    assert (caught.value.status, caught.value.body) == (401, b'{"code":16}')
