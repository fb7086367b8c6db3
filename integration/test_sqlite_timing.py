"""The rest of the contract on a file, see ``tests/contract/test_sqlite.py``; no server is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.stores import SqliteStore, Store
from tests.contract.timing import Timing


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield a file of its own."""
    one = SqliteStore()
    yield one
    one.close()


class TestTiming(Timing):
    """See the base."""
