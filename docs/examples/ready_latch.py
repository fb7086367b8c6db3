import threading

import recipes

STORE = "sqlite://./locks.db"
WORKERS = 3


def worker(number: int) -> None:
    with recipes.connect(STORE) as client:
        print("worker", number, "has loaded its data")
        client.latch("run-17/ready", WORKERS).count_down()


for number in range(WORKERS):  # in a service: processes
    threading.Thread(target=worker, args=(number,)).start()

with recipes.connect(STORE) as client:
    if not client.latch("run-17/ready", WORKERS).wait(timeout=60):
        raise SystemExit("not all workers are ready")
    print("all are ready: the load test begins")
