"""The gates of PostgreSQL and Redis: the suite of ``tests/fencing/contract.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.fencing.doors import POSTGRES, REDIS, PsycopgDoor, RedisDoor, RedisTransactionDoor, door_on
from tests.fencing import contract
from tests.fencing.doors import Door

ON = {"postgres": POSTGRES, "redis_server": REDIS}
ALL = [
    pytest.param((server, kind), id=f"{server}-{name}")
    for server, kinds in ON.items()
    for name, kind in kinds.items()
]
RACING = [("postgres", PsycopgDoor), ("redis_server", RedisDoor), ("redis_server", RedisTransactionDoor)]


@pytest.fixture(params=ALL)
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    """Yield a new resource on each server, behind each of its gates."""
    yield from _door(request, *request.param)


def _door(request: pytest.FixtureRequest, server: str, kind: type[Door]) -> Iterator[Door]:
    one = door_on(request.getfixturevalue(server), kind)
    yield one
    one.close()


class TestGates(contract.Gates):
    """See the base."""


class TestRaces(contract.Races):
    """See the base."""

    @pytest.fixture(params=RACING, ids=lambda one: f"{one[1].__name__}")
    def door(self, request: pytest.FixtureRequest) -> Iterator[Door]:
        """Yield a new resource on each server."""
        yield from _door(request, *request.param)
