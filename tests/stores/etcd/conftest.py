from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.stores.etcd.fakes import AsyncApi, BlockingApi, UvloopApi
from tests.threads import until_ended


@pytest.fixture(params=[BlockingApi, AsyncApi, UvloopApi], ids=["blocking", "asyncio", "uvloop"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Make a API for these ports; all are closed, and must have left no thread."""
    apis: list[Any] = []

    def make(*ports: int, **options: Any) -> Any:
        apis.append(request.param(list(ports), **options))
        return apis[-1]

    yield make
    for api in apis:
        api.end()
    until_ended("recipes-etcd", 10)
