"""How the gateway spells what is said to etcd, and how its replies are cut out of a connection."""

from __future__ import annotations

from typing import Any

import pytest

from recipes.errors import StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import codec, gateway_json
from recipes.stores.etcd.codec import Kv
from recipes.stores.etcd.gateway import HttpLine
from recipes.stores.etcd.gateway_wire import GATEWAY
from recipes.stores.etcd.requests import EtcdError
from recipes.stores.etcd.stream import Stream
from recipes.stores.etcd.wires import LOGIN, Reply, WireError

HERE = Endpoint("h", 1)
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LAST = REPLY.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


def asked(calls: int) -> HttpLine:
    """Return a line that is owed so many replies."""
    line = GATEWAY.speaker(HERE).line()
    line.ask([("/x", {})] * calls, None)
    return line


def test_bytes_are_written_in_base64_and_all_else_as_it_is() -> None:
    body = codec.txn(
        [codec.compare_created(b"\0k", 9)], [codec.put(b"k", b"", 7)], [codec.read(b"a", b"b", 3)]
    )
    compare = b'{"key":"AGs=","target":"CREATE","result":"EQUAL","create_revision":9}'
    put = b'{"request_put":{"key":"aw==","value":"","lease":7}}'
    read = b'{"request_range":{"key":"YQ==","range_end":"Yg==","limit":3}}'
    wanted = b'{"compare":[%b],"success":[%b],"failure":[%b]}' % (compare, put, read)
    assert gateway_json.write(body) == wanted


def test_what_has_no_place_in_a_document_is_not_written() -> None:
    with pytest.raises(TypeError, match="set has no place in a document"):
        gateway_json.write({"key": {1}})


def test_a_key_is_read_with_all_that_is_zero_left_out() -> None:
    whole = (
        '{"key":"AGs=","create_revision":"3","mod_revision":"9007199254740993","version":"2",'
        '"value":"dg==","lease":"7587862074561229841"}'
    )
    assert gateway_json.read(whole) == Kv(b"\0k", 3, b"v", 7587862074561229841, 9007199254740993, 2)
    assert gateway_json.read('{"kvs":[{"key":"aw==","mod_revision":"9"}],"count":"1"}') == {
        "kvs": [Kv(b"k", 0, b"", 0, 9, 0)],
        "count": 1,
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"header":{"revision":"12","member_id":"5"}}', {"header": {"revision": 12, "member_id": "5"}}),
        ('{"result":{"ID":"7","TTL":"15"}}', {"result": {"ID": 7, "TTL": 15}}),
        (
            '{"watch_id":"-1","created":true,"compact_revision":"4"}',
            {"watch_id": -1, "created": True, "compact_revision": 4},
        ),
        ('{"deleted":"2","count":0}', {"deleted": 2, "count": 0}),
        (b'{"code":5,"message":"7"}', {"code": 5, "message": "7"}),
    ],
)
def test_numbers_are_read_as_numbers_whatever_they_are_written_as(text: str | bytes, found: Any) -> None:
    assert gateway_json.read(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("nonsense", "Expecting value"),
        (b"\xff", "invalid start byte"),
        ("[" * 100_000, "recursion|Stack overflow"),
        ('{"count":"x"}', "invalid literal"),
        ('{"revision":null}', "not as etcd writes"),
        ('{"mod_revision":"9"}', "not as etcd writes: 'key'"),
        ('{"key":7,"mod_revision":"9"}', "not as etcd writes"),
        ('{"key":"a","mod_revision":"9"}', "base64"),
    ],
)
def test_what_is_no_document_of_etcd_is_a_value_error(text: str | bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gateway_json.read(text)


def test_requests_go_back_to_back_and_do_not_show_what_they_bear() -> None:
    line = GATEWAY.speaker(HERE).line()
    sent = line.ask([("/kv/range", {"key": b"k"}), (LOGIN, {"name": "n", "password": "pw"})], "s3cret")
    first, second = sent.split(b"POST ")[1:]
    assert first.startswith(b"/v3/kv/range HTTP/1.1\r\n")
    assert first.endswith(b'\r\n\r\n{"key":"aw=="}')
    assert b"\r\nAuthorization: s3cret\r\n" in first
    assert second.startswith(b"/v3/auth/authenticate HTTP/1.1\r\n")
    assert b"s3cret" not in second
    assert "pw" not in repr([sent])
    assert line.more() == b""


def test_replies_come_in_whatever_pieces_and_the_line_goes_on() -> None:
    data = REPLY * 3
    for cut in range(len(data) + 1):
        line = asked(3)
        parts = [part for part in (data[:cut], data[cut:]) if part]
        assert [reply.body for part in parts for reply in line.feed(part)] == [b"{}"] * 3
        assert line.usable


def test_the_end_of_a_connection_is_a_question_of_tls_until_it_has_answered() -> None:
    for line in (asked(1), asked(2)):
        with pytest.raises(WireError, match=r"closed before a reply; does this port want TLS\?"):
            line.feed(b"")
    line = asked(2)
    assert not line.answered
    assert line.feed(REPLY)
    assert line.answered
    with pytest.raises(WireError, match=r"^the connection was closed by the server$"):
        line.feed(b"")


@pytest.mark.parametrize(
    ("calls", "data", "replies"),
    [
        (1, REPLY + b"H", 1),  # more than was asked for
        (0, b"H", 0),
        (2, LAST, 1),  # the other will not come
        (1, LAST, 1),
        (2, REPLY + b"nonsense\r\n\r\n", 1),  # what came before that was whole
        (3, REPLY + LAST + REPLY, 2),
    ],
)
def test_a_line_that_can_carry_no_more_says_so(calls: int, data: bytes, replies: int) -> None:
    line = asked(calls)
    assert len(line.feed(data)) == replies
    assert not line.usable


@pytest.mark.parametrize("parts", [(b"nonsense\r\n\r\n",), (REPLY[:-1], b""), (b"",)])
def test_what_is_no_reply_is_none(parts: tuple[bytes, ...]) -> None:
    line = asked(1)
    for part in parts[:-1]:
        assert line.feed(part) == []
    with pytest.raises(WireError):
        line.feed(parts[-1])


def test_a_reply_means_its_document_or_the_error_it_stands_for() -> None:
    speaker = GATEWAY.speaker(HERE)
    assert speaker.meaning("/kv/range", Reply(200, "OK", b'{"count":"3"}')) == {"count": 3}
    with pytest.raises(EtcdError) as refused:
        speaker.meaning("/kv/range", Reply(404, "Not Found", b'{"code":5,"message":"gone"}'))
    assert refused.value.code == 5
    with pytest.raises(StoreUnavailable, match=r"h:1.*HTTP 502 Bad Gateway: '<html>'"):
        speaker.meaning("/kv/range", Reply(502, "Bad Gateway", b"<html>"))


def test_the_stream_of_a_gateway_bears_the_token_it_is_given() -> None:
    channel = GATEWAY.channel(HERE, "token", {"create_request": {"key": b"k", "watch_id": 1}})
    assert isinstance(channel, Stream)
    assert b"\r\nAuthorization: token\r\n" in channel.outbox
    assert channel.outbox.endswith(b'\r\n\r\n{"create_request":{"key":"aw==","watch_id":1}}\n')
