"""Replay scripts against models and real servers: ``python -m integration.differential --count 2000``.

``--store etcd-3.4 --seed 17`` replays one script of one server, and ``--show`` prints it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from integration.differential.runs import NAMES, Run, differ, started
from integration.servers import ServerUnavailable

SHOWN = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return 1 if anything differed."""
    parser = argparse.ArgumentParser(prog="python -m integration.differential", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="scripts for each server")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="this script only")
    parser.add_argument("--store", action="append", choices=NAMES, help="this server only; may be repeated")
    parser.add_argument("--show", action="store_true", help="print each script and what was answered")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.count) if asked.seed is None else [asked.seed]
    good = [_tell(name, seeds, show=asked.show) for name in asked.store or NAMES]
    return int(not all(good))


def _tell(name: str, seeds: Sequence[int], *, show: bool) -> bool:
    """Run the scripts on one server; return whether all was as it should be."""
    began = time.monotonic()
    try:
        server = started(name)
    except ServerUnavailable as reason:
        print(f"{name}: NOT COMPARED: {reason}", flush=True)
        return False
    with server:
        version = server.version()
        run = differ(server, seeds, show=print if show else None)
    for difference in run.differences[:SHOWN]:
        print(f"\n{difference}", flush=True)
    print(_summary(f"{name} ({version})", run, time.monotonic() - began), flush=True)
    return not run.differences


def _summary(name: str, run: Run, took_s: float) -> str:
    return (
        f"{name}: {run.scripts} scripts, {run.steps} requests, {run.events} events, "
        f"{len(run.differences)} differences, {run.again} replayed for a stall, {took_s:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
