import threading

import recipes

STORE = "sqlite://./locks.db"
WORKERS = 3
over = threading.Event()


def worker() -> None:
    with recipes.connect(STORE) as client, client.group("run-17").join():
        over.wait()  # in a service: its work


for _ in range(WORKERS):
    threading.Thread(target=worker).start()

with recipes.connect(STORE) as client, client.group("run-17").watch() as watching:
    for members in watching:
        if len(members) >= WORKERS:
            break
    print("ready at this moment:", len(members))
over.set()
