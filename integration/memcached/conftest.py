"""A Memcached for these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration import servers
from integration.memcached.store import MemcachedStore
from integration.needing import needed


@pytest.fixture(scope="session")
def memcached() -> Iterator[servers.Memcached]:
    """Yield a Memcached that forgets nothing, and that grants, started once."""
    with needed("memcached", servers.memcached) as one:
        one.wait_granting()
        yield one


@pytest.fixture
def store(memcached: servers.Memcached, prefix: str) -> Iterator[MemcachedStore]:
    """Yield a prefix on it as the contract suite sees it."""
    one = MemcachedStore(memcached, prefix)
    yield one
    one.close()
