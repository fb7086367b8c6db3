"""Bugs to plant in what finds a server of Redis, and in what listens to it.

Each names the tests that have to notice it; all of them are part of the default run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from recipes.stores.redis import places
from recipes.stores.redis.places import Cluster, Place, Sentinels
from recipes.stores.redis.wire import Wire
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["IN_REDIS"]

WIRE = "tests/stores/redis/test_wire.py"
PLACES = "tests/stores/redis/test_places.py"
TRANSPORTS = "tests/stores/redis/test_transports.py"


def _asked_first_again(self: Any, address: Any) -> None:
    if address == self._now:
        self._now = None


def _bug(name: str, tests: str, owner: Any, method: str, wrong: Callable[..., Any]) -> TransportMutant:
    return TransportMutant(name, "servers of Redis", tests, partial(swap, owner, method, wrong))


IN_REDIS = [
    _bug("a former master that lives is listened to on and on", WIRE, Place, "known",
         lambda self, key: None),
    _bug("what names a lost master is asked first again", PLACES, Sentinels, "lost", _asked_first_again),
    _bug("a lost node's slots stay its own", PLACES, Cluster, "lost", nothing),
    _bug("a server that takes all the time is asked first again", PLACES, places, "_rotated", list),
    _bug("what the server tracks no more is not noticed", TRANSPORTS, Wire, "_tracks_no_more",
         lambda self: False),
]  # fmt: skip
