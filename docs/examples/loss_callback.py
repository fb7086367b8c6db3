import subprocess

import recipes

with recipes.connect("sqlite://./locks.db", session_timeout=3) as client:
    lock = client.lock("reports/nightly")
    try:
        with lock as grant, subprocess.Popen(["sleep", "60"]) as work:
            # Called in a thread of its own.
            grant.lost.add_callback(lambda _grant: work.terminate())
            lock.evict(grant.token)  # here an operator takes the lock away
            print("the work ended with", work.wait())
    except recipes.LockLost as lost:
        print(lost)
