"""A process whose signal handler uses the client that it interrupts, at random moments.

Run as ``python -m integration.faults.handled FACE URL SESSION_S SECONDS SEED``. A timer strikes the main
thread, which acquires, releases and looks; the handler does so too, by the same client. At last one
strikes as the main thread waits, and closes the client. What came of it is printed as JSON.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import recipes
from integration.opening import opened
from recipes._run.clock import boot_time

SHORTEST_S, LONGEST_S = 0.0002, 0.004
FINE = (recipes.LockTimeout, recipes.WouldDeadlock, recipes.ReentrantCall)


class Storm:
    """Strikes the main thread again and again, and uses the client there.

    Attributes:
        struck: How often it did.
        refused: How many calls of the handler were refused.
        worst_s: The longest that one took.
    """

    def __init__(self, client: Any, seed: str) -> None:
        self._random = random.Random(seed)
        self._calls = calls_on(client, "b")
        self._on = True
        self.struck = self.refused = 0
        self.worst_s = 0.0
        signal.signal(signal.SIGALRM, self._handle)
        self._again()

    def _again(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._random.uniform(SHORTEST_S, LONGEST_S))

    def _handle(self, *_: object) -> None:
        began = boot_time()
        self.struck += 1
        try:
            self._random.choice(self._calls)()
        except recipes.ReentrantCall:
            self.refused += 1
        except FINE:
            pass
        self.worst_s = max(self.worst_s, boot_time() - began)
        if self._on:
            self._again()

    def end(self) -> None:
        """Strike no more."""
        self._on = False
        signal.setitimer(signal.ITIMER_REAL, 0)


def calls_on(client: Any, name: str) -> list[Callable[[], object]]:
    """Return what main thread and handler do, each with locks of its own."""
    lock, sides = client.lock(name), client.rwlock(f"{name}-sides")
    kept = client.lock(f"{name}-kept")

    def enter() -> None:
        with lock:
            pass

    def downgrade() -> None:
        with sides.writer.acquire(timeout=5) as grant:
            grant.downgrade()

    return [
        lambda: lock.acquire(timeout=5).release(),
        lambda: kept.acquire(timeout=5).release(wait=False),
        lambda: client.lock("a").acquire(timeout=0.05).release(),
        enter,
        downgrade,
        lock.holders,
        lambda: client.locks(limit=5),
        client.open,
        lambda: [grant.verify() for grant in client.grants],
    ]


def main() -> None:
    """Weather the storm."""
    url, session_s, seconds, seed = sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
    with opened(url, session_timeout=session_s) as other:
        client = opened(url, session_timeout=session_s)
        print("ready", flush=True)
        storm = Storm(client, seed)
        calls, chance = calls_on(client, "a"), random.Random(f"{seed} main")
        until, done = boot_time() + seconds, 0
        while boot_time() < until:
            try:
                chance.choice(calls)()
            except FINE:
                continue
            done += 1
        storm.end()
        left = len(client.grants)
        held = other.lock("held").acquire(timeout=5)
        began, ended = 0.0, ""

        def close(*_: object) -> None:
            nonlocal began
            began = boot_time()
            client.close()

        signal.signal(signal.SIGTERM, close)
        threading.Timer(0.5, signal.raise_signal, (signal.SIGTERM,)).start()
        try:
            client.lock("held").acquire()
        except recipes.ClientClosed:
            ended = "ClientClosed"
        closed_s = boot_time() - began
        held.release()
    found = {"struck": storm.struck, "refused": storm.refused, "worst_s": storm.worst_s, "done": done}
    print(json.dumps({**found, "left": left, "ended": ended, "closed_s": closed_s}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
