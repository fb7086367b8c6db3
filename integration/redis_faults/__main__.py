"""Restarts and failovers of Redis under load, and tokens over servers that forget.

``python -m integration.redis_faults restarts --rounds 200`` kills a server and starts it again, without data,
with its append-only file, or with an older snapshot; ``failovers --rounds 100`` kills, stops and cuts off the
masters of three sentinels, ``cluster --rounds 20`` those of a cluster (both need root, for networks). With
``--grace 0``, and with ``--no-wait`` for failovers, two holders are expected: a run without any fails.
``tokens --rounds 1000`` flushes, wipes and fails over. It returns 1 if a promise was broken.
"""

from __future__ import annotations

import json
import secrets
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from integration.chaos.batch import program
from integration.redis_faults.places import Cluster, One, Trio
from integration.redis_faults.run import Plan, run
from integration.redis_faults.tokens import rising

PLACES = {"restarts": (One, 200), "failovers": (Trio, 100), "cluster": (Cluster, 20)}
TOKENS = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print what came of it, and return 1 if it is not as promised."""
    parser = program("integration.redis_faults", __doc__)
    parser.add_argument("what", choices=[*PLACES, "tokens"])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--grace", type=float, default=Plan.grace_s, help="restart_grace of clients, in s")
    parser.add_argument("--no-wait", action="store_true", help="clients have replicas=0")
    parser.add_argument("--seed", help="what faults are drawn from; a new one by default, and printed")
    parser.add_argument("--save", type=Path, help="a file for the figures, as JSON")
    parser.add_argument("--histories", type=Path, help="a folder for what the clients noted")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that clients and servers are ended
    seed = asked.seed or secrets.token_hex(4)
    if asked.what == "tokens":
        print(f"tokens rose, seed {seed}: {dict(rising(asked.rounds or TOKENS, seed))}")
        return 0
    kind, rounds = PLACES[asked.what]
    with kind() as place:
        plan = Plan(asked.rounds or rounds, asked.grace, seed=seed, waits=not asked.no_wait)
        result = run(place, plan, say=partial(print, flush=True), keep=asked.histories)
    print(f"{asked.what}: {result}", flush=True)
    if asked.save:
        asked.save.write_text(json.dumps(asdict(result), indent=1) + "\n")
    promised = bool(asked.grace) and not asked.no_wait
    return int(not (result.fenced and not result.wrong and result.exclusive == promised))


if __name__ == "__main__":
    sys.exit(main())
