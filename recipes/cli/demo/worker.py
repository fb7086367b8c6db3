"""A worker: a process that does the work, and tells its parent in JSON lines what happens.

The parent writes one order a line to standard input; the end of it ends the worker.
Every line to standard output is an object with ``worker``, ``kind`` and ``at`` (boot time):

``ready``       the session with the store stands; with the process id
``transition``  an event of the package, with its fields
``turn``        one update under the lock, with the times that matter
``done``        an order was carried out, with the number of ``updates``
``failed``      and why; the worker ends
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import recipes
from recipes import events
from recipes._run.clock import boot_time
from recipes.cli.demo.work import Work

__all__ = ["LOCK", "SESSION_TIMEOUT_S", "Order", "Worker", "main"]

LOCK = "recipes demo"
SESSION_TIMEOUT_S = 10.0
INTERRUPTED = 130
GIVE_UP_AFTER_S = 30.0
"""No worker waits longer for its turn: a store that fell silent ends the demo."""


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """What the parent asks for.

    Attributes:
        lock: Whether to work under the lock.
        rounds: How many updates, None for as many as fit.
        seconds: For how long, None for as long as it takes.
    """

    lock: bool
    rounds: int | None = None
    seconds: float | None = None

    def turns(self) -> Iterator[int]:
        """Yield a number for each update until the order is carried out."""
        end = math.inf if self.seconds is None else boot_time() + self.seconds
        for number in itertools.count(1):
            if number > (self.rounds or math.inf) or boot_time() >= end:
                return
            yield number


class Worker:
    """One worker.

    Args:
        number: Which one it is, from 1.
        folder: Where the shared files are.
        out: Where to tell what happens.
    """

    def __init__(self, number: int, folder: Path, out: IO[str]) -> None:
        self.number = number
        self._folder = folder
        self._out = out
        self._release_called_at = 0.0

    def tell(self, kind: str, *, at: float | None = None, **fields: Any) -> None:
        """Write one line to the parent."""
        line = {"worker": self.number, "kind": kind, "at": boot_time() if at is None else at, **fields}
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()

    def on_transition(self, transition: events.Transition) -> None:
        """Pass an event on; a release is dated when it was called, not when it was confirmed."""
        at = self._release_called_at if transition.event == "lock.released" else None
        self.tell("transition", at=at, event=transition.event, **transition.fields())

    def serve(self, client: recipes.Client, orders: Iterator[Order]) -> None:
        """Carry out orders until there are no more."""
        self.tell("ready", pid=os.getpid())
        lock = client.lock(LOCK)
        for order in orders:
            updates = self._with_lock(lock, order) if order.lock else self._without_lock(order)
            self.tell("done", updates=updates)

    def _with_lock(self, lock: recipes.Lock, order: Order) -> int:
        work = Work(self._folder, "locked")
        updates = 0
        for updates in order.turns():  # noqa: B007 - the last number is how many there were
            asked_at = boot_time()
            with lock.acquire(timeout=GIVE_UP_AFTER_S) as grant:
                acquired_at = boot_time()
                value = work.add_one(self.number, grant.token)
                self._release_called_at = boot_time()
            self.tell(
                "turn",
                token=grant.token,
                value=value,
                asked_at=asked_at,
                acquired_at=acquired_at,
                release_called_at=self._release_called_at,
            )
        return updates

    def _without_lock(self, order: Order) -> int:
        work = Work(self._folder, "unlocked")
        return sum(1 for _ in order.turns() if work.add_one(self.number, None))


def main(argv: Sequence[str] | None = None) -> int:
    """Work until the orders on standard input end; returns the exit code."""
    url, folder, number = sys.argv[1:] if argv is None else argv
    # How the parent ends a worker. (SIGINT is ignored in what a shell starts in the background.)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    worker = Worker(int(number), Path(folder), sys.stdout)
    orders = (Order(**json.loads(line)) for line in sys.stdin)
    unsubscribe = events.subscribe(worker.on_transition)
    try:
        with recipes.connect(url, session_timeout=SESSION_TIMEOUT_S) as client:
            worker.serve(client, orders)
    except recipes.RecipesError as error:
        worker.tell("failed", reason=str(error))
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        unsubscribe()
    return 0
