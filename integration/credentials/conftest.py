"""Servers that ask who is there, in the place of the plain ones; each is started once, when first needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from integration import servers
from integration.credentials.servers import SecureEtcd, SecureRedis, SecureZooKeeper

SECURE: dict[str, Callable[[], servers.Server]] = {
    "etcd-3.4-tls": lambda: SecureEtcd("etcd-3.4"),
    "etcd-3.5-mutual": lambda: SecureEtcd("etcd-3.5", mutual=True),
    "etcd-grpc-mutual": lambda: SecureEtcd("etcd-3.4", mutual=True, grpc=True),
    "redis-tls": SecureRedis,
    "redis-mutual": lambda: SecureRedis(mutual=True),
    "zookeeper-3.8-tls": SecureZooKeeper,
    "zookeeper-3.8-sasl": lambda: SecureZooKeeper(sasl=True, mutual=True),
}


LONG = {"etcd-3.4-tls", "redis-mutual", "zookeeper-3.8-sasl"}
PARAMS = [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in SECURE]


@pytest.fixture(scope="session", params=PARAMS)
def secured(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    """Yield each of the servers."""
    try:
        one = SECURE[request.param]()
        one.start()
    except servers.ServerUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"{request.param} is needed in CI: {reason}")
        pytest.skip(f"NOT TESTED on {request.param}: {reason}")
    with one:
        yield one


@pytest.fixture
def server(secured: servers.Server) -> servers.Server:
    """Return the server, running, whatever the test before did to it."""
    secured.resume()
    return secured.start()
