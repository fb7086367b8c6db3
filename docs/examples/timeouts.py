import time

import recipes
from recipes._programs.lease import SessionClock

URL = "etcd://127.0.0.1:2379/app"
SECONDS = 0.5  # measure for an hour, in a thread of the process that will hold the lock
RENEWALS = {  # how many in a timeout, and how far back they count
    "etcd": (3, 0.0),
    "sqlite": (3, 0.0),
    "zookeeper": (7, 0.275),
}


def survives(session_timeout: float, store: str) -> float:
    """Return how many seconds the process may be stopped, at worst, with the lock held."""
    per_ttl, lag = RENEWALS[store]
    clock = SessionClock(session_timeout, 0.0, per_ttl=per_ttl, lag=lag)
    while clock.due < 3 * session_timeout:
        clock.on_renewed(clock.due, session_timeout, clock.due)
    return clock.deadline - clock.due  # at worst it is stopped when a renewal is due


pauses, answers = [0.0], [0.0]
with recipes.connect(URL) as client, client.lock("measuring") as grant:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        grant.verify()  # one linearizable read
        answered = time.monotonic()
        time.sleep(0.01)
        answers.append(answered - began)
        pauses.append(time.monotonic() - answered - 0.01)  # how much too late it woke

need = 3 * max(pauses) + 3 * max(answers)  # three times the worst that was seen
print(f"longest pause {max(pauses):.3f} s, slowest answer {max(answers):.3f} s")
for store in RENEWALS:
    fits = next(timeout for timeout in range(5, 600) if survives(timeout, store) >= need)
    stop = survives(fits, store)
    print(f"{store}: session_timeout={fits} survives a stop of {stop:.1f} s")
