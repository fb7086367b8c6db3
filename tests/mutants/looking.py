"""Looks for one planted bug, and says what noticed it first."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.asking import PYTEST, used
from tests.mutants.planting import VARIABLE, Case, case_named, in_the_package
from tests.simulation.exhaustive import QUICK, explore
from tests.simulation.explored import STORES as EXPLORED
from tests.simulation.gates import by_default
from tests.simulation.mutants import Mutant, kill
from tests.simulation.quick import collect, hurry
from tests.simulation.run import Schedule, run

__all__ = ["LONG", "ROOT", "Fate", "fate", "sample"]

ROOT = Path(__file__).parents[2]
LONG = "a long simulation"
"""What is not part of the default run."""
CHUNK = 100
MOST = 2_000
"""With how many schedules the default run is stood for, where it has more."""
EARLY = 200
AIMED = (*range(40), *range(860, 900))  # those of tests/simulation/test_clocks.py
TRIES = 3
UNIT = {
    "predicate": ("tests/programs", "tests/rules"),
    "program": ("tests/programs", "tests/rules"),
    "session clock": ("tests/programs", "tests/rules"),
    "cleaner": ("tests/programs", "tests/rules", "tests/run/test_runtime.py"),
    "etcd protocol": ("tests/stores/test_etcd_protocol.py",),
    "ZooKeeper protocol": ("tests/stores/test_zookeeper_protocol.py",),
    "read-write predicate": ("tests/programs", "tests/rules"),
    "read-write program": ("tests/programs", "tests/rules"),
    "holders that hang": ("tests/programs", "tests/rules"),
    "re-entrance": ("tests/programs", "tests/rules"),
    "what contenders say": ("tests/programs", "tests/stores/test_etcd_protocol.py"),
    "observing": ("tests/programs", "tests/run", "tests/stores/test_zookeeper_protocol.py"),
    "election": ("tests/programs",),
    "group": ("tests/programs", "tests/rules"),
    "partitions": ("tests/programs", "tests/test_partitions.py"),
    "multi-lock": ("tests/programs",),
    "barrier": ("tests/programs", "tests/rules"),
    "handing on in process": ("tests/programs", "tests/run/test_leased_contenders.py"),
    "guarding": ("tests/test_guards.py", "tests/programs"),
    "values": (
        *("tests/programs/test_values.py", "tests/programs/test_rewriting.py"),
        *("tests/stores/test_etcd_protocol_values.py", "tests/stores/test_zookeeper_values.py"),
    ),
    "receipts": ("tests/stores/test_receipts.py", "tests/stores/test_receipts_by_hand.py"),
    "doubt, and what was given up": (
        *("tests/stores/test_etcd_protocol.py", "tests/stores/test_zookeeper_protocol.py"),
        "tests/stores/etcd/test_given_up.py",
    ),
    "script of Redis": ("tests/stores/test_redis_protocol.py", "tests/stores/redis"),
    "Redis protocol": ("tests/stores/test_redis_protocol.py", "tests/stores/redis"),
    "bell and servers of Redis": ("tests/stores/redis",),
    "SQL acts": ("tests/stores/test_sql_acts.py",),
    "SQL protocol": ("tests/stores/test_sql_protocol.py",),
    "SQL statements": ("tests/stores/test_sql_statements.py", "tests/stores/test_sql_acts.py"),
    "what a database does": ("tests/stores/test_sql_acts.py", "tests/stores/sql"),
    "cell protocol": ("tests/stores/test_cell_protocol.py",),
    "acts on cells": ("tests/stores/test_redlock_acts.py", "tests/stores/test_memcached_acts.py"),
}


@dataclass(slots=True)
class Fate:
    """What became of one mutant on one store: ``by`` is what noticed it first, or empty."""

    name: str
    where: str
    store: str
    by: str
    said: str
    seconds: float

    @property
    def early(self) -> bool:
        """Tell whether the default run alone notices it."""
        return self.by not in ("", LONG)

    def line(self) -> str:
        """Return it in one line."""
        found = f"killed by {self.by}: {self.said}" if self.by else "SURVIVES"
        return f"{self.store:9}  {self.where}: {self.name}: {found}  ({self.seconds:.1f} s)"


def fate(name: str, *, default: bool) -> Fate:
    """Look for one bug, in a process of its own: as the default run does, then for longer."""
    case = case_named(name)
    began = used()
    hurry()
    said_by = ((by, said) for by, said in _lookers(case, default=default) if said)
    by, said = next(said_by, ("", ""))
    mutant = case.mutant
    return Fate(mutant.name, mutant.where, case.store, by, said, round(used() - began, 1))


def _lookers(case: Case, *, default: bool) -> Iterator[tuple[str, str]]:
    """Go through what may notice it: by what, and what that said if it did."""
    mutant = case.mutant
    if not isinstance(mutant, Mutant):
        yield "unit tests", _unit(case, (mutant.tests,))
        return
    count = min(by_default(case.store, mutant.of), MOST)
    with in_the_package(case):
        yield "simulation", sample(case.store, mutant.of, range(min(EARLY, count)))
        if mutant.of == "locks" and case.store in EXPLORED:
            yield "exhaustion", _exhaustion(case.store)
    yield "unit tests", _unit(case, UNIT[mutant.where])
    with in_the_package(case):
        yield "simulation", sample(case.store, mutant.of, range(EARLY, count))
    if not default:
        yield LONG, _schedules(mutant, case.store)


def _schedules(mutant: Mutant, store: str) -> str:
    """Run schedules of the kind in which this bug shows."""
    near = mutant.near if store == "zookeeper" else 0
    for first in (*range(near, mutant.within, CHUNK), *range(0, near, CHUNK)):
        verdict = kill(mutant, store, min(CHUNK, mutant.within - first), first)
        collect()
        if verdict is not None:
            return f"{mutant.flavour} schedule {verdict.schedule.seed + 1}: {verdict.violation}".lstrip()
    return ""


def _exhaustion(store: str) -> str:
    for bound in QUICK:
        found = explore(store, bound)
        if found.violation is not None:
            return f"{bound.clients}: {found.violation}"
    return ""


def sample(store: str, of: str, seeds: range) -> str:
    """Run what the default run runs, but fewer."""
    chosen = [Schedule(store, seed, flavour="aimed") for seed in AIMED if seeds.start and of == "locks"]
    chosen += [Schedule(store, seed, of=of) for seed in seeds]
    for at, schedule in enumerate(chosen):
        verdict = run(schedule)
        if at % CHUNK == 0:
            collect()
        if verdict.violation is not None:
            return f"seed {schedule.seed}: {verdict.violation}"
    return ""


def _unit(case: Case, tests: tuple[str, ...]) -> str:
    """Return the first test that fails with the bug in place, again when asked again, and not without it."""
    chance: list[str] = []
    while failed := _failing(case.id, *tests, *(f"--deselect={one}" for one in chance)):
        if _failing(case.id, failed) and not _failing("", failed):
            return failed
        chance.append(failed)
        if len(chance) == TRIES:
            raise AssertionError(f"these fail without a planted bug: {', '.join(chance)}")
    return ""


def _failing(mutant: str, *tests: str) -> str:
    """Run tests until one fails, and return it; empty: none did."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    environment = {**inherited, VARIABLE: mutant}
    command = [sys.executable, "-m", "pytest", *PYTEST, *tests]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode == 0:
        return ""
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode != 1 or not failed:
        raise AssertionError(f"these tests did not run: {tests}\n{done.stdout}{done.stderr}")
    return failed[0].partition(" ")[2].partition(" - ")[0]
