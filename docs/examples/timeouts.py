import time

import recipes

URL = "etcd://127.0.0.1:2379/app"
SECONDS = 0.5  # measure for an hour, in a thread of the process that will hold the lock
SURVIVES = 0.56  # of the timeout, at worst; on ZooKeeper 0.47

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
print(f"session_timeout={max(5.0, need / SURVIVES):.0f}")
