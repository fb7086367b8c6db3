"""The measurements themselves, in small: every scenario runs, and what it says can be judged and written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import figures
from bench.bars import BARS, Bar, judged
from bench.kinds import KINDS
from bench.report import kept, write
from bench.scenarios import SCENARIOS
from bench.scenarios.parts import handed_in_parts
from bench.stage import Stage, Turn
from bench.tables import Plan, Table

pytestmark = pytest.mark.measured

SMALL = Plan(rounds=2, scale=0.02, most=2)
FEW = {
    *("recipes-zookeeper", "recipes-etcd", "recipes-redis", "recipes-postgres", "recipes-mariadb"),
    *("recipes-memcached", "floor-memcached"),
    *("kazoo", "redis-py", "pg-advisory", "floor-zookeeper", "floor-etcd"),
    *("floor-grpc", "floor-redis", "floor-postgres"),
}
"""One of each sort; what else there is needs more than the tests install."""
ASYNCIO = {
    *("recipes-etcd-asyncio", "recipes-redis-asyncio", "redis-py-asyncio"),
    *("recipes-postgres-asyncio", "recipes-mariadb-asyncio"),
}


@pytest.fixture(params=["blocking", pytest.param("asyncio too", marks=pytest.mark.long)])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with Stage(only=FEW if request.param == "blocking" else FEW | ASYNCIO) as one:
        yield one


@pytest.mark.timeout(900)
def test_every_scenario_runs(stage: Stage, tmp_path: Path) -> None:
    tables = {table.name: table for run in SCENARIOS.values() for table in run(stage, SMALL)}
    assert all(row.figures for table in tables.values() for row in table.rows)
    assert not stage.missing
    wanted = {bar.figure for bar in BARS} | {bar.over for bar in BARS if bar.over is not None}
    assert {table for table, _, _ in wanted} <= set(tables)
    here = [one for one in judged(tables) if one.found is not None]
    assert {one.bar.figure[0] for one in here} >= {
        "alone",
        "handover-2",
        "churn",
        "footprint",
        "idle",
        "importing",
        "sql-alone",
    }
    page = write(tmp_path, tables, {"servers": stage.versions()}, {"curator": "not asked for"})
    assert "NOT MEASURED: Curator" in page.read_text()
    found = json.loads((tmp_path / "results.json").read_text())["tables"]
    assert {name: Table.from_json(name, one) for name, one in found.items()} == tables


def test_a_run_goes_on_beside_what_an_earlier_one_found(tmp_path: Path) -> None:
    table = Table("alone", "Alone", notes=["so it is"])
    table.add("recipes-zookeeper", **{"p50 us": 40})
    earlier = {"commit": "abc", "rounds": 4, "load before": "0.1", "servers": {"zookeeper": "3.8.0"}}
    write(tmp_path, {"alone": table}, earlier, {})
    run: dict[str, Any] = {"commit": "def"}
    assert kept(tmp_path, run) == {"alone": table}
    assert run == {
        "commit": "def",
        "servers": {"zookeeper": "3.8.0"},
        "other tables": "commit abc, rounds 4, load before 0.1",
    }
    write(tmp_path, {"alone": table}, run | {"rounds": 2, "load before": "0.2"}, {})
    again: dict[str, Any] = {}
    kept(tmp_path, again)
    others = "commit def, rounds 2, load before 0.2; commit abc, rounds 4, load before 0.1"
    assert again["other tables"] == others


def test_where_no_run_is_kept_there_are_no_other_tables(tmp_path: Path) -> None:
    run: dict[str, Any] = {"commit": "def"}
    assert kept(tmp_path, run) == {}
    assert run == {"commit": "def"}


def turn(*spans: list[tuple[int, int]], end: int = 1000) -> Turn:
    return Turn(list(spans), 0, end, 0.0, 0.0)


def test_handovers_are_between_contenders_while_all_contend() -> None:
    spans = turn([(10, 20), (50, 60), (61, 70)], [(25, 30), (100, 110), (2000, 2001)])
    assert figures.handovers(spans) == [20, 30]  # of 30 -> 50 and 70 -> 100; not before all came
    assert figures.handed(spans) == [5, 20, 30]
    assert figures.spacing(spans) == [(100 - 25) / 3]
    assert figures.handovers(turn([], [])) == []


def test_the_longest_wait_is_measured_against_a_fair_one() -> None:
    ms = 1_000_000
    one, other = [(0, 10 * ms), (20 * ms, 30 * ms), (60 * ms, 80 * ms)], [(30 * ms, 60 * ms)]
    found = figures.fairness([turn(one, other, end=70 * ms)])
    assert found == {
        "longest wait ms": 30.0,  # of both: from 30 to 60, and from 0 to 30
        "fair wait ms": 40.0,  # 2 contenders, 4 grants in 80 ms
        "longest/fair": 0.75,
        "poorest/richest": 0.33,
        "grants": 4,
    }
    assert figures.fairness([turn([(0, ms)], [], end=ms)])["longest wait ms"] == 1.0  # the second got none


def test_two_that_hold_at_once_are_no_figure() -> None:
    with pytest.raises(AssertionError, match="at once"):
        figures.handovers(turn([(10, 20)], [(15, 30)]))


def test_percentiles() -> None:
    found = figures.summary([3000, 1000, 2000])
    assert found is not None
    assert (found.count, found.p50, found.p90, found.mean) == (3, 2.0, 2.8, 2.0)
    assert figures.summary([]) is None


@pytest.mark.parametrize(
    ("mine", "theirs", "verdict"),
    [(40, 100, "stretch"), (50, 100, "met"), (51, 100, "missed"), (40, None, "not measured")],
)
def test_a_bar_is_judged(mine: int, theirs: int | None, verdict: str) -> None:
    table = Table("alone", "")
    table.add("recipes-zookeeper", **{"p50 us": mine})
    table.add("kazoo", **{"p50 us": theirs})
    table.add("floor-zookeeper", **{"p50 us": 30})
    (one,) = [one for one in judged({"alone": table}) if "uncontended, vs kazoo" in one.bar.words]
    assert one.verdict == verdict
    assert one.floor == (None if theirs is None else 0.3)
    more = Bar("", ("alone", "recipes-zookeeper", "p50 us"), None, 40, least=True)
    assert more.least


def test_every_kind_is_told_apart() -> None:
    assert len({(kind.store, kind.label) for kind in KINDS.values()}) == len(KINDS)


def test_a_handover_is_cut_into_its_parts() -> None:
    giver = [(10, "release"), (12, "asked"), (30, "answered"), (31, "asked")]
    taker = [(5, "asked"), (8, "answered"), (20, "told"), (23, "asked"), (28, "answered"), (29, "got")]
    assert handed_in_parts([giver, taker]) == [[2, 8, 3, 5, 1]]
    without_proof = [one for one in taker if one[0] not in (23, 28)]
    assert handed_in_parts([giver, without_proof]) == [[2, 8, 9, 0, 0]]
    assert handed_in_parts([[*giver, (40, "got")]]) == []  # to itself
    assert (
        handed_in_parts([giver, [(5, "asked"), (29, "got")]]) == []
    )  # it came just then, and was notified of nothing
