"""Plant each known bug, and say what notices it: ``nox -s mutants``.

Without more it looks for each until it is found: by schedule after schedule of the simulation,
or by the tests of a driver or transport. ``--default`` lets the default test run alone look for it.
``--out`` keeps the table, ``--table`` prints what was kept as Markdown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutants.planting import CASES, VARIABLE, Case, case_named, in_the_package
from tests.simulation.__main__ import CHUNK
from tests.simulation.exhaustive import QUICK, explore
from tests.simulation.mutants import Mutant, kill
from tests.simulation.quick import collect, hurry
from tests.simulation.run import Schedule, run

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs/proof/mutants.json"
SAMPLE = 2_000
"""With how many of its schedules the default run is stood for; it runs more."""
EARLY = 200
AIMED = (*range(40), *range(860, 900))  # those of tests/simulation/test_clocks.py
UNIT = {
    "predicate": ("tests/core",),
    "program": ("tests/core",),
    "session clock": ("tests/core",),
    "cleaner": ("tests/core", "tests/run/test_runtime.py"),
    "etcd protocol": ("tests/stores/test_etcd_protocol.py",),
    "ZooKeeper protocol": ("tests/stores/test_zookeeper_protocol.py",),
    "read-write predicate": ("tests/core",),
    "read-write program": ("tests/core",),
    "holders that hang": ("tests/core",),
    "re-entrance": ("tests/core",),
}


@dataclass(slots=True)
class Fate:
    """What became of one mutant on one store: ``by`` is what noticed it, or empty."""

    name: str
    where: str
    store: str
    by: str
    said: str
    seconds: float

    def line(self) -> str:
        """Return it in one line."""
        found = f"killed by {self.by}: {self.said}" if self.by else "SURVIVES"
        return f"{self.store:9}  {self.where}: {self.name}: {found}  ({self.seconds:.1f} s)"


def fate(task: tuple[str, bool]) -> Fate:
    """Look for one bug, in a process of its own."""
    case, default = case_named(task[0]), task[1]
    began = time.process_time()
    hurry()
    said_by = ((by, said) for by, said in _lookers(case, default=default) if said)
    by, said = next(said_by, ("", ""))
    mutant = case.mutant
    return Fate(mutant.name, mutant.where, case.store, by, said, round(time.process_time() - began, 1))


def _lookers(case: Case, *, default: bool) -> Iterator[tuple[str, str]]:
    """Go through what may notice it: by what, and what that said if it did."""
    mutant = case.mutant
    if not isinstance(mutant, Mutant):
        yield "unit tests", _unit(case, (mutant.tests,))
    elif not default:
        yield _schedules(mutant, case.store)
    else:
        with in_the_package(case):
            yield "simulation", _sample(case.store, range(EARLY))
            yield "exhaustion", _exhaustion(case.store)
            yield "simulation", _sample(case.store, range(EARLY, SAMPLE))
        yield "unit tests", _unit(case, UNIT[mutant.where])


def _schedules(mutant: Mutant, store: str) -> tuple[str, str]:
    for first in range(0, mutant.within, CHUNK):
        verdict = kill(mutant, store, min(CHUNK, mutant.within - first), first)
        collect()
        if verdict is not None:
            which = f"{mutant.flavour} schedule" if mutant.flavour else "schedule"
            return f"{which} {verdict.schedule.seed + 1}", str(verdict.violation)
    return f"{mutant.within} schedules", ""


def _exhaustion(store: str) -> str:
    for bound in QUICK:
        found = explore(store, bound)
        if found.violation is not None:
            return f"{bound.clients}: {found.violation}"
    return ""


def _sample(store: str, seeds: range) -> str:
    """Run what the default run runs, but fewer."""
    sample = [Schedule(store, seed) for seed in seeds]
    sample += [Schedule(store, seed, flavour="aimed") for seed in AIMED if seeds.start]
    for at, schedule in enumerate(sample):
        verdict = run(schedule)
        if at % CHUNK == 0:
            collect()
        if verdict.violation is not None:
            return f"seed {schedule.seed}: {verdict.violation}"
    return ""


def _unit(case: Case, files: tuple[str, ...]) -> str:
    """Run unit tests with the bug in place; returns the first that failed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-x", "--no-header", "--tb=no"]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("COVERAGE_")}
    try:
        done = subprocess.run(
            [*command, *files],
            cwd=ROOT,
            env={**inherited, VARIABLE: case.id},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    except subprocess.TimeoutExpired:
        return "a test that never ends"
    lines = done.stdout.splitlines()
    failed = next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "")
    return (failed or f"exit {done.returncode}").partition(" - ")[0] if done.returncode else ""


def main(argv: list[str] | None = None) -> int:
    """Run what the command line says; 1 if a bug survives, or by default more than a quarter."""
    parser = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    parser.add_argument("--default", action="store_true", help="what the default run alone notices")
    parser.add_argument("--only", default="", help="those with these words in their names")
    parser.add_argument("--store", choices=("etcd", "zookeeper", "both"), default="both")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", action="store_true", help=f"keep the table in {KEPT.relative_to(ROOT)}")
    parser.add_argument("--table", action="store_true", help="print what was kept, as Markdown")
    options = parser.parse_args(argv)
    if options.table:
        print(table())
        return 0
    ids = [
        case.id
        for case in CASES
        if options.only in case.mutant.name and options.store in ("both", case.store or options.store)
    ]
    tasks = [(one, options.default) for one in ids]
    fates = []
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        for found in pool.map(fate, tasks):
            fates.append(found)
            print(found.line(), flush=True)
            if options.out:
                keep("default" if options.default else "all", fates)
    killed = sum(bool(found.by) for found in fates)
    print(f"{killed} of {len(fates)} mutants were killed, {len(fates) - killed} survive")
    return int(killed < len(fates) * (0.75 if options.default else 1))


def keep(run_of: str, fates: list[Fate]) -> None:
    """Write what was found, beside what another run found."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    kept[run_of] = {"commit": commit.stdout.strip(), "mutants": [asdict(found) for found in fates]}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")


def table() -> str:
    """Return what was kept: for each part of the package how many bugs there are, and what noticed them."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    rows = ["| part | planted | killed | killed by the default run |", "|---|---|---|---|"]
    runs = {
        name: {(one["name"], one["where"], one["store"]): bool(one["by"]) for one in found["mutants"]}
        for name, found in kept.items()
    }
    rows += [
        _row(where, [_key(case) for case in CASES if case.mutant.where == where], runs)
        for where in dict.fromkeys(case.mutant.where for case in CASES)
    ]
    rows.append(_row("**all**", [_key(case) for case in CASES], runs))
    return "\n".join(rows)


def _key(case: Case) -> tuple[str, str, str]:
    return case.mutant.name, case.mutant.where, case.store


def _row(
    where: str, keys: list[tuple[str, str, str]], runs: dict[str, dict[tuple[str, str, str], bool]]
) -> str:
    cells = []
    for name in ("all", "default"):
        looked = [runs[name][key] for key in keys if key in runs.get(name, {})]
        part = f"{sum(looked)}" if len(looked) == len(keys) else f"{sum(looked)} of {len(looked)} run"
        cells.append(part if looked else "not run")
    return f"| {where} | {len(keys)} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
