"""The fixtures of the suite; ``store`` is each user's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.apis import APIS, Api, UvloopApi
from tests.contract.stores import Store
from tests.contract.world import World


@pytest.fixture(params=list(APIS))
def api(request: pytest.FixtureRequest) -> Iterator[Api]:
    one = APIS[request.param]()
    yield one
    one.close()


class OnUvloop:
    """Mixed into a part of the suite: its tests run on the asyncio API alone, in a loop of uvloop's."""

    @pytest.fixture
    def api(self) -> Iterator[Api]:
        one = UvloopApi()
        yield one
        one.close()


@pytest.fixture
def side() -> str:
    """Return what the tests' locks are: plain ones, re-entrant ones, or a side of the read-write lock."""
    return ""


@pytest.fixture
def world(request: pytest.FixtureRequest, store: Store, api: Api, side: str) -> Iterator[World]:
    for mark in request.node.iter_markers("needs"):
        missing = [one for one in mark.args if not getattr(store, one)]
        if missing:
            pytest.skip(f"not of this store: {', '.join(missing)}")
    one = World(store, api, side)
    yield one
    one.close()
