"""Joins a queue and leaves it, again and again: ``python -m bench.joiner URL NAME``, until its input ends."""

from __future__ import annotations

import itertools
import sys
import threading

import recipes

PATIENCE_S = 0.02


def join_on(url: str, name: str) -> None:
    """Join and leave until standard input ends; says so once it began."""
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with recipes.connect(url) as client:
        lock = client.lock(name)
        for number in itertools.count():
            try:
                lock.acquire(timeout=PATIENCE_S)
            except recipes.LockTimeout:
                pass
            if number == 0:
                print("joined", flush=True)
            if ended.is_set():
                return


if __name__ == "__main__":
    join_on(sys.argv[1], sys.argv[2])
