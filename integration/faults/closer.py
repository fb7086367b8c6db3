"""A holder whose process closes all descriptors that it finds, and opens sockets under their numbers.

Run as ``python -m integration.faults.closer FACE URL SESSION_S NAME [OPTIONS]``, options in JSON. One thread
holds the lock and another waits for ``NAME, of another``, which it gets meanwhile. What came of that is
printed in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from integration.faults.workers import Worker
from integration.opening import opened
from tests.strangers import ABOVE, Stranger, until_asleep

__all__ = ["POLLS", "WAITS", "closed_behind"]

MANY = 100
"""More sockets than the package had descriptors: all numbers are used again."""
PATIENCE_S = 30.0
WAITS, POLLS = 0.05, 0.2
"""How much of a core waiting takes at most: where a waiter is notified, and where it asks again and again.

One that looked at a closed descriptor without end took 0.25 to 0.45 of one.
"""


def closed_behind(
    closer: Worker,
    token: int,
    excluded: Callable[[], bool],
    release: Callable[[], object],
    *,
    share: float = POLLS,
) -> str:
    """Have a process close all, and judge what came of it; return how it went.

    Args:
        closer: That process.
        token: Of the other lock, for which it waits.
        excluded: Whether its own lock is refused to others.
        release: Releases the other.
        share: How much of a core that may take.
    """
    closer.tell("close")
    seen = json.loads(closer.next_line())
    assert seen["held"] or "os.closerange" in seen["reason"]  # what stands on no connection is kept
    if seen["held"]:
        assert excluded()
    release()
    closer.tell("go on")
    came = json.loads(closer.next_line())
    assert came["hurt"] == []  # neither written to, nor read from, nor closed
    assert came["waited"] > token
    assert came["again"]
    assert came["still"] == seen["held"]
    assert came["share"] < share
    assert came["closing"] < 2
    return f"{came['share']:.1%} of a core, closed in {came['closing']:.2f} s"


def main(url: str, session_s: float, name: str, **options: Any) -> None:
    """Hold, wait, close all, and look."""
    came: dict[str, Any] = {}
    queued = threading.Event()

    def wait() -> None:
        lock = client.lock(f"{name}, of another")
        came["waited"] = lock.acquire(timeout=PATIENCE_S, on_queued=lambda *_: queued.set()).token

    with opened(url, session_timeout=session_s, **options) as client:
        grant = client.lock(name).acquire()
        waiter = threading.Thread(target=wait, daemon=True)
        waiter.start()
        queued.wait(3.0)  # which a store without a queue never says
        print("ready", flush=True)
        sys.stdin.readline()

        until_asleep()
        os.closerange(3, ABOVE)
        strangers = [Stranger() for _ in range(MANY)]
        began, busy = time.monotonic(), time.process_time()
        time.sleep(session_s)  # what notices it does so with the next renewal
        came["share"] = (time.process_time() - busy) / (time.monotonic() - began)
        print(json.dumps({"held": grant.held, "reason": grant.lost_reason}), flush=True)
        sys.stdin.readline()  # the other lock is released meanwhile

        waiter.join(PATIENCE_S)
        came["again"] = client.lock(f"{name}, again").acquire(timeout=PATIENCE_S).held
        came["still"] = grant.held
        closing = time.monotonic()
    came["closing"] = time.monotonic() - closing
    came["hurt"] = [said for said in (one.hurt() for one in strangers) if said]
    print(json.dumps(came), flush=True)


if __name__ == "__main__":
    _, _, address, length, lock_name, *more = sys.argv
    main(address, float(length), lock_name, **json.loads(more[0] if more else "{}"))
