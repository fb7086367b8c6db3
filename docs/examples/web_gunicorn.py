import threading
from typing import Any

import recipes

bind = "127.0.0.1:8000"
workers = 2
graceful_timeout = 30  # longer than one step of the work below

stopping, stepping = threading.Event(), threading.Lock()


def work(leadership: recipes.Leadership) -> None:
    while not stopping.wait(1):
        with stepping:
            if not leadership.held:
                return
            print("worker", leadership.value, "cleans up", flush=True)


def lead(client: recipes.Client, worker: str) -> None:
    try:
        client.election("cleaner").run(work, worker)
    except recipes.ClientClosed:
        pass  # it was waiting for its turn when the worker ended


def post_worker_init(worker: Any) -> None:
    worker.client = recipes.connect("sqlite://./locks.db")
    leading = threading.Thread(target=lead, args=[worker.client, str(worker.pid)])
    leading.daemon = True
    leading.start()


def worker_exit(server: Any, worker: Any) -> None:
    stopping.set()
    with stepping:  # no step is under way
        worker.client.close()  # releases: the next worker leads at once
