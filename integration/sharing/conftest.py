"""A Redis of their own: what others keep there is under the names that they choose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration import servers
from integration.conftest import SEEN
from integration.faults.actors import APIS
from integration.needing import needed
from integration.sharing.meeting import Ground


@pytest.fixture(scope="package")
def shared_redis(pytestconfig: pytest.Config) -> Iterator[servers.Redis]:
    """Yield a Redis, started once."""
    with needed("redis", lambda: servers.redis().start()) as one:
        pytestconfig.stash.setdefault(SEEN, {})["redis"] = one.version()
        yield one


@pytest.fixture(scope="module", params=APIS)
def ground(request: pytest.FixtureRequest, shared_redis: servers.Redis) -> Iterator[Ground]:
    """Yield clients of each API on it."""
    with Ground(shared_redis, request.param) as one:
        yield one


@pytest.fixture(scope="module", params=APIS)
def on_cluster(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Yield clients of each API on a cluster of their own."""
    with (
        needed("redis", lambda: servers.redis_cluster().start()) as cluster,
        Ground(cluster, request.param) as one,
    ):
        yield one
