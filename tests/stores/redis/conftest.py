from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.stores.redis.fakes import AsyncApi, BlockingApi, UvloopApi


@pytest.fixture(params=[BlockingApi, AsyncApi, UvloopApi], ids=["blocking", "asyncio", "uvloop"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Make an API for this port; all are closed, and must have left no thread."""
    apis: list[Any] = []

    def make(port: int, **options: Any) -> Any:
        apis.append(request.param(port, **options))
        return apis[-1]

    yield make
    for api in apis:
        api.end()
    assert not [
        thread for thread in threading.enumerate() if thread.name == "recipes-listener" and thread.is_alive()
    ]
