"""The short gate: some thousand schedules of each store, and the planted bugs that die early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.__main__ import STORES, shrink
from tests.simulation.faults import KINDS
from tests.simulation.mutants import MUTANTS, kill
from tests.simulation.run import Schedule, run
from tests.simulation.sweep import sweep

ROOT = Path(__file__).parents[2]
GATE = 10_060  # schedules of each store
COUNTED = 20_000  # that are long and hard enough, and differ, of both
EARLY = 1_000
SLOW = {
    "a deletion told by a dying session grants",
    "deadline counted from the reply",
    "deadline without margin",
    "a late renewal revives",
    "missed renewals count",
    "grants without asking the clock",
    "the last answered renewal counts",
    "the cleaner tries once",
    "a removed contender goes unnoticed",
    "withdraws without sync",
}


def simulated(*options: str) -> list[dict[str, Any]]:
    """Run the simulation in processes of its own, untraced: what a tracer costs is not what is tested."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-m", "tests.simulation", "--json", *options]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.timeout(600)
def test_no_schedule_breaks_a_promise() -> None:
    tallies = simulated("--count", str(GATE))
    assert [tally["store"] for tally in tallies] == list(STORES)
    for tally in tallies:
        assert tally["violations"] == []
        assert tally["schedules"] == GATE
        assert tally["grants"] > 8 * GATE
        assert all(count > GATE / 20 for count in tally["faults"].values())
    assert sum(tally["counted"] for tally in tallies) >= COUNTED


@pytest.mark.parametrize("store", STORES)
def test_one_fault_at_every_request_breaks_no_promise(store: str) -> None:
    swept = sweep(store, 1, enough=0)
    assert swept.violations == []
    assert swept.requests > 30
    assert set(swept.struck) == set(KINDS[store])
    assert all(count > swept.requests / 2 for count in swept.struck.values())


@pytest.mark.parametrize("store", STORES)
def test_a_seed_replays_exactly(store: str) -> None:
    first, again = (run(Schedule(store, 7, trace=True)) for _ in range(2))
    assert first.trace == again.trace
    assert (first.requests, first.steps, first.grants) == (again.requests, again.steps, again.grants)
    assert first.trace


@pytest.mark.parametrize(
    ("mutant", "store"),
    [
        pytest.param(mutant, store, id=f"{store}-{mutant.name}")
        for mutant in MUTANTS
        for store in mutant.stores
        if mutant.name not in SLOW
    ],
)
def test_a_planted_bug_is_found(mutant: object, store: str) -> None:
    verdict = kill(mutant, store, EARLY)  # type: ignore[arg-type]
    assert verdict is not None, "this bug went unnoticed"


def test_a_violation_is_shown_in_a_short_trace() -> None:
    from tests.simulation.mutants import planted

    herd = next(mutant for mutant in MUTANTS if mutant.name == "no look again after waking")
    with planted(herd):
        found = shrink("etcd", "S2: somebody", tries=200)
    assert found is not None
    assert found.violation is not None
    assert found.violation.startswith("S2")
    assert 0 < len(found.trace) < 120
