"""Nothing that etcd3gw, its transports or etcd itself can say gets out: each has a meaning here."""

from __future__ import annotations

import builtins
import inspect
import json
import socket
import ssl
from typing import Any, ClassVar

import etcd3gw.exceptions
import h11
import pytest

from recipes._contract.operations import Open
from recipes.errors import (
    RecipesError,
    SessionLost,
    StoreDenied,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
    StoreUntrusted,
)
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd.gateway import GatewaySpeaker
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.pool import Pool
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.requests import EtcdError, Post
from recipes.stores.etcd.session import GatewayServer
from recipes.stores.etcd.wire import Exchange
from recipes.stores.etcd.wire_answers import error_of, failed, watch_refused
from recipes.stores.etcd.wires import WireError
from tests.stores.stepping import CONTEXT, feed

FAR = 2e9
POST = Post("/kv/txn", {})


def exceptions_of(module: Any, base: type[BaseException] = Exception) -> set[type[BaseException]]:
    kinds = {kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, base)}
    return {kind for kind in kinds if kind.__module__ in (module.__name__, "builtins")}


def meaning(error: Exception) -> Exception:
    """Return what a call gets, of what a connection raised."""
    if not isinstance(error, EtcdError):
        return error
    with pytest.raises(RecipesError) as caught:
        feed(EtcdProtocol("e:2379", Layout("app"), 1).open(Open(15), CONTEXT), error)
    return caught.value


# What etcd3gw raises.

OF_ETCD3GW: dict[str, type[Exception]] = {
    "ApiVersionDiscoveryFailedError": StoreUnavailable,
    "ConnectionFailedError": StoreUnavailable,
    "ConnectionTimeoutError": StoreUnavailable,
    "Etcd3Exception": StoreUnavailable,
    "InternalServerError": StoreUnavailable,
    "PreconditionFailedError": StoreUnavailable,
    "WatchTimedOut": StoreUnavailable,
}
"""With a text that is no answer of etcd's; with one, that decides."""


def test_every_exception_of_etcd3gw_is_known() -> None:
    assert {kind.__name__ for kind in exceptions_of(etcd3gw.exceptions)} == set(OF_ETCD3GW)


class Raising:
    """A session that raises."""

    error: ClassVar[BaseException]

    def post(self, *_args: Any, **_options: Any) -> Any:
        raise self.error


def asked(error: BaseException) -> Exception:
    """Return what a post comes to when the session under etcd3gw raises this."""
    endpoint = Endpoint("e", 2379)
    server = GatewayServer(Pool(endpoint, GatewaySpeaker(endpoint)), secure=False)
    server._client.session = Raising()  # type: ignore[assignment]
    Raising.error = error
    with pytest.raises((EtcdError, StoreUnavailable)) as caught:
        server.reply(POST, FAR)
    return caught.value


@pytest.mark.parametrize("name", sorted(OF_ETCD3GW))
def test_an_exception_of_etcd3gw(name: str) -> None:
    kind = getattr(etcd3gw.exceptions, name)
    assert type(asked(kind("odd", "Odd"))) is OF_ETCD3GW[name]
    denied = meaning(asked(kind('{"code":7,"message":"odd"}', "Odd")))
    assert type(denied) is StoreDenied
    assert type(asked(kind("odd"))) is OF_ETCD3GW[name]


# What is under it.


@pytest.mark.parametrize("kind", [StoreUnavailable, StoreUntrusted])
@pytest.mark.parametrize("unsent", [False, True])
def test_what_the_session_raises_passes_etcd3gw_as_it_is(kind: type[StoreUnavailable], unsent: bool) -> None:
    error = kind("e:2379", "odd", unsent=unsent)
    found = asked(error)
    assert found is error
    assert (type(found), error.unsent) == (kind, unsent)


GONE = {ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError}
OF_SYSTEM = {
    kind
    for module in (builtins, socket, ssl)
    for _, kind in inspect.getmembers(module, inspect.isclass)
    if issubclass(kind, OSError)
}


@pytest.mark.parametrize("kind", sorted(OF_SYSTEM, key=str))
def test_an_exception_of_the_operating_system_or_of_tls(kind: type[OSError]) -> None:
    error = kind(1, "odd")
    if isinstance(error, ssl.SSLCertVerificationError):
        error.verify_message = "odd"
    found = failed("e:2379", error)
    untrusted = issubclass(kind, ssl.SSLError) and kind not in GONE
    assert type(found) is (StoreUntrusted if untrusted else StoreUnavailable)
    assert found.store == "e:2379"
    assert found.detail


