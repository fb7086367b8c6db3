import signal
import sys
import threading

import recipes

version = sys.argv[1]
stopping, working = threading.Event(), threading.Event()


def stop(*_: object) -> None:
    stopping.set()
    if not working.is_set():
        raise SystemExit(0)  # it only waits for its turn: leave the queue at once


signal.signal(signal.SIGTERM, stop)

with recipes.connect("sqlite://./locks.db") as client:
    while not stopping.is_set():
        try:
            with client.lock("worker") as grant:  # others wait here, and take over
                working.set()
                while grant.held and not stopping.is_set():
                    print(version, "does a step under token", grant.token, flush=True)
                    stopping.wait(0.1)
        except recipes.LockLost as lost:
            print(version, "queues again:", lost.reason)
        finally:
            working.clear()
