"""The numbers of batches are added up, and the tables say what was found."""

from __future__ import annotations

import json
from typing import Any

from integration.chaos.summary import KEPT, failed, markdown, measured, merged


def batch(store: str, first: int, **other: Any) -> dict[str, Any]:
    return {
        "store": store,
        "version": "3.5.1",
        "commit": "abc",
        "seed": "s",
        "first": first,
        "runs": 10,
        "three at once": 3,
        "seconds": 70,
        "grants": 1200,
        "violations": [],
        "leaked": 0,
        "faults": {"pause": 4, "kill": 1},
        "figures": {"operations": 5000},
        "pause runs": {
            "runs": 4,
            "fenced: acknowledged": 50,
            "unfenced: acknowledged": 52,
            "unfenced: lost": 7,
        },
        **other,
    }


def test_batches_are_added_up() -> None:
    together = merged(
        [batch("etcd-3.5", 0), batch("etcd-3.5", 10, violations=["x"]), batch("zookeeper", 0, leaked=2)]
    )
    assert (together["runs"], together["grants"], together["violations"], together["leaked"]) == (
        30,
        3600,
        1,
        2,
    )
    assert together["stores"]["etcd-3.5"]["runs"] == 20
    assert together["faults"] == {"kill": 3, "pause": 12}
    assert together["pause runs"]["unfenced: lost"] == 21


def jepsen(seed: str, lost: int, **other: Any) -> dict[str, Any]:
    counted = {"acknowledged": 100, "lost": 0}
    unfenced = {"acknowledged": 200, "lost": lost}
    return {
        "store": "etcd-3.4",
        "version": "3.4.23",
        "commit": "abc",
        "seed": seed,
        "groups": 6,
        "seconds": 60.0,
        "pauses": 24,
        "grants": 1700,
        "violations": [],
        "registers": {"fenced": counted, "asked": counted, "unfenced": unfenced},
        **other,
    }


def test_the_tables_say_what_was_found() -> None:
    shape = measured([jepsen("2", 50), jepsen("1", 20)])
    tables = markdown({**merged([batch("etcd-3.5", 0), batch("zookeeper", 0)]), "jepsen": shape})
    assert "Of commit `abc`" in tables
    assert "| etcd-3.5 | 3.5.1 | 10 | 3 | 1,200 | 5,000 | 0 | 0 |" in tables
    assert "| pause | 4 | 4 | 8 |" in tables
    assert "| no gate, and not asked | 104 | 14 |" in tables
    assert "Measurements: 2 of 60 s, on 6 locks beside each other;\n3,400 grants, 0 violations" in tables
    assert "| no gate, and not asked | 400 | 70 | 17.5 % | 10.0, 25.0 |" in tables
    assert "| behind a gate that compares tokens | 200 | 0 | 0.0 % | 0.0, 0.0 |" in tables
    assert "| published |" in tables


def test_what_proves_nothing_is_told() -> None:
    good = merged([batch("etcd-3.5", 0)])
    assert failed(good) == []
    assert failed({**good, "violations": 1}) == ["there are violations"]
    assert failed({**good, "leaked": 1}) == ["contenders were left"]
    assert failed({**good, "pause runs": {"fenced: lost": 1}}) == [
        "an update was lost behind the gate",
        "the register without a gate lost nothing",
    ]
    assert failed({**good, "jepsen": measured([jepsen("1", 9, violations=["x"])])}) == [
        "there are violations in Jepsen's shape"
    ]


def test_what_is_kept_is_enough_and_shown_as_it_is() -> None:
    kept = json.loads(KEPT.read_text())
    assert failed(kept) == []
    halves = {
        name: sum(one["runs"] for store, one in kept["stores"].items() if store.startswith(name))
        for name in ("etcd", "zookeeper")
    }
    assert kept["runs"] >= 500
    assert min(halves.values()) >= 250
    assert kept["grants"] >= 100_000
    assert len(kept["jepsen"]["runs"]) >= 3
    assert kept["table"] == markdown(kept)