def test_every_error_of_h11_is_one_of_the_wire() -> None:
    kinds = {kind for kind in vars(h11).values() if inspect.isclass(kind) and issubclass(kind, Exception)}
    assert kinds == {h11.ProtocolError, h11.LocalProtocolError, h11.RemoteProtocolError}
    with pytest.raises(WireError):
        Exchange().feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: odd\r\n\r\n")
    assert type(failed("e:2379", WireError("odd"))) is StoreUnavailable


# What etcd answers.

OF_GRPC: dict[int, type[Exception]] = {
    1: StoreUnavailable,  # canceled
    2: StoreRefused,  # unknown
    3: StoreRefused,  # invalid argument
    4: StoreUnavailable,  # deadline exceeded
    5: SessionLost,  # not found: of what is asked for by name, there are only leases
    6: StoreRefused,  # already exists
    7: StoreDenied,  # permission denied
    8: StoreRefused,  # resource exhausted; the words may say more
    9: StoreRefused,  # failed precondition
    10: StoreRefused,  # aborted
    11: StoreRefused,  # out of range
    12: StoreRefused,  # unimplemented
    13: StoreUnavailable,  # internal
    14: StoreUnavailable,  # unavailable
    15: StoreRefused,  # data loss
    16: StoreDenied,  # unauthenticated
}


@pytest.mark.parametrize("code", [*OF_GRPC, 0, 17, -1])
def test_every_status_of_grpc_has_a_meaning(code: int) -> None:
    found = meaning(error_of("e:2379", "400", json.dumps({"code": code, "message": "odd"})))
    assert type(found) is OF_GRPC.get(code, StoreRefused)
    assert isinstance(found, SessionLost) or "odd" in str(found)


NAMES = {
    "Canceled": 1,
    "InvalidArgument": 3,
    "NotFound": 5,
    "PermissionDenied": 7,
    "ResourceExhausted": 8,
    "FailedPrecondition": 9,
    "OutOfRange": 11,
    "Unavailable": 14,
    "DataLoss": 15,
    "Unauthenticated": 16,
}
# All that etcd 3.4 declares (rpctypes/error.go) and where the words say more than the status.
WORDS: list[tuple[str, str, type[Exception]]] = [
    ("ResourceExhausted", "mvcc: database space exceeded", StoreFull),
    ("ResourceExhausted", "too many requests", StoreUnavailable),
    ("InvalidArgument", "user name is empty", StoreDenied),
    ("InvalidArgument", "revision of auth store is old", StoreDenied),
    ("FailedPrecondition", "not leader", StoreUnavailable),
    ("InvalidArgument", "authentication failed, invalid user ID or password", StoreRefused),
    ("FailedPrecondition", "authentication is not enabled", StoreRefused),
    ("FailedPrecondition", "lease already exists", StoreRefused),
    ("InvalidArgument", "request is too large", StoreRefused),
    ("InvalidArgument", "too many operations in txn request", StoreRefused),
    ("OutOfRange", "mvcc: required revision has been compacted", StoreRefused),
    ("OutOfRange", "too large lease TTL", StoreRefused),
    ("NotFound", "requested lease not found", SessionLost),
    ("PermissionDenied", "permission denied", StoreDenied),
    ("Unauthenticated", "invalid auth token", StoreDenied),
    ("Canceled", "watch canceled", StoreUnavailable),
    ("Unavailable", "request timed out, possibly due to previous leader failure", StoreUnavailable),
    ("Unavailable", "unhealthy cluster", StoreUnavailable),
    ("Unavailable", "rpc not supported for learner", StoreUnavailable),
    ("FailedPrecondition", "rpc not supported for learner", StoreUnavailable),  # from 3.6 on
    ("FailedPrecondition", "not capable", StoreUnavailable),
    ("DataLoss", "corrupt cluster", StoreRefused),
]


@pytest.mark.parametrize(("status", "words", "kind"), WORDS, ids=[words for _, words, _ in WORDS])
def test_what_etcd_says(status: str, words: str, kind: type[Exception]) -> None:
    document = json.dumps({"error": f"etcdserver: {words}", "code": NAMES[status]})
    assert type(meaning(error_of("e:2379", "400", document))) is kind


def test_a_watch_that_is_refused_in_words() -> None:
    said = "rpc error: code = InvalidArgument desc = etcdserver: user name is empty"
    assert type(meaning(watch_refused("e:2379", said))) is StoreDenied
