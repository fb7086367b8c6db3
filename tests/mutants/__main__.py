"""Plant each known bug, and say what notices it: ``nox -s mutants``.

Each is looked for as the default test run does: by tests of its part, by the search within bounds, and
by some schedules of the simulation. One that these pass by is looked for by schedule after schedule.
``--out`` keeps the results as they come, and goes on from those of the same commit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.mutants.looking import ROOT, Fate, fate
from tests.mutants.planting import CASES, Case
from tests.revision import revision

__all__ = ["keep", "main", "table"]

KEPT = ROOT / "docs/proof/mutants.json"
ENOUGH = 0.95
"""Which part the default run alone has to kill."""


def main(argv: list[str] | None = None) -> int:
    """Run what the command line says; 1 if a bug survives, or one of twenty survives the default run."""
    parser = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    parser.add_argument("--default", action="store_true", help="leave out what the default run does not do")
    parser.add_argument("--only", default="", help="those with these words in their part or name")
    parser.add_argument("--store", choices=("etcd", "zookeeper", "both"), default="both")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--out",
        type=Path,
        nargs="?",
        const=KEPT,
        help=f"keep the results, in {KEPT.relative_to(ROOT)}, and go on from there",
    )
    options = parser.parse_args(argv)
    began, of = time.monotonic(), revision("recipes", "tests")
    chosen = [case.id for case in CASES if _chosen(case, options)]
    fates = _done(options.out, of)
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        looking = {pool.submit(fate, one, default=options.default): one for one in chosen if one not in fates}
        for done in as_completed(looking):
            found = fates[looking[done]] = done.result()
            print(found.line(), flush=True)
            if options.out is not None:
                keep(options.out, of, [fates[case.id] for case in CASES if case.id in fates])
    killed, early = sum(bool(one.by) for one in fates.values()), sum(one.early for one in fates.values())
    print(f"{killed} of {len(fates)} mutants were killed, {early} by the default run alone")
    used = sum(found.seconds for found in fates.values())
    print(f"{time.monotonic() - began:.0f} s; {used:.0f} s of processors for them all")
    return int(early < len(fates) * ENOUGH or (killed < len(fates) and not options.default))


def _done(path: Path | None, of: str) -> dict[str, Fate]:
    """Return what a run of the same commit has kept, with which this one goes on."""
    kept = json.loads(path.read_text()) if path and path.exists() else {}
    if kept.get("commit") != of:
        return {}
    known = {(one["name"], one["where"], one["store"]): Fate(**one) for one in kept["mutants"]}
    return {case.id: known[_key(case)] for case in CASES if _key(case) in known}


def _chosen(case: Case, options: argparse.Namespace) -> bool:
    words = f"{case.mutant.where}: {case.mutant.name}"
    return options.only in words and options.store in ("both", case.store or options.store)


def keep(path: Path, of: str, fates: list[Fate]) -> None:
    """Write what was found."""
    used = round(sum(found.seconds for found in fates))
    kept = {"commit": of, "seconds": used, "mutants": [asdict(found) for found in fates]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")


def table(kept: dict[str, Any]) -> str:
    """Return what was kept: for each part of the package how many were planted, and killed."""
    fates = [Fate(**one) for one in kept["mutants"]]
    rows = ["| part | planted | killed | by the default run alone |", "|---|---|---|---|"]
    parts = dict.fromkeys(found.where for found in fates)
    rows += [_row(part, [found for found in fates if found.where == part]) for part in parts]
    rows.append(_row("**all**", fates))
    bugs = len({(found.name, found.where) for found in fates})
    rest = len(CASES) - len(fates)
    return "\n".join(
        [
            *rows,
            "",
            f"These are {bugs} bugs; one that is planted on both stores counts twice. "
            + (f"{rest} more were not run. " if rest else "")
            + f"Of commit `{kept['commit']}`; it took {kept['seconds']:,} s of one core.",
        ]
    )


def _row(part: str, fates: list[Fate]) -> str:
    killed, early = sum(bool(found.by) for found in fates), sum(found.early for found in fates)
    return f"| {part} | {len(fates)} | {killed} | {early} |"


def _key(case: Case) -> tuple[str, str, str]:
    return case.mutant.name, case.mutant.where, case.store


if __name__ == "__main__":
    sys.exit(main())
