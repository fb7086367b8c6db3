"""The fixtures of the suite; ``store`` is each user's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.faces import FACES, Face, UvloopFace
from tests.contract.stores import Store
from tests.contract.world import World


@pytest.fixture(params=list(FACES))
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    one = FACES[request.param]()
    yield one
    one.close()


class OnUvloop:
    """Mixed into a part of the suite: its tests run on the asyncio face alone, in a loop of uvloop's."""

    @pytest.fixture
    def face(self) -> Iterator[Face]:
        one = UvloopFace()
        yield one
        one.close()


@pytest.fixture
def side() -> str:
    """Return what the tests' locks are: plain ones, re-entrant ones, or a side of the read-write lock."""
    return ""


@pytest.fixture
def world(store: Store, face: Face, side: str) -> Iterator[World]:
    one = World(store, face, side)
    yield one
    one.close()
