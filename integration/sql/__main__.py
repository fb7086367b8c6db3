"""Transfers between accounts under locks and guards in the same transactions, while much goes wrong.

``python -m integration.sql transfers --processes 8 --transfers 2000 --store postgresql``; with
``--protection nothing`` or ``lock`` the same goes wrong. It returns 1 if it does not come out as it should.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Sequence
from itertools import product

from integration.sql.places import ISOLATIONS, STORES, WAYS
from integration.sql.transfers import Plan, run
from integration.sql.worker import PROTECTIONS

RIGHT = ("locked", "guard")
NUMBERS = ("processes", "transfers", "kills", "stops", "ends", "halts")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return 1 if it came out as it should not."""
    parser = argparse.ArgumentParser("integration.sql", description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["transfers"])
    parser.add_argument("--store", action="append", choices=list(STORES), help="may be repeated; all")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="may be repeated; sqlalchemy")
    parser.add_argument("--isolation", choices=ISOLATIONS, default=ISOLATIONS[0])
    parser.add_argument("--protection", action="append", choices=PROTECTIONS, help="may be repeated; locked")
    for name in NUMBERS:
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    parser.add_argument("--stop-s", type=float, default=Plan.stop_s)
    parser.add_argument("--seed", help="what faults are drawn from; a new one by default, and printed")
    asked = parser.parse_args(arguments)
    seed = asked.seed or secrets.token_hex(4)
    sizes = {name: getattr(asked, name) for name in (*NUMBERS, "stop_s")}
    good = True
    for store in asked.store or STORES:
        with STORES[store]() as server:
            for way, protection in product(asked.way or ["sqlalchemy"], asked.protection or ["locked"]):
                plan = Plan(way, asked.isolation, protection, **sizes, seed=seed)
                result = run(server, plan)
                good = good and (not result.wrong) == (protection in RIGHT)
                print(f"{store}: {result}", flush=True)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
