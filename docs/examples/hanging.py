import threading

import recipes

stuck = threading.Event()  # never set: the work hangs


def work(grant: recipes.Grant) -> None:
    for step in ("first", "second"):
        print(step, "step under token", grant.token)
        grant.progress()  # max_hold counts from here
    stuck.wait(timeout=1)


with recipes.connect("etcd://127.0.0.1:2379/app") as client:
    try:
        with client.lock("reports/nightly", max_hold=0.5) as grant:
            work(grant)
    except recipes.LockLost as lost:
        print(lost.reason)
