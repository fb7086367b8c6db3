import threading
import time

import recipes
from recipes._programs.lease import SessionClock

URL = "etcd://127.0.0.1:2379/app"
SECONDS = 0.5  # measure for an hour, in the process that will hold the lock, under its usual load
RENEWALS = {
    "etcd": (3, 0.0),
    "sqlite": (3, 0.0),
    "zookeeper": (7, 0.275),
}  # in a timeout; how far back they count


def survives(session_timeout: float, store: str) -> float:
    """Return for how many seconds the process may be stopped at worst, with the lock still held."""
    per_ttl, lag = RENEWALS[store]
    clock = SessionClock(session_timeout, 0.0, per_ttl=per_ttl, lag=lag)  # the very one that grants go by
    while clock.due < 3 * session_timeout:
        clock.on_renewed(clock.due, session_timeout, clock.due)
    return clock.deadline - clock.due  # at worst it is stopped when a renewal is due


def pauses(enough: threading.Event, found: list[float]) -> None:
    """Sleep again and again, and note how much too late it wakes: collections of garbage, a busy machine."""
    while not enough.is_set():
        began = time.monotonic()
        time.sleep(0.01)
        found.append(time.monotonic() - began - 0.01)


enough, late, answers = threading.Event(), [0.0], [0.0]
watcher = threading.Thread(target=pauses, args=[enough, late])
watcher.start()
with recipes.connect(URL) as client, client.lock("measuring") as grant:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        grant.verify()  # one linearizable read
        answers.append(time.monotonic() - began)
        time.sleep(0.02)
enough.set()
watcher.join()

need = 3 * max(late) + 3 * max(answers)  # three times the worst: what you measured is not the worst there is
print(f"longest pause {max(late):.3f} s, slowest answer {max(answers):.3f} s")
for store in RENEWALS:
    fits = next(timeout for timeout in range(5, 600) if survives(timeout, store) >= need)
    print(f"{store}: session_timeout={fits} outlives a stop of {survives(fits, store):.1f} s")
