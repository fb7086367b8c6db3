from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.stores.etcd.fakes import AsyncFace, BlockingFace, UvloopFace


@pytest.fixture(params=[BlockingFace, AsyncFace, UvloopFace], ids=["blocking", "asyncio", "uvloop"])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Make a face for these ports; all are closed, and must have left no thread."""
    faces: list[Any] = []

    def make(*ports: int, **options: Any) -> Any:
        faces.append(request.param(list(ports), **options))
        return faces[-1]

    yield make
    for face in faces:
        face.end()
    assert not [thread for thread in threading.enumerate() if thread.name == "recipes-etcd"]
