"""Clients as processes under faults, with histories that are checked.

``python -m integration.chaos --store etcd --runs 10 --seed 7`` runs ten runs on an etcd 3.5. The seed
and a run's number draw its faults: ``--seed 7 --first 4 --runs 1`` repeats the fifth. What it prints as
``seed/number`` is that pair. Clients and servers take their own time, so that a
repetition has the same faults at the same moments, and not the same interleaving.
"""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from integration.chaos.batch import batch, program, saved
from integration.chaos.faults import THEMES
from integration.chaos.further import ALL
from integration.chaos.stages import STAGES

SHORT = {"etcd": "etcd-3.5"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return 1 if a promise was broken."""
    parser = program("integration.chaos", __doc__)
    parser.add_argument("--store", action="append", choices=[*SHORT, *STAGES], help="may be repeated; all")
    parser.add_argument("--runs", type=int, default=10, help="on each store")
    parser.add_argument("--first", type=int, default=0, help="the number of the first run")
    parser.add_argument("--seed", help="what faults are drawn from; a new one by default, and printed")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long the faults of a run go on")
    parser.add_argument("--theme", choices=THEMES, default="", help="what all runs are about, three at once")
    parser.add_argument("--lane", action="append", choices=ALL, help="what clients do; may be repeated; all")
    parser.add_argument("--histories", type=Path, help="a folder for the histories of runs that went wrong")
    parser.add_argument("--keep", action="store_true", help="those of all runs")
    parser.add_argument("--save", type=Path, help="a folder for the numbers of each batch, as JSON")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that clients and servers are ended
    seed = asked.seed or secrets.token_hex(4)
    good = True
    for name in asked.store or STAGES:
        store = SHORT.get(name, name)
        result = batch(
            store,
            asked.runs,
            seed,
            first=asked.first,
            seconds=asked.seconds,
            folder=asked.histories,
            keep=asked.keep,
            theme=asked.theme,
            lanes=tuple(asked.lane or ()),
            say=partial(print, flush=True),
        )
        good = good and not result["violations"]
        if asked.save:
            saved(result, asked.save / f"{store}-{seed}-{asked.first}.json")
        print(
            f"{store} ({result['version']}), seed {seed}: {result['runs']} runs, {result['grants']} grants, "
            f"{len(result['violations'])} violations, {result['leaked']} leaked, {result['seconds']} s\n"
            f"  faults: {result['faults']}\n  pause runs: {result['pause runs']}",
            flush=True,
        )
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
