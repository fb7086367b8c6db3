"""Break system calls of one store's clients, and print what is wrong.

Run as ``python -m integration.breaking STORE API``. ``--stride 1`` takes every place, ``--fault`` those of
one fault, and ``--at`` one place of it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from integration.breaking.breaker import FAULTS, built
from integration.breaking.judge import LEFT_S, Breaking, laid_out
from integration.breaking.stores import STORES, left, prepared


def main() -> int:
    """Return how many places went wrong."""
    parser = argparse.ArgumentParser(prog="python -m integration.breaking", description=__doc__)
    parser.add_argument("store", choices=STORES)
    parser.add_argument("api", choices=("blocking", "asyncio"))
    parser.add_argument("--stride", type=int, default=40)
    parser.add_argument("--fault", choices=FAULTS[1:], action="append")
    parser.add_argument("--at", type=int)
    asked = parser.parse_args()
    faults = asked.fault or FAULTS[1:]
    with TemporaryDirectory() as folder, STORES[asked.store]() as server:
        url, options = prepared(server, "breaking")
        with Breaking(built(Path(folder)), url, asked.api, options) as breaking:
            print(breaking.counted, flush=True)
            places = list(laid_out(breaking.counted, asked.stride, faults))
            if asked.at is not None:
                places = [(fault, asked.at) for fault in faults]
            found = breaking.run(places)
        wrong = [place for place in found if place.wrong]
        for place in wrong:
            print(place.account)
        remains = left(server, "breaking", LEFT_S, found)
        print(f"{len(found)} places, {len(wrong)} wrong; left behind: {remains or 'nothing'}")
    return len(wrong) + bool(remains)


if __name__ == "__main__":
    sys.exit(main())
