"""The numbers of batches are added up, and the tables say what was found."""

from __future__ import annotations

from typing import Any

from integration.chaos.summary import markdown, merged


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


def test_the_tables_say_what_was_found() -> None:
    counted = {"acknowledged": 100, "lost": 0}
    jepsen = {
        "registers": {"fenced": counted, "asked": counted, "unfenced": {"acknowledged": 200, "lost": 50}}
    }
    tables = markdown({**merged([batch("etcd-3.5", 0), batch("zookeeper", 0)]), "jepsen": jepsen})
    assert "| etcd-3.5 | 3.5.1 | 10 | 3 | 1 200 | 5 000 | 0 | 0 |" in tables
    assert "| pause | 4 | 4 | 8 |" in tables
    assert "| no gate, and not asked | 104 | 14 |" in tables
    assert "| no gate, and not asked | 200 | 50 | 25.0 % |" in tables
    assert "| published |" in tables
