"""What the documentation says is notified when something fails is what is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration import servers
from integration.failing.scenes import SCENES
from integration.failing.table import STORES, TABLE, observe
from integration.needing import needed

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=list(STORES))
def store(request: pytest.FixtureRequest) -> Iterator[tuple[str, servers.Server]]:
    """Yield each store's name, and a server of it."""
    with needed(request.param, STORES[request.param]) as server:
        yield request.param, server


@pytest.mark.parametrize("scene", SCENES)
def test_a_row_is_what_is_told(store: tuple[str, servers.Server], scene: str) -> None:
    name, server = store
    assert observe(server, scene) == TABLE.documented()[scene, name]
