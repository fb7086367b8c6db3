"""Run schedules: ``python -m tests.simulation --store etcd --count 10000 --jobs 2``.

``--seed N`` runs one schedule and shows its trace, step by step, exactly as it was. A
violation is looked for again in smaller scenes, and the shortest trace is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.simulation import bulk
from tests.simulation.exhaustive import ALL, QUICK, replay, search
from tests.simulation.explored import STORES as EXPLORED
from tests.simulation.quick import collect, hurried
from tests.simulation.run import USES, Schedule, Verdict, run
from tests.simulation.sweep import sweep

STORES = ("etcd", "zookeeper", "redis", "sql", "sql-polling", "cell")
FOR_CELLS = ("locks", "mixed")
"""What users of a cell store can do; the mixture is of plain locks alone there."""
CHUNK = 100
SMALLER = [(clients, rounds) for clients in (2, 3) for rounds in (1, 2)]


@dataclass(slots=True)
class Tally:
    """What a number of schedules came to."""

    store: str
    schedules: int = 0
    counted: int = 0
    requests: int = 0
    grants: int = 0
    handed_on: int = 0
    observed: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    fingerprints: set[int] = field(default_factory=set)
    violations: list[tuple[int, str]] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        self.schedules += 1
        self.requests += verdict.requests
        self.grants += verdict.grants
        self.handed_on += verdict.handed_on
        self.observed += verdict.observed
        self.faults.update(verdict.faults)
        if verdict.counts and verdict.fingerprint not in self.fingerprints:
            self.fingerprints.add(verdict.fingerprint)
            self.counted += 1
        if verdict.violation is not None:
            self.violations.append((verdict.schedule.seed, verdict.violation))

    def merge(self, other: Tally) -> None:
        self.schedules += other.schedules
        self.requests += other.requests
        self.grants += other.grants
        self.handed_on += other.handed_on
        self.observed += other.observed
        self.faults.update(other.faults)
        self.counted += len(other.fingerprints - self.fingerprints)
        self.fingerprints |= other.fingerprints
        self.violations += other.violations

    def numbers(self) -> dict[str, object]:
        """Return what another program wants to know."""
        return {
            "store": self.store,
            "schedules": self.schedules,
            "counted": self.counted,
            "requests": self.requests,
            "grants": self.grants,
            "handed_on": self.handed_on,
            "observed": self.observed,
            "faults": self.faults,
            "violations": self.violations,
        }

    def lines(self, seconds: float) -> list[str]:
        rate = self.counted / seconds if seconds else 0.0
        many = f"{self.store}: {self.schedules} schedules, {self.counted} of them counted and new"
        sums = f"  {self.requests} requests, {self.grants} grants, {self.handed_on} of them in process"
        struck = f"{sum(self.faults.values())} faults"
        return [
            f"{many}, {len(self.violations)} violations",
            f"{sums}, {struck} in {seconds:.0f} s ({rate:.0f} counted schedules a second)",
            "  " + ", ".join(f"{name} {count}" for name, count in self.faults.most_common()),
        ]


def chunk(store: str, first: int, count: int, of: str = "locks") -> Tally:
    """Run some schedules, in a process of their own."""
    tally = Tally(store)
    for seed in range(first, first + count):
        tally.add(run(Schedule(store, seed, of=of)))
    collect()
    return tally


def many(store: str, first: int, count: int, jobs: int, of: str) -> Tally:
    """Run schedules on several cores."""
    tally = Tally(store)
    with hurried(jobs) as pool:
        parts = [
            pool.submit(chunk, store, at, min(CHUNK, first + count - at), of)
            for at in range(first, first + count, CHUNK)
        ]
        for part in parts:
            tally.merge(part.result())
    return tally


def shrink(store: str, words: str, tries: int = 300, of: str = "locks") -> Verdict | None:
    """Look for the same kind of violation in smaller scenes; returns the shortest."""
    best: Verdict | None = None
    kind = words.split(":", maxsplit=1)[0]
    for clients, rounds in SMALLER:
        for seed in range(tries):
            verdict = run(Schedule(store, seed, clients=clients, rounds=rounds, of=of))
            same = verdict.violation is not None and verdict.violation.startswith(kind)
            if same and (best is None or verdict.steps < best.steps):
                best = verdict
        if best is not None:
            break
    if best is None:
        return None
    again = best.schedule
    again.trace = True
    return run(again)


def show(verdict: Verdict) -> None:
    """Print a trace and its end."""
    print("\n".join(verdict.trace))
    schedule = verdict.schedule
    print(
        f"{schedule.store} seed {schedule.seed}, {schedule.clients} clients, {schedule.rounds} rounds: "
        f"{verdict.violation or 'no violation'}"
    )


def main(argv: list[str] | None = None) -> int:
    """Run what the command line says; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="nox -s simulate --", description=__doc__)
    parser.add_argument("--store", choices=(*STORES, "all"), default="all")
    parser.add_argument("--seed", type=int, help="run this one schedule and show its trace")
    parser.add_argument("--of", choices=USES, default="locks", help="what the users of every schedule do")
    parser.add_argument("--first", type=int, default=0, help="the first seed of many")
    parser.add_argument("--count", "--schedules", type=int, default=10_000, help="how many schedules a store")
    parser.add_argument(
        "--sweep", action="store_true", help="run the schedule of --seed with each fault at each request"
    )
    parser.add_argument(
        "--exhaustive", action="store_true", help="every order of messages and every fault, within bounds"
    )
    parser.add_argument(
        "--recipe", choices=("lock", "rwlock", "counter", "value"), help="search this one alone"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="append the tally as JSON lines, and go on from the last; of --exhaustive, keep the results",
    )
    parser.add_argument("--json", action="store_true", help="print the numbers, one line a store")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--most", type=int, default=10**9, help="of --exhaustive, so many schedules a search")
    parser.add_argument("--quick", action="store_true", help="of --exhaustive, what the default run has")
    options = parser.parse_args(argv)
    stores = STORES if options.store == "all" else (options.store,)
    if options.of not in FOR_CELLS:
        stores = tuple(one for one in stores if one != "cell")
    if not stores:
        parser.error(f"a cell store has no {options.of}: use --of {' or --of '.join(FOR_CELLS)}")
    if options.exhaustive:
        explored = tuple(store for store in stores if store in EXPLORED)
        if not explored:
            parser.error(f"--exhaustive has {' and '.join(EXPLORED)}, and not {options.store}")
        return exhaustive(explored, options)
    if options.sweep:
        swept = [sweep(store, options.seed or 0, options.jobs, of=options.of) for store in stores]
        print("\n".join(line for one in swept for line in one.lines()))
        return int(any(one.violations for one in swept))
    if options.seed is not None:
        verdicts = [run(Schedule(store, options.seed, trace=True, of=options.of)) for store in stores]
        for verdict in verdicts:
            show(verdict)
        return int(any(verdict.violation for verdict in verdicts))
    return simulate(stores, options)


