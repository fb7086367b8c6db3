"""Where the fleets meet; a client that is missing is a failure in CI, and elsewhere a skip that says why."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest

from integration import servers
from integration.fleet.meeting import Ground


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Tell, where a client of another kind is missing."""
    try:
        return (yield)
    except servers.ServerUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"the other client is needed in CI: {reason}")
        pytest.skip(f"NOT TESTED: {reason}")


@pytest.fixture(scope="module", params=["etcd34", "etcd35"])
def on_etcd(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Yield a place on each etcd."""
    server: servers.Etcd = request.getfixturevalue(request.param)
    with Ground(server.start()) as ground:
        yield ground


@pytest.fixture(scope="module")
def on_zookeeper(zookeeper: servers.ZooKeeper) -> Iterator[Ground]:
    """Yield a place on ZooKeeper."""
    with Ground(zookeeper.start()) as ground:
        yield ground
