"""No exception of kazoo's gets out: each has a meaning here."""

from __future__ import annotations

import inspect
import struct
from typing import Any

import kazoo.exceptions
import kazoo.retry
import pytest
from kazoo.handlers.threading import KazooTimeoutError

from recipes.errors import StoreDenied, StoreFull, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper.kazoo_client_errors import translated
from recipes.stores.zookeeper.requests import BadVersion, NodeExists, NoNode, SessionExpired, ZooKeeperError

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
    "UnknownSessionError": ZooKeeperError,
    "WriterNotClosedException": StoreUnavailable,
    "ZookeeperError": ZooKeeperError,
    "ZookeeperStoppedError": StoreUnavailable,
}


def all_of_kazoo() -> set[Any]:
    found: set[Any] = {KazooTimeoutError}
    for module in (kazoo.exceptions, kazoo.retry):
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


def test_what_was_said_is_kept() -> None:
    assert "odd" in str(translated(kazoo.exceptions.NoAuthError("odd"), "zk:2181"))
    assert str(translated(kazoo.exceptions.NoNodeError("/q"), "zk:2181")) == "/q"


def test_a_reply_that_cannot_be_read_is_no_answer() -> None:
    assert type(translated(struct.error("short"), "zk:2181")) is StoreUnavailable
