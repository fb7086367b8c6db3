"""Every order of messages and every place for a fault, within bounds: nothing is left to chance."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.simulation.exhaustive import QUICK, Bound, Found, explore, replay
from tests.simulation.mutants import MUTANTS, Mutant, planted
from tests.simulation.test_simulation import untraced

STORES = ("etcd", "zookeeper")
#: What exhaustion alone finds, without a fault or with one, among two clients or three.
FOUND = {
    "no look again after waking": Bound("lock", "LLL"),
    "a release is only said": Bound("lock", "LL"),
    "what was released is still held": Bound("lock", "LL"),
    "what is deleted before the watch is missed": Bound("lock", "LL"),
    "what is deleted between look and watch is missed": Bound("lock", "LL"),
    "one ahead counts as none": Bound("lock", "LL"),
    "creates again without looking": Bound("lock", "LL", 1),
    "a node that is gone counts as watched": Bound("lock", "LL"),
    "a downgrade asked twice finds itself gone": Bound("rwlock", "DR", 1, 0, 1),
    "an update compares nothing": Bound("counter", "AA"),
    "a receipt says nothing": Bound("counter", "AA", 1, 0, 0),
    "what another write has read is not looked at": Bound("value", "SS", 1, 0, 1, together=True),
}
MISTAKES = [(mutant, store) for mutant in MUTANTS if mutant.name in FOUND for store in mutant.stores]


@pytest.mark.timeout(1800)
def test_no_choice_breaks_a_promise() -> None:
    lines = untraced("-m", "tests.simulation", "--exhaustive", "--quick", "--json")
    searched = list(map(json.loads, lines))
    assert len(searched) == len(QUICK) * len(STORES)
    assert [found for found in searched if found["violation"] or not found["exhausted"]] == []
    assert all(found["states"] > 8 for found in searched)
    assert sum(found["schedules"] for found in searched) > 9_000


def test_a_search_ends_where_it_is_told_to_and_says_so() -> None:
    found = explore("etcd", Bound("lock", "LLL"), most=10)
    assert (found.schedules, found.exhausted, found.violation) == (10, False, None)
    assert "NOT exhausted" in found.line()


def test_orders_that_nobody_can_tell_apart_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    few = explore("etcd", Bound("lock", "LL"))
    monkeypatch.setattr("tests.simulation.explored.ExploredEtcd.is_alone", lambda self, one: False)
    many = explore("etcd", Bound("lock", "LL"))
    assert few.exhausted
    assert many.exhausted
    assert many.schedules > 3 * few.schedules
    assert few.violation is many.violation is None


@pytest.mark.parametrize(
    ("mutant", "store"), [pytest.param(*one, id=f"{one[1]}-{one[0].name}") for one in MISTAKES]
)
def test_exhaustion_alone_finds_a_planted_bug(mutant: Mutant, store: str) -> None:
    with planted(mutant):
        found: Found = explore(store, FOUND[mutant.name])
        assert found.violation is not None
        trace: list[Any] = replay(found)
    assert found.violation in trace[-1]
