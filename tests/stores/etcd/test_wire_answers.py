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
    error: Any = error_of("h:1", "HTTP 400", text)
    assert isinstance(error, kind)
    if code is not None:
        assert error.code == code
    else:
        assert error.store == "h:1"
        assert len(error.detail) < 200


def test_a_gateway_that_is_switched_off_or_serves_no_such_certificate_names_the_other_url() -> None:
    assert "etcd+grpc:// asks without it" in str(
        error_of("h:1", "HTTP 404 Not Found", "404 page not found\n")
    )
    assert "grpc" not in str(error_of("h:1", "HTTP 502 Bad Gateway", "no"))
    said = "CommonName of client sending a request against gateway will be ignored and not used as expected\n"
    error = error_of("h:1", "HTTP 400 Bad Request", said)
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
