"""What a queue, a group and a client cost grows no faster than it may, and a herd would be noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recipes._contract.contenders import Contender
from recipes._rules import exclusive
from tests.docs.pages import ROOT
from tests.simulation import scale

SMALL = (200, 400)
"""With fewer that join at once some watches of etcd begin beside no other write, and cost a request less."""
KEPT = ROOT / "docs/proof/scale.json"


@pytest.mark.parametrize(
    ("case", "store"),
    [(case, store) for case, (_, stores) in scale.CASES.items() for store in stores if store != "memory"],
)
def test_nothing_grows_faster_than_it_may(case: str, store: str) -> None:
    rows = scale.measured(case, store, SMALL)
    assert scale.refused(rows) == []
    assert {"requests", "events", scale.CARRIED} <= {row["what"] for row in rows}


def test_memory_grows_with_the_locks_of_a_client() -> None:
    rows = [
        row for row in scale.measured("locks in memory", "memory", (100, 400)) if row["what"] == scale.MEMORY
    ]
    assert len(rows) == 1
    assert 0.5 < rows[0]["exponent"] < scale.IN_ALL


def test_a_herd_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_ahead(_: object, ahead: tuple[Contender, ...]) -> tuple[Contender, ...]:
        return ahead

    monkeypatch.setattr(type(exclusive.EXCLUSIVE), "blockers", all_ahead)
    found = scale.refused(scale.measured("queue", "zookeeper", (20, 40, 80)))
    assert any("hand over: events" in one for one in found), found


def test_the_exponent_is_that_of_the_power() -> None:
    for power in (0, 1, 1.5, 2):
        points = [(size, 3.0 * size**power) for size in (10, 100, 1000)]
        assert scale.exponent(points) == pytest.approx(power)
    assert scale.exponent([(10, 0.0), (100, 0.0)]) == 0
    assert scale.exponent([(10, 5.0), (100, 0.0)]) == 0


def test_what_is_known_to_grow_is_not_refused_and_all_else_is() -> None:
    row = {"case": "queue", "store": "etcd", "phase": "join", "what": scale.SERVER, "exponent": 2.0}
    assert scale.refused([row]) == []
    assert scale.refused([{**row, "what": "requests"}]) == ["queue on etcd: join: requests grow by n^2.0"]
    assert scale.refused([{**row, "what": scale.MEMORY, "exponent": 1.1}]) == []


def test_rows_of_other_cases_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "scale.json"
    row = {"store": "etcd", "phase": "join", "what": "requests", "points": [[10, 40.0]], "exponent": 1.0}
    scale.keep(path, [{**row, "case": "group"}])
    scale.keep(path, [{**row, "case": "queue", "points": [[10, 30.0]]}])
    scale.keep(path, [{**row, "case": "group", "points": [[10, 20.0]]}])
    kept = json.loads(path.read_text())
    assert [(one["case"], one["points"]) for one in kept] == [
        ("queue", [[10, 30.0]]),
        ("group", [[10, 20.0]]),
    ]
    assert "| group | etcd | join | 10 | requests | 2.00 | n^1.00 |" in scale.table(kept)


@pytest.mark.skipif(not KEPT.exists(), reason="nothing is kept yet")
def test_what_is_kept_grows_no_faster_than_it_may() -> None:
    assert scale.refused(json.loads(KEPT.read_text())) == []
