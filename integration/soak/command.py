"""Every recipe at once, for long, on one store after the other: does anything break, does anything grow?

``python -m integration.soak --minutes 100`` takes that long for all stores together; ``--store redis`` has
all of it on one. Each store has eight clients with every recipe that it has, and a fault every 20 seconds.
After a third of the time, growth is looked for: of the clients' memory, descriptors and threads, and of
what the store keeps. With ``--save`` the numbers are put beside those of other stores that are kept.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from integration.chaos.batch import program
from integration.chaos.stages import STAGES
from integration.soak.soak import EVERY_S, STORES, Plan, plain, soak
from integration.soak.summary import keep, table

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, tell, and return 1 if a promise was broken or anything grows."""
    parser = program("integration.soak", __doc__)
    parser.add_argument("--minutes", type=float, default=100.0, help="for all stores together")
    parser.add_argument("--store", action="append", choices=STAGES, help="may be repeated; all")
    parser.add_argument("--seed", default="1", help="what faults and work are drawn from")
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds from one fault to the next")
    parser.add_argument("--leak", action="store_true", help="have the clients leak: this has to be noticed")
    parser.add_argument("--histories", type=Path, help="a folder for the histories of what went wrong")
    parser.add_argument("--save", action="store_true", help="keep the numbers in docs/proof/soak.json")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that clients and servers are ended
    stores = asked.store or STORES
    plan = Plan(
        60 * asked.minutes / len(stores),
        asked.every,
        asked.seed,
        lanes=("leaking",) if asked.leak else (),
    )
    say = partial(print, flush=True)
    good = True
    for store in stores:
        result = soak(store, plan, say=say, keep=asked.histories)
        good = good and result.good
        say(table([plain(result)]))
        for one in (*result.violations, *result.leaks, *result.undecided):
            say(f"  {one}")
        if asked.save:
            keep(plain(result))
    return int(not good)
