"""A thousand additions, while answers are lost and all is stopped and killed.

``python -m integration.exactly_once --store etcd --adds 1000`` adds by this package, blocking and for
asyncio. ``--client kazoo`` and ``--client curator`` do the same by the counters of others. ``--save FILE``
keeps the figures as JSON. It returns 1 if a sum of this package is wrong, or if one of another client is
right: then the faults were too harmless.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from integration.chaos.batch import commit, program
from integration.exactly_once.run import PEERS, STORES, Plan, Result, fitting, run

SHORT = {
    "etcd": "etcd-3.4",
    "zookeeper": "zookeeper-3.8",
    "redis": "redis-7",
    "postgres": "postgres-15",
    "mariadb": "mariadb-10.11",
}
APIS = ("blocking", "asyncio")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return 1 if it came out as it should not."""
    parser = program("integration.exactly_once", __doc__)
    parser.add_argument("--store", action="append", choices=[*SHORT, *STORES], help="may be repeated; all")
    parser.add_argument("--client", action="append", choices=[*APIS, *PEERS], help="may be repeated; ours")
    parser.add_argument("--adds", type=int, default=Plan.adds)
    parser.add_argument("--seed", help="what faults are drawn from; a new one by default, and printed")
    parser.add_argument("--save", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args(arguments)
    plan = Plan(adds=asked.adds, seed=asked.seed or secrets.token_hex(4))
    found: list[Result] = []
    good = True
    for store in asked.store or STORES:
        with STORES[SHORT.get(store, store)]() as server:
            for client in asked.client or APIS:
                result = run(server, client, fitting(plan, server))
                good = good and bool(result.wrong) == (client in PEERS)
                found.append(result)
                print(_line(result, plan), flush=True)
                if asked.save:
                    kept = {"commit": commit(), "seed": plan.seed, "runs": [asdict(one) for one in found]}
                    asked.save.write_text(json.dumps(kept, indent=1) + "\n")
    return int(not good)


def _line(result: Result, plan: Plan) -> str:
    return (
        f"{result.store}, {result.client}, seed {plan.seed}: {result.done} done and {result.unknown} unknown "
        f"came to {result.found}: {result.wrong or 'right'}\n"
        f"  {result.seconds} s, {result.faults}, asked again after {result.refused}"
    )


if __name__ == "__main__":
    sys.exit(main())
