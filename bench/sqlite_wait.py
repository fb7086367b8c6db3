"""How fast a lock in a file goes from hand to hand, what waiting costs, and filelock beside it.

``python -m bench.sqlite_wait [--waiters 20] [--wait 10] [--processes 50] [--rounds 100]``
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from tests.stores.sqlite.crowd import Crowd, count_together, wait_long


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiters", type=int, default=20)
    parser.add_argument("--wait", type=float, default=10.0)
    parser.add_argument("--processes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--dir")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        waits = wait_long(Path(folder), options.waiters, options.wait)
        hands = waits.handovers_s
        print(
            f"hand-over after {options.wait:g} s: p50 {statistics.median(hands) * 1000:.2f} ms, "
            f"worst of {len(hands)} {hands[-1] * 1000:.2f} ms; while waiting: p50 "
            f"{statistics.median(waits.cores):.3%} of a core, most {waits.cores[-1]:.3%}"
        )
    wanted = options.processes * options.rounds
    for think_s, hold_s in ((0.0, 0.0), (0.0, 0.001), (0.005, 0.0), (0.005, 0.001)):
        each = f"holding {hold_s * 1000:g} ms, {think_s * 1000:g} ms apart"
        print(f"{options.processes} processes, {options.rounds} each, {each}:")
        for kind in ("sqlite", "filelock"):
            with tempfile.TemporaryDirectory(dir=options.dir) as folder:
                crowd = count_together(
                    kind, Path(folder), options.processes, options.rounds, think_s=think_s, hold_s=hold_s
                )
            print(f"  {kind:8} {told(crowd, wanted)}")


def told(crowd: Crowd, wanted: int) -> str:
    order = f", tokens rise: {crowd.tokens == sorted(set(crowd.tokens))}" if crowd.tokens else ""
    return (
        f"{crowd.took_s:.2f} s, {wanted / crowd.took_s:.0f} a second, lost {wanted - crowd.counted}, "
        f"longest wait {crowd.longest_s:.2f} s, most in a row {crowd.most_in_a_row}{order}"
    )


if __name__ == "__main__":
    main()
