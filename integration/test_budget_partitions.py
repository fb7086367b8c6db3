"""What sharing items costs, counted where it is asked: batches, and nothing at rest."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest

from integration.counting import COUNTED
from recipes._run.lanes import MOST_TOGETHER
from tests.contract.partitions import Worker
from tests.contract.tap import LOOKS
from tests.contract.world import Party, World

ITEMS = [f"shard {number}" for number in range(128)]
SESSION = {"session_timeout": 60}
pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]

RENEWING = ({"/lease/keepalive"}, {"Sync", "Exists"})
ENQUEUED = {"etcd": ("/kv/txn",), "zookeeper": ("Create", "Children")}
WATCHED = {"etcd": ("Watch",), "zookeeper": ("Get",)}
GRANTED = {"etcd": ("/kv/range",), "zookeeper": ()}
RELEASED = {"etcd": ("/kv/deleterange",), "zookeeper": ("Delete",)}


def trips(party: Party, since: int) -> list[tuple[str, ...]]:
    """Return the round trips since then, but for those that renew."""
    return [asked.parts for asked in party.tap.asked[since:] if {*asked.parts} not in RENEWING]


def without_looks(found: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return those that are no look at the group, of which there is one for each change at most."""
    return [trip for trip in found if trip not in LOOKS and trip != ("/kv/range",) and {*trip} != {"Get"}]


def of_many(found: list[tuple[str, ...]], parts: tuple[str, ...], count: int) -> list[tuple[str, ...]]:
    """Return those round trips that are made of these parts alone, which should be that many in all."""
    some = [trip for trip in found if {*trip} == {*parts} and len(trip) > len(parts)]
    total = sum((Counter(trip) for trip in some), Counter[str]())
    assert total == Counter(dict.fromkeys(parts, count)), found
    return some


def test_a_share_is_asked_for_and_given_back_in_batches(world: World, kind: str) -> None:
    first = Worker(world.client(**SESSION), "a", ITEMS).until(ITEMS)  # which makes the nodes
    first.close()  # which waits until all is given back, as a release does not
    first.release()
    party = world.client(**SESSION)
    party.release(party.acquire("x"))
    since = len(party.tap.asked)
    a = Worker(party, "a", ITEMS).until(ITEMS)
    asked = trips(party, since)
    in_one = MOST_TOGETHER // len(ENQUEUED[kind])
    batches = of_many(asked, ENQUEUED[kind], len(ITEMS))
    assert len(batches) <= ceil(len(ITEMS) / in_one) + 1
    assert len(without_looks(asked)) == len(batches) + 2, (
        f"beside that it joins, and says that it shares: {asked}"
    )
    assert 1 <= party.tap.looks(since) <= 2, f"one for each of these changes at most: {asked}"
    since = len(party.tap.asked)
    a.close()
    asked = trips(party, since)
    batches = of_many(asked, RELEASED[kind], len(ITEMS))
    assert len(batches) <= ceil(len(ITEMS) / MOST_TOGETHER) + 1
    assert len(without_looks(asked)) == len(batches) + 1, (
        f"beside that it says that it shares no more: {asked}"
    )
    assert party.tap.looks(since) <= 1, asked


def test_a_member_that_comes_joins_and_watches_in_batches(world: World, kind: str) -> None:
    a = Worker(world.client(**SESSION), "a", ITEMS).until(ITEMS)
    party = world.client(**SESSION)
    party.release(party.acquire("x"))
    since = len(party.tap.asked)
    b = Worker(party, "b", ITEMS)
    assert b.next() == {}
    while not a.next().leaving:
        pass
    moving = {*a.now.leaving}
    a.next(0)
    b.until(moving)
    asked = trips(party, since)
    requests = Counter(part for trip in asked for part in trip)
    for parts in (ENQUEUED[kind], WATCHED[kind], GRANTED[kind]):
        for part in parts:
            assert requests[part] >= len(moving) or part == "/kv/range"
    assert sum(requests.values()) <= 4 * len(moving) + 20, requests
    assert len(asked) <= len(moving) / 2 + 10, "most of it together"


def test_at_rest_nothing_is_asked_but_renewals(world: World, kind: str) -> None:
    a = Worker(world.client(**SESSION), "a", ITEMS).until(ITEMS)
    since = len(a.party.tap.asked)
    assert a.next(2) is None
    assert [trip for trip in trips(a.party, since) if trip != ("/kv/txn",)] == []
    assert kind in ENQUEUED


def test_a_renewal_looks_at_its_share_of_the_items_alone(world: World, kind: str) -> None:
    party = world.client(session_timeout=6)
    a = Worker(party, "a", ITEMS).until(ITEMS)
    since = len(party.tap.asked)
    a.next(7)
    renewals = [asked.parts for asked in party.tap.asked[since:] if {*asked.parts} == {"Sync", "Exists"}]
    if kind == "zookeeper":
        looked_at = [trip.count("Exists") for trip in renewals[1:-1]]
        assert len(looked_at) >= 5
        assert max(looked_at) <= ceil(len(ITEMS) / 7) + 1, "and the membership"
        assert min(looked_at) >= len(ITEMS) // 7
    else:
        assert renewals == []
