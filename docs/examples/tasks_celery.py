from typing import Any

from celery import Celery

import recipes

app = Celery("shop", broker="redis://127.0.0.1:6379/0")
client = recipes.connect("sqlite://./locks.db")  # no I/O: each worker process opens its own


@app.task(bind=True, max_retries=20)
def rebuild_index(self: Any, customer: str) -> str:
    grant = client.lock(f"index/{customer}").try_acquire()
    if grant is None:
        raise self.retry(countdown=30)  # leaves the worker free for other tasks
    with grant:
        return f"index of {customer} rebuilt under token {grant.token}"
