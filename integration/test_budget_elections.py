"""The requests of elections, counted: as of locks, one write to proclaim, one watch for all observers."""

from __future__ import annotations

from typing import Any

import pytest

from integration.counting import COUNTED, LOOKED, RELEASED, on_the_wire, trips, used
from integration.proxy import Proxy
from integration.stores import ServerStore
from recipes import Leader
from tests.contract.election import Watcher, campaign, leader, proclaim, stand
from tests.contract.world import Party, World

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]

PROCLAIMED = {"etcd": ("/kv/txn",), "zookeeper": ("SetData",)}
READ = {"etcd": ("/v3/kv/range",), "zookeeper": ("sync", "getChildren", "get")}


def candidate(world: World, **options: Any) -> Party:
    """Return a client whose connections and directories are there, also that of the election."""
    party = used(world, **options)
    party.release(campaign(party))
    return party


def test_a_campaign_and_its_end_take_one_round_trip_each(
    proxy: Proxy, world: World, store: ServerStore, kind: str
) -> None:
    party = candidate(world, url=proxy.url(store.prefix))
    with proxy.counting() as campaigning, party.tap.counting() as campaigned:
        leadership = campaign(party, "a")
    with proxy.counting() as resigning, party.tap.counting() as resigned:
        party.release(leadership)
    assert trips(campaigned) == LOOKED[kind]
    assert trips(resigned) == RELEASED[kind]
    assert on_the_wire(campaigning) == len(LOOKED[kind][0]), campaigning
    assert on_the_wire(resigning) == 1, resigning


def test_a_proclamation_is_one_write(proxy: Proxy, world: World, store: ServerStore, kind: str) -> None:
    party, other = candidate(world, url=proxy.url(store.prefix)), candidate(world)
    leadership = campaign(party, "v0")
    waiting = stand(other)
    with proxy.counting() as counts, party.tap.counting() as seen, other.tap.counting() as theirs:
        for value in ("v1", "v2", "v3"):
            proclaim(party, leadership, value)
            assert not waiting.wait(0.3)
    assert trips(seen) == [PROCLAIMED[kind]] * 3
    assert on_the_wire(counts) == 3, counts
    # There a watch on a node is woken by its data too: by the next in line it is looked at and set again.
    assert trips(theirs) == ([] if kind == "etcd" else [("Children",), ("Get",)] * 3)


def test_seeing_which_leads_is_one_read(proxy: Proxy, world: World, store: ServerStore, kind: str) -> None:
    party = candidate(world, url=proxy.url(store.prefix))
    leadership = campaign(party, "v0")
    with proxy.counting() as counts, party.tap.counting() as seen:
        assert leader(party) == Leader("v0", leadership.token)
    assert trips(seen) == ([("/kv/range",)] if kind == "etcd" else [("Sync", "Children"), ("Get",)])
    assert on_the_wire(counts) == sum(len(trip) for trip in trips(seen)), counts


def test_a_change_costs_all_observers_of_a_client_one_read(
    proxy: Proxy, world: World, store: ServerStore, kind: str
) -> None:
    party, other = candidate(world, url=proxy.url(store.prefix)), candidate(world)
    leadership = campaign(other, "v0")
    many = [Watcher(party) for _ in range(20)]
    for one in many:
        assert one.next() == Leader("v0", leadership.token)
    for value in ("v1", "v2", "v3"):
        with proxy.counting() as counts:
            proclaim(other, leadership, value)
            for one in many:
                assert one.next() == Leader(value, leadership.token)
                assert one.next(0.01) == "nothing"
        assert {label: counts.requests[label] for label in READ[kind]} == dict.fromkeys(READ[kind], 1), counts
        assert on_the_wire(counts) - len(READ[kind]) == counts.requests["/v3/watch chunk"] <= 3
    assert many[0].next(0.5) == "nothing"  # the last watches that told are cancelled behind
    with proxy.counting() as counts:
        assert many[0].next(1) == "nothing"
    assert on_the_wire(counts) == 0, counts
