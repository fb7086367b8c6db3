"""This package and its peers, side by side in one run.

::

    python -m bench                      # all of it, a quarter of an hour
    python -m bench alone churn          # these scenarios
    python -m bench --rounds 2 --scale 0.1 handover
    python -m bench --long waiters       # with 10 000 waiters
    python -m bench --keep sql           # once more, beside what an earlier run has found

Everybody has a turn, again and again (``--rounds``), so that what disturbs the machine disturbs all
alike: the quotients of one run mean something, its microseconds are this machine's.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from bench.bars import judged
from bench.kinds import KINDS
from bench.report import conditions, kept, load, write
from bench.scenarios import SCENARIOS
from bench.stage import Stage
from bench.tables import Plan, Table


def main(words: list[str] | None = None) -> int:
    """Measure; 1 if a peer that was asked for is missing."""
    options = _options(words)
    plan = Plan(options.rounds, options.scale, options.long)
    run = conditions() | {"rounds": plan.rounds, "scale": plan.scale}
    tables = kept(options.out, run) if options.keep else {}
    began = time.monotonic()
    with Stage(options.etcd, options.only) as stage:
        for name in options.scenario or SCENARIOS:
            since = time.monotonic()
            for table in SCENARIOS[name](stage, plan):
                tables[table.name] = table
                print(table.markdown(), flush=True)
            print(f"({name} took {time.monotonic() - since:.0f} s; load {load()})\n", flush=True)
            run["servers"] = run.get("servers", {}) | stage.versions()
            write(options.out, tables, run, stage.missing)  # a run that is broken off keeps what it found
        missing = dict(stage.missing)
    run |= {"load after": load(), "took": f"{time.monotonic() - began:.0f} s"}
    page = write(options.out, tables, run, missing)
    _draw(tables, options.out)
    print("\n".join(one.markdown() for one in judged(tables) if one.found is not None))
    for name, reason in missing.items():
        print(f"NOT MEASURED: {name}: {reason}", file=sys.stderr)
    print(f"written: {page}")
    return int(bool(missing))


def _draw(tables: dict[str, Table], folder: Path) -> None:
    try:
        from bench.pictures import draw  # noqa: PLC0415

        draw(tables, folder)
    except ImportError as error:
        print(f"NO PICTURES: {error} (pip install matplotlib)", file=sys.stderr)


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", nargs="*", help=f"any of: {', '.join(SCENARIOS)}; all if none is named")
    parser.add_argument("--rounds", type=int, default=4, help="how often everybody has a turn")
    parser.add_argument("--scale", type=float, default=1.0, help="length of turns and size of samples")
    parser.add_argument("--long", action="store_true", help="with 10 000 waiters")
    parser.add_argument("--keep", action="store_true", help="keep what --out has of other scenarios")
    parser.add_argument(
        "--only", nargs="+", default=(), choices=list(KINDS), metavar="KIND", help="no other kinds"
    )
    parser.add_argument("--etcd", default="etcd-3.4", choices=["etcd-3.4", "etcd-3.5"])
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="folder of what is written")
    options = parser.parse_args(words)
    unknown = set(options.scenario) - set(SCENARIOS)
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    sys.exit(main())
