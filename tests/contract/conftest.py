"""The contract on the store in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.fixtures import api, side, world  # noqa: F401 - fixtures
from tests.contract.stores import MemoryStore, Store


@pytest.fixture
def store() -> Iterator[Store]:
    one = MemoryStore()
    yield one
    one.close()
