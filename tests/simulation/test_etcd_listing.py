"""Lists with a watch on the model of etcd: no change is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from recipes._contract.wakeups import Changed, Disturbed
from recipes.stores.etcd import protocol
from recipes.stores.etcd.protocol import EtcdProtocol
from tests.simulation.bugs import swap
from tests.simulation.etcd_store import EtcdLink, EtcdStore
from tests.simulation.listing import QUEUE, Scene

SEEDS = 300


def lose_a_reply(link: EtcdLink) -> None:
    link.store.fated = "lost reply"


def lose_a_request(link: EtcdLink) -> None:
    link.store.fated = "lost request"


FAULTS = (EtcdLink.disturb, EtcdLink.compacted, lose_a_reply, lose_a_request)


def test_every_observer_has_listed_what_stands() -> None:
    listings = disturbed = 0
    for seed in range(SEEDS):
        scene = Scene(seed, EtcdStore, FAULTS)
        stands = scene.play()
        assert scene.known == [stands] * 3, seed
        assert set(scene.events) <= {Changed(QUEUE), Disturbed(), None}
        listings += sum(map(len, scene.shown))
        disturbed += Disturbed() in scene.events
    assert listings > 10 * SEEDS
    assert disturbed > SEEDS / 10


def gap_ignored() -> list[Any]:
    """What changes between the read and a watch that began later is neither shown nor notified."""

    def blind(self: Any, requests: Any) -> Any:
        replies = yield from together(self, requests)
        return tuple(0 if isinstance(reply, int) else reply for reply in replies)

    together = EtcdProtocol._together
    return swap(EtcdProtocol, "_together", blind)


def watching(**otherwise: Any) -> Callable[[], list[Any]]:
    def planted() -> list[Any]:
        return swap(protocol, "WatchKey", lambda *args, **kept: replace(watch(*args, **kept), **otherwise))

    watch = protocol.WatchKey
    return planted


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(gap_ignored, id="the gap before the watch is ignored"),
        pytest.param(watching(changes=False), id="what is put is not notified"),
        pytest.param(watching(end=b""), id="one key is watched, no range"),
        pytest.param(watching(end=f"app/{QUEUE}/M7-3ea".encode()), id="the range ends too early"),
    ],
)
def test_a_planted_bug_of_lists_is_noticed(plant: Callable[[], list[Any]]) -> None:
    (patch,) = plant()
    with patch:
        scenes = (Scene(seed, EtcdStore, ()) for seed in range(SEEDS))
        assert any([scene.play()] * 3 != scene.known for scene in scenes)
