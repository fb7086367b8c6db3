"""Five Redis for these tests."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from integration import servers
from integration.needing import needed
from integration.redlock.store import RedlockStore


@pytest.fixture(scope="session")
def five() -> Iterator[list[servers.Redis]]:
    """Yield five independent servers, started once."""
    with contextlib.ExitStack() as running:
        yield [needed("redis-7", lambda: running.enter_context(servers.redis())) for _ in range(5)]


@pytest.fixture
def store(five: list[servers.Redis], prefix: str) -> Iterator[RedlockStore]:
    """Yield a prefix on them as the contract suite sees it."""
    one = RedlockStore(five, prefix)
    yield one
    one.close()
