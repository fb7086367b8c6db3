"""Lists with a watch on the model of etcd: no change is lost."""

from __future__ import annotations

import pytest

from recipes._contract.wakeups import Changed, Disturbed
from tests.mutants.in_etcd_lists import LISTS
from tests.mutants.transports import TransportMutant
from tests.simulation.etcd_store import EtcdConnection, EtcdStore
from tests.simulation.listing import QUEUE, Scene

SEEDS = 300


def lose_a_reply(connection: EtcdConnection) -> None:
    connection.store.fated = "lost reply"


def lose_a_request(connection: EtcdConnection) -> None:
    connection.store.fated = "lost request"


FAULTS = (EtcdConnection.disturb, EtcdConnection.compacted, lose_a_reply, lose_a_request)


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


def shows(seed: int) -> bool:
    """Whether a bug that is planted shows in this scene, without any fault."""
    scene = Scene(seed, EtcdStore, ())
    try:
        return [scene.play()] * 3 != scene.known
    except AssertionError:
        return True


@pytest.mark.parametrize(
    "mutant", [one for one in LISTS if one.tests.endswith("test_etcd_listing.py")], ids=lambda one: one.name
)
def test_a_planted_bug_of_lists_is_noticed(mutant: TransportMutant) -> None:
    (patch,) = mutant.plant()
    assert not any(map(shows, range(10)))
    with patch:
        assert any(map(shows, range(SEEDS)))
