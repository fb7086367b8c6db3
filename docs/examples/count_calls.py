import threading

import recipes

STORE = "sqlite://./locks.db"


def worker() -> None:
    with recipes.connect(STORE) as client:
        served = client.counter("served")
        for _ in range(25):
            served.add()


threads = [threading.Thread(target=worker) for _ in range(4)]  # in a service: processes
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with recipes.connect(STORE) as client:
    print("served", client.counter("served").get(), "of 100")
