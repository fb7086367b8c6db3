"""Plant each known bug, and say what notices it: ``nox -s mutants``.

Without more it looks for each until it is found: by schedule after schedule of the simulation,
or by the tests of a driver or transport. ``--default`` lets the default test run alone look for it.
``--out`` keeps the results as they come, and goes on from those of the same commit; ``--table`` prints
what was kept as Markdown.
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
from tests.simulation.bulk import commit

__all__ = ["keep", "main", "table"]

KEPT = ROOT / "docs/proof/mutants.json"
RUNS = ("all", "default")
ENOUGH = {"all": 1.0, "default": 0.75}
"""Which part has to be killed."""


def main(argv: list[str] | None = None) -> int:
    """Run what the command line says; 1 if a bug survives, or by default more than a quarter."""
    parser = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    parser.add_argument("--default", action="store_true", help="what the default run alone notices")
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
    parser.add_argument("--table", action="store_true", help="print what was kept, as Markdown")
    options = parser.parse_args(argv)
    if options.table:
        print(table(json.loads(KEPT.read_text())))
        return 0
    began, run = time.monotonic(), RUNS[options.default]
    facts = {"commit": commit(), "seconds": 0}
    chosen = [case.id for case in CASES if _chosen(case, options)]
    fates = _done(options.out, run, facts["commit"])
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=1) as pool:
        looking = {pool.submit(fate, one, default=options.default): one for one in chosen if one not in fates}
        for done in as_completed(looking):
            found = fates[looking[done]] = done.result()
            facts["seconds"] = round(sum(found.seconds for found in fates.values()))
            print(found.line(), flush=True)
            if options.out is not None:
                keep(options.out, run, facts, [fates[case.id] for case in CASES if case.id in fates])
    killed = sum(bool(found.by) for found in fates.values())
    spent = f"{time.monotonic() - began:.0f} s, {facts['seconds']} s of processors"
    print(f"{killed} of {len(fates)} mutants were killed, {len(fates) - killed} survive ({spent})")
    return int(killed < len(fates) * ENOUGH[run])


def _done(path: Path | None, run: str, of: Any) -> dict[str, Fate]:
    """Return what such a run of the same commit has kept, with which this one goes on."""
    kept = json.loads(path.read_text()).get(run, {}) if path and path.exists() else {}
    known = {
        (found.name, found.where, found.store): found
        for found in (Fate(**facts) for facts in kept.get("mutants", ()))
        if kept["commit"] == of
    }
    return {case.id: known[_key(case)] for case in CASES if _key(case) in known}


def _chosen(case: Case, options: argparse.Namespace) -> bool:
    words = f"{case.mutant.where}: {case.mutant.name}"
    return options.only in words and options.store in ("both", case.store or options.store)


def keep(path: Path, run: str, facts: dict[str, Any], fates: list[Fate]) -> None:
    """Write what was found, beside what the other run found."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    kept[run] = {**facts, "mutants": [asdict(found) for found in fates]}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, indent=1) + "\n")


def table(kept: dict[str, Any]) -> str:
    """Return what was kept: for each part of the package how many bugs there are, and what noticed them."""
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
    ran = "; ".join(
        f"{'by default' if name == 'default' else 'all'}: commit `{kept[name]['commit']}`, "
        f"{kept[name]['seconds']:,} s of one core"
        for name in RUNS
        if name in kept
    )
    different = len({(case.mutant.name, case.mutant.where) for case in CASES})
    both = f"These are {different} bugs; one that is planted on both stores counts twice. "
    return "\n".join([*rows, "", both + ran[:1].upper() + ran[1:] + "."])


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
