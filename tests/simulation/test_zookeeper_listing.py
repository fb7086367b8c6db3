"""Lists with a watch on the model of ZooKeeper: no change is lost."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from recipes._contract.operations import List, Program
from recipes._contract.wakeups import Changed, Disturbed
from recipes._programs.steps import Attach, Wait
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Children, Exists, Get
from tests.simulation.bugs import swap
from tests.simulation.listing import MOST, QUEUE, Scene, Shown
from tests.simulation.zookeeper_connection import ZooKeeperConnection
from tests.simulation.zookeeper_model import ZooKeeperStore

SEEDS = 200


def lose_a_reply(connection: ZooKeeperConnection) -> None:
    connection.store.fated = "lost reply"


def lose_a_request(connection: ZooKeeperConnection) -> None:
    connection.store.fated = "lost request"


FAULTS = (ZooKeeperConnection.break_, lose_a_reply, lose_a_request)


class OfKinds(Scene):
    """A scene in which kinds alone are listed."""

    def _observe(self, shown: list[Shown]) -> Program[None]:
        yield from Attach()
        while True:
            listing = yield from List(QUEUE, MOST, watch=True, kinds_only=True)
            shown.append(listing.contenders)
            self.events.append((yield from Wait()))


def test_every_observer_has_listed_what_stands() -> None:
    listings = disturbed = 0
    for seed in range(SEEDS):
        scene = Scene(seed, ZooKeeperStore, FAULTS)
        stands = scene.play()
        assert scene.known == [stands] * 3, seed
        assert set(scene.events) <= {Changed(QUEUE), Disturbed(), None}
        listings += sum(map(len, scene.shown))
        disturbed += Disturbed() in scene.events
    assert listings > 10 * SEEDS
    assert disturbed > SEEDS / 10


def test_every_observer_of_kinds_has_listed_who_stands() -> None:
    for seed in range(SEEDS):
        scene = OfKinds(seed, ZooKeeperStore, FAULTS)
        stands = [(one.ref, one.id, one.kind) for one in scene.play()]
        assert [[(one.ref, one.id, one.kind) for one in known] for known in scene.known] == [stands] * 3, seed


@pytest.mark.parametrize("kind", [Children, Get, Exists])
def test_a_watch_that_is_missing_is_noticed(kind: type[Any]) -> None:
    def together(self: Any, requests: tuple[Any, ...]) -> Generator[Any, Any, Any]:
        unarmed = tuple(kind(one.path) if type(one) is kind else one for one in requests)
        return (yield from original(self, unarmed))

    original = ZooKeeperProtocol._together
    (patch,) = swap(ZooKeeperProtocol, "_together", together)
    with patch:
        scenes = (Scene(seed, ZooKeeperStore, ()) for seed in range(SEEDS))
        assert any([scene.play()] * 3 != scene.known for scene in scenes)
