"""The gates that need no server; those of PostgreSQL and Redis are in ``integration/fencing``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fencing import contract
from tests.fencing.doors import HERE, Door, FileDoor, SqliteDoor


@pytest.fixture(params=list(HERE.values()), ids=list(HERE))
def door(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Door]:
    one: Door = request.param.new(tmp_path)
    yield one
    one.close()


class TestGates(contract.Gates):
    pass


class TestRaces(contract.Races):
    @pytest.fixture(params=[FileDoor, SqliteDoor], ids=["file", "sqlite3"])
    def door(self, request: pytest.FixtureRequest, tmp_path: Path) -> Door:
        one: Door = request.param.new(tmp_path)
        return one
