from __future__ import annotations

import ssl
from typing import Any

import pytest

from recipes.errors import StoreFull, StoreUnavailable
from recipes.stores.etcd.requests import EtcdError
from recipes.stores.etcd.wire_answers import document, error_of, watch_refused
from recipes.stores.sockets import describe


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ('{"error":"etcdserver: requested lease not found","code":5,"message":"gone"}', EtcdError, 5),
        ('{"code":7,"message":"etcdserver: permission denied"}', EtcdError, 7),
        ('{"error":"etcdserver: invalid auth token","code":16}', EtcdError, 16),
        ('{"error":"etcdserver: quota of something else","code":8}', EtcdError, 8),
        ('{"error":{"grpc_code":11,"message":"compacted"}}', EtcdError, 11),
        ('{"error":{"code":9,"message":"exists"}}', EtcdError, 9),
        ('{"strange":1}', EtcdError, 2),
        ('{"error":"etcdserver: user name is empty","code":3}', EtcdError, 16),
        ('{"error":"etcdserver: key is not provided","code":3}', EtcdError, 3),
        ('{"code":true}', EtcdError, 2),
        ('{"error":"etcdserver: mvcc: database space exceeded","code":8}', StoreFull, None),
        ('{"error":"anything","code":14}', StoreUnavailable, None),
        ('{"error":"context deadline exceeded","code":4}', StoreUnavailable, None),
        ('{"error":"etcdserver: request timed out","code":2}', StoreUnavailable, None),
        ('{"error":"etcdserver: no leader","code":13}', StoreUnavailable, None),
        ('{"error":"etcdserver: leader changed","code":2}', StoreUnavailable, None),
        ('{"error":"anything","code":13}', StoreUnavailable, None),
        ('{"error":"etcdserver: too many requests","code":8}', StoreUnavailable, None),
        ('{"error":"context deadline exceeded","code":2}', StoreUnavailable, None),
        ('{"error":"raft proposal dropped","code":2}', StoreUnavailable, None),
        ('{"error":"raft: stopped","code":2}', StoreUnavailable, None),
        ("<html>Bad Gateway</html>", StoreUnavailable, None),
        ("[]", StoreUnavailable, None),
        ("[" * 100_000, StoreUnavailable, None),
        (b"\xff\xfe", StoreUnavailable, None),
    ],
)
def test_a_refusal_becomes_the_error_it_means(text: str, kind: Any, code: int | None) -> None:
    error: Any = error_of("h:1", "400", text)
    assert isinstance(error, kind)
    if code is not None:
        assert error.code == code
    else:
        assert error.store == "h:1"
        assert len(error.detail) < 200


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ("502 Bad Gateway", '{"message":"failure to get a peer from the ring-balancer"}'),
        ("503 Service Unavailable", '{"code":503,"message":"no healthy upstream"}'),
        ("504 Gateway Timeout", '{"code":504,"message":"upstream request timeout"}'),
        ("500 Internal Server Error", '{"code":0}'),
        ("429 Too Many Requests", '{"message":"API rate limit exceeded"}'),
        ("408 Request Timeout", '{"code":true}'),
        ("503 Service Unavailable", '{"error":{"code":503,"message":"permission denied"}}'),
    ],
)
def test_what_a_proxy_answers_for_a_server_is_no_refusal(status: str, text: str) -> None:
    error = error_of("h:1", status, text)
    assert isinstance(error, StoreUnavailable)
    assert not error.unsent
    assert error.detail == f"HTTP {status}: {text!r}"


@pytest.mark.parametrize(
    ("status", "text", "code"),
    [
        ("500 Internal Server Error", '{"error":"etcdserver: what","code":2}', 2),
        (
            "501 Not Implemented",
            '{"error":"Method Not Allowed","message":"Method Not Allowed","code":12}',
            12,
        ),
        ("500 Internal Server Error", '{"error":"etcdserver: corrupt cluster","code":15}', 15),
        ("429 Too Many Requests", '{"error":"etcdserver: quota of something else","code":8}', 8),
        ("503 Service Unavailable", '{"error":{"grpc_code":9,"http_code":503,"message":"exists"}}', 9),
        ("403 Forbidden", '{"code":403,"message":"blocked by a rule"}', 403),
        ("400 Bad Request", '{"message":"no such path"}', 2),
    ],
)
def test_what_etcd_refuses_or_a_proxy_forbids_is_refused(status: str, text: str, code: int) -> None:
    error = error_of("h:1", status, text)
    assert isinstance(error, EtcdError)
    assert error.code == code


def test_a_gateway_that_is_switched_off_or_serves_no_such_certificate_names_the_other_url() -> None:
    assert "etcd+grpc:// asks without it" in str(error_of("h:1", "404 Not Found", "404 page not found\n"))
    assert "grpc" not in str(error_of("h:1", "502 Bad Gateway", "no"))
    said = "CommonName of client sending a request against gateway will be ignored and not used as expected\n"
    error = error_of("h:1", "400 Bad Request", said)
    assert isinstance(error, EtcdError)
    assert "etcds+grpc:// asks without the gateway" in error.message


def test_a_document_is_returned_with_its_numbers_as_such() -> None:
    assert document("h:1", b'{"count":"3","x":"3"}') == {"count": 3, "x": "3"}


@pytest.mark.parametrize(
    ("text", "words"),
    [(b"nonsense", "not JSON: 'nonsense'"), (b"[1]", "not a JSON object"), (b"", "not JSON")],
)
def test_a_reply_that_is_no_document_is_no_answer(text: bytes, words: str) -> None:
    with pytest.raises(StoreUnavailable, match=words):
        document("h:1", text)


def test_a_stream_of_one_has_its_error_inside() -> None:
    with pytest.raises(EtcdError) as caught:
        document("h:1", b'{"error":{"grpc_code":5,"message":"lease not found"}}')
    assert caught.value.code == 5


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("rpc error: code = PermissionDenied desc = etcdserver: permission denied", 7),
        ("etcdserver: invalid auth token", 16),
        ("etcdserver: user name is empty", 16),
    ],
)
def test_a_watch_refused_for_who_asks_says_so(reason: str, code: int) -> None:
    error = watch_refused("h:1", reason)
    assert isinstance(error, EtcdError)
    assert error.code == code


def test_a_watch_refused_otherwise_may_work_later() -> None:
    assert "no reason given" in str(watch_refused("h:1", ""))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (OSError(113, "Connect call failed ('10.0.0.1', 2379)"), "No route to host"),  # asyncio's
        (OSError("the name cannot be resolved: x"), "the name cannot be resolved: x"),
        (OSError(), "OSError"),
        (ssl.SSLError(1, "[SSL: ODD] odd"), "TLS failed"),
    ],
)
def test_a_failure_is_described(error: Exception, words: str) -> None:
    assert words in describe(error)
