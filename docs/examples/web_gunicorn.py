import functools
import threading
from typing import Any

import recipes

bind = "127.0.0.1:8000"
workers = 2
graceful_timeout = 30  # longer than one step


def work(worker: Any, leadership: recipes.Leadership) -> None:
    while not worker.stopping.wait(1):
        with worker.stepping:
            if not leadership.held:
                return
            print("worker", leadership.value, "cleans up", flush=True)


def lead(worker: Any) -> None:
    election = worker.client.election("cleaner")
    while not worker.stopping.wait(1):
        try:
            election.run(functools.partial(work, worker), str(worker.pid))
        except recipes.ClientClosed:
            return  # it waited as the worker ended
        except Exception:
            worker.log.exception("a step failed")  # and campaigns again


def post_worker_init(worker: Any) -> None:
    # Here: a gevent worker has patched threading by now.
    worker.stopping, worker.stepping = threading.Event(), threading.Lock()
    worker.client = recipes.connect("sqlite://./locks.db")
    threading.Thread(target=lead, args=[worker], daemon=True).start()


def worker_exit(server: Any, worker: Any) -> None:
    worker.stopping.set()
    with worker.stepping:  # no step is under way
        worker.client.close()  # releases: the next worker leads at once
