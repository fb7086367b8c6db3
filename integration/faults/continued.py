"""A process that repeats each line it is told, and writes to a file which thread each SIGCONT reached.

Run as ``python -m integration.faults.continued FILE``.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
import threading
import time

NAP_S = 0.01


def nap() -> None:
    """Be ready for any signal, time and again."""
    while True:
        time.sleep(NAP_S)


if __name__ == "__main__":
    with open(sys.argv[1], "w") as seen:  # noqa: PTH123 - it has to stay open
        faulthandler.register(signal.SIGCONT, seen, all_threads=False)
        for _ in range(3):
            threading.Thread(target=nap, daemon=True).start()
        print("ready", flush=True)
        for line in sys.stdin:
            print(line, end="", flush=True)
        faulthandler.unregister(signal.SIGCONT)
