"""No exception of kazoo's gets out: each has a meaning here."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import ssl
import struct
from typing import Any

import kazoo
import kazoo.exceptions
import kazoo.retry
import pytest

from recipes._contract.operations import Open
from recipes.errors import RecipesError, SessionLost, StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.kazoo_client_errors import translated
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import BadVersion, NodeExists, NoNode, SessionExpired, ZooKeeperError
from tests.stores.stepping import CONTEXT, feed

MEANT: dict[str, type[Exception]] = {
    "APIError": ZooKeeperError,
    "AuthFailedError": StoreDenied,
    "BadArgumentsError": StoreRefused,
    "BadVersionError": BadVersion,
    "CancelledError": StoreUnavailable,
    "ConfigurationError": StoreRefused,
    "ConnectionClosedError": StoreUnavailable,
    "ConnectionDropped": StoreUnavailable,
    "ConnectionLoss": StoreUnavailable,
    "DataInconsistency": ZooKeeperError,
    "EphemeralOnLocalSessionError": StoreRefused,
    "ForceRetryError": StoreUnavailable,
    "InterruptedError": StoreUnavailable,
    "InvalidACLError": StoreRefused,
    "InvalidCallbackError": ZooKeeperError,
    "KazooException": ZooKeeperError,
    "KazooTimeoutError": StoreUnavailable,
    "LockTimeout": StoreUnavailable,
    "MarshallingError": StoreRefused,
    "NewConfigNoQuorumError": ZooKeeperError,
    "NoAuthError": StoreDenied,
    "NoChildrenForEphemeralsError": StoreRefused,
    "NoNodeError": NoNode,
    "NoWatcherError": ZooKeeperError,
    "NodeExistsError": NodeExists,
    "NotEmptyError": ZooKeeperError,
    "NotReadOnlyCallError": StoreUnavailable,
    "OperationTimeoutError": StoreUnavailable,
    "QuotaExceededError": StoreFull,
    "RWServerAvailable": StoreUnavailable,
    "ReconfigDisabledError": ZooKeeperError,
    "ReconfigInProcessError": ZooKeeperError,
    "RequestTimeoutError": StoreUnavailable,
    "RetryFailedError": StoreUnavailable,
    "RolledBackError": ZooKeeperError,
    "RuntimeInconsistency": ZooKeeperError,
    "SASLException": StoreDenied,
    "SessionClosedRequireSaslError": StoreDenied,
    "SessionExpiredError": SessionExpired,
    "SessionMovedError": StoreUnavailable,
    "SystemZookeeperError": ZooKeeperError,
    "ThrottledOpError": StoreUnavailable,
    "UnimplementedError": StoreRefused,
    "UnknownSessionError": SessionExpired,
    "WriterNotClosedException": StoreUnavailable,
    "ZookeeperError": ZooKeeperError,
    "ZookeeperStoppedError": StoreUnavailable,
}


ELSEWHERE = ("kazoo.handlers.gevent", "kazoo.handlers.eventlet", "kazoo.testing", "kazoo.tests")
"""Not used here, and not all can be imported."""


def all_of_kazoo() -> set[Any]:
    found: set[Any] = set()
    for info in pkgutil.walk_packages(kazoo.__path__, "kazoo."):
        if info.name.startswith(ELSEWHERE):
            continue
        module = importlib.import_module(info.name)
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, BaseException) and kind.__module__ == module.__name__:
                found.add(kind)
    return found


def test_the_table_is_complete() -> None:
    assert {kind.__name__ for kind in all_of_kazoo()} == set(MEANT)


@pytest.mark.parametrize("kind", sorted(all_of_kazoo(), key=str))
def test_every_exception_is_mapped(kind: type[BaseException]) -> None:
    error = translated(kind(), "zk:2181")
    assert type(error) is MEANT[kind.__name__]
    assert not isinstance(error, kazoo.exceptions.KazooException)
    if type(error) is ZooKeeperError:
        assert error.code == getattr(kind, "code", 0)


@pytest.mark.parametrize("kind", sorted(all_of_kazoo(), key=str))
def test_every_exception_ends_as_one_of_ours(kind: type[BaseException]) -> None:
    error = translated(kind("odd"), "zk:2181")
    if isinstance(error, NoNode | NodeExists | BadVersion):
        return  # a protocol asks what is behind it
    if isinstance(error, ZooKeeperError):
        with pytest.raises(SessionLost if isinstance(error, SessionExpired) else StoreRefused) as caught:
            feed(ZooKeeperProtocol("zk:2181", Layout("")).open(Open(15), CONTEXT), error)
        error = caught.value
    assert isinstance(error, RecipesError)
    assert isinstance(error, SessionLost) or ("zk:2181" in str(error) and "odd" in str(error))


def test_every_answer_of_the_server_is_an_exception_that_is_mapped() -> None:
    known = set(kazoo.exceptions.EXCEPTIONS.values())
    assert known <= all_of_kazoo() | {None}


@pytest.mark.parametrize(
    "error", [OSError(5, "odd"), ssl.SSLError(1, "odd"), struct.error("odd"), EOFError()]
)
def test_what_the_transport_raises_is_no_answer(error: Exception) -> None:
    assert type(translated(error, "zk:2181")) is StoreUnavailable


def test_what_was_said_is_kept() -> None:
    assert "odd" in str(translated(kazoo.exceptions.NoAuthError("odd"), "zk:2181"))
    assert str(translated(kazoo.exceptions.NoNodeError("/q"), "zk:2181")) == "/q"


def test_a_reply_that_cannot_be_read_is_no_answer() -> None:
    assert type(translated(struct.error("short"), "zk:2181")) is StoreUnavailable
