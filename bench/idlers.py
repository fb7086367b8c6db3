"""Idle clients, each of which holds a lock and does nothing with it.

Run as ``python -m bench.idlers URL COUNT`` (URL ``kazoo://...``: clients of kazoo alone); each line on
standard input is answered with the CPU seconds of this process so far, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from urllib.parse import urlsplit

from kazoo.client import KazooClient

import recipes


def main() -> None:
    """Hold, and answer until standard input ends."""
    url, count = sys.argv[1], int(sys.argv[2])
    with contextlib.ExitStack() as held:
        for number in range(count):
            if url.startswith("kazoo:"):
                kazoo = KazooClient(urlsplit(url).netloc, timeout=15)
                kazoo.start()
                held.callback(kazoo.stop)
                held.enter_context(kazoo.Lock(f"/idle-{number}"))
            else:
                client = held.enter_context(recipes.connect(url))
                held.enter_context(client.lock(f"idle-{number}"))
        for _ in sys.stdin:
            print(json.dumps(time.process_time()), flush=True)


if __name__ == "__main__":
    main()