def exhaustive(stores: tuple[str, ...], options: argparse.Namespace) -> int:
    """Search every bound to its end; 1 if a promise was broken."""
    bounds = tuple(
        bound for bound in (QUICK if options.quick else ALL) if options.recipe in (None, bound.recipe)
    )
    broken = 0
    kept: dict[str, Any] = {"commit": bulk.commit(), "searches": []}
    for found in search(stores, bounds, options.jobs, options.most):
        print(json.dumps(found.numbers()) if options.json else found.line(), flush=True)
        kept["searches"].append(found.numbers())
        if options.out is not None:
            options.out.write_text(json.dumps(kept, indent=1) + "\n")
        if found.violation is not None:
            broken += 1
            print("\n".join(replay(found)))
    return int(bool(broken))


def simulate(stores: tuple[str, ...], options: argparse.Namespace) -> int:
    """Run many schedules; show the first violation in its shortest form."""
    if options.out is not None:
        seeds = range(options.first, options.first + options.count)
        done = [
            bulk.run(
                options.out,
                Tally(store),
                seeds,
                partial(chunk, store, of=options.of),
                jobs=options.jobs,
                recipe=options.of,
            )
            for store in stores
        ]
        return int(any(done))
    broken = 0
    for store in stores:
        began = time.monotonic()
        tally = many(store, options.first, options.count, options.jobs, options.of)
        if options.json:
            print(json.dumps(tally.numbers()), flush=True)
            broken += bool(tally.violations)
            continue
        print("\n".join(tally.lines(time.monotonic() - began)), flush=True)
        for seed, words in tally.violations[:5]:
            again = f"--of {options.of} --store {store} --seed {seed}"
            print(f"  seed {seed}: {words}   (again: nox -s simulate -- {again})")
        if tally.violations:
            broken += 1
            shortest = shrink(store, tally.violations[0][1], of=options.of)
            if shortest is not None:
                print("\nthe shortest of its kind:")
                show(shortest)
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
