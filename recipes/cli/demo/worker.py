"""A worker: a process that does the work, and tells its parent in JSON lines what happens.

The parent writes one order a line to standard input; the end of it ends the worker. A worker
without a store is a *twin*: it does the same work with no lock. Every line to standard output is an
object with ``worker``, ``twin``, ``kind`` and ``at`` (boot time):

``ready``       the session with the store stands; with the process id
``transition``  an event of the package, with its fields
``turn``        one turn of the work: its ``value``, and under a lock the times that matter
``done``        an order was carried out
``lost``        the lock was lost on the way, and the turn is taken again
``failed``      and why; the worker ends
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import recipes
from recipes import events
from recipes._run.clock import boot_time
from recipes.cli.demo.bank import Bank
from recipes.cli.demo.orders import Order
from recipes.cli.demo.work import Work

__all__ = ["LOCK", "RWLOCK", "Worker", "main", "writes"]

LOCK = "recipes demo"
RWLOCK = "recipes demo accounts"
INTERRUPTED = 130
GIVE_UP_AFTER_S = 30.0
"""No worker waits longer for its turn: a store that fell silent ends the demo."""


def writes(number: int) -> bool:
    """Whether worker ``number`` moves money; the others add up, and are more, to do it together."""
    return number % 5 in (1, 3)


class Worker:
    """One worker.

    Args:
        number: Which one it is, from 1.
        folder: Where the shared files are.
        out: Where to tell what happens.
        client: Its client of the store, None for a twin.
    """

    def __init__(self, number: int, folder: Path, out: IO[str], client: recipes.Client | None) -> None:
        self.number = number
        self._out = out
        self._client = client
        side = "unlocked" if client is None else "locked"
        self._work = Work(folder, side)
        self._bank = Bank(folder, side)
        self._dice = random.Random(number)  # noqa: S311 - for money that does not exist
        self._called_at: dict[str, float] = {}

    def tell(self, kind: str, *, at: float | None = None, **fields: Any) -> None:
        """Write one line to the parent."""
        line = {"worker": self.number, "twin": self._client is None, "kind": kind}
        self._out.write(json.dumps({**line, "at": boot_time() if at is None else at, **fields}) + "\n")
        self._out.flush()

    def on_transition(self, transition: events.Transition) -> None:
        """Pass an event on; a release or downgrade is dated when it was called, not when confirmed."""
        at = self._called_at.pop(transition.event, None)
        self.tell("transition", at=at, event=transition.event, **transition.fields())

    def serve(self, orders: Iterator[Order]) -> None:
        """Carry out orders until there are no more."""
        self.tell("ready", pid=os.getpid())
        for order in orders:
            for pause_s in order.turns():
                self._turn(order, pause_s)
            self.tell("done")

    def _turn(self, order: Order, pause_s: float) -> None:
        if self._client is None:
            counts = order.scene == "counter"
            value = self._work.add_one(self.number, None, pause_s) if counts else self._bare_sum(pause_s)
            self.tell("turn", value=value)
        elif order.scene == "counter":
            self._locked(self._client.lock(LOCK), lambda grant: {"value": self._count(grant, pause_s)})
        elif writes(self.number):
            writer = self._client.rwlock(RWLOCK).writer
            self._locked(writer, lambda grant: self._move(grant, pause_s))
        else:
            reader = self._client.rwlock(RWLOCK).reader
            self._locked(
                reader, lambda grant: {"value": sum(self._bank.balances(pause_s)), "mode": grant.mode}
            )

    def _locked(self, lock: Any, work: Any) -> None:
        """Do ``work`` under ``lock``, and tell of it; from the beginning, if the lock was lost on the way."""
        done = False
        while not done:
            try:
                self._once(lock, work)
                done = True
            except recipes.LockLost as lost:
                self.tell("lost", token=lost.token, reason=lost.reason)

    def _once(self, lock: Any, work: Any) -> None:
        asked_at = boot_time()
        with lock.acquire(timeout=GIVE_UP_AFTER_S) as grant:
            acquired_at = boot_time()
            done = work(grant)
            release_called_at = self._calling("lock.released")
        times = {"asked_at": asked_at, "acquired_at": acquired_at, "release_called_at": release_called_at}
        self.tell("turn", at=release_called_at, token=grant.token, **times, **done)

    def _count(self, grant: recipes.Grant, pause_s: float) -> int:
        return self._work.add_one(self.number, grant.token, pause_s, grant.check)

    def _move(self, grant: recipes.WriteGrant, pause_s: float) -> dict[str, Any]:
        """Transfer as the writer, then read back as a reader: what was written has to be there."""
        written = self._bank.transfer(self.number, grant.token, self._dice, pause_s)
        downgrade_called_at = self._calling("lock.downgraded")
        grant.downgrade()
        seen = self._bank.balances(pause_s)
        kept = all(seen[number] == balance for number, balance in written.items())
        return {"value": sum(seen), "kept": kept, "downgrade_called_at": downgrade_called_at}

    def _bare_sum(self, pause_s: float) -> int:
        """Do a writer's or a reader's turn without any lock."""
        if writes(self.number):
            self._bank.transfer(self.number, None, self._dice, pause_s)
        return sum(self._bank.balances(pause_s))

    def _calling(self, event: str) -> float:
        """Return now, and have the event that follows from this call dated so."""
        self._called_at[event] = boot_time()
        return self._called_at[event]


def main(argv: Sequence[str] | None = None) -> int:
    """Work until the orders on standard input end; returns the exit code.

    The arguments are the store's URL (empty for a twin), the folder of the files, the number, and
    the seconds of the session.
    """
    url, folder, number, session_s = sys.argv[1:] if argv is None else argv
    parent = os.getppid()
    # How the parent ends a worker. (SIGINT is ignored in what a shell starts in the background.)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _work(url, Path(folder), int(number), float(session_s))
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        if os.getppid() != parent:  # it was killed, and could not tidy up
            shutil.rmtree(folder, ignore_errors=True)


def _work(url: str, folder: Path, number: int, session_s: float) -> int:
    orders = map(Order.of_line, sys.stdin)
    if not url:
        Worker(number, folder, sys.stdout, None).serve(orders)
        return 0
    client = recipes.connect(url, session_timeout=session_s)
    worker = Worker(number, folder, sys.stdout, client)
    unsubscribe = events.subscribe(worker.on_transition)
    try:
        with client:
            worker.serve(orders)
    except recipes.RecipesError as error:
        worker.tell("failed", reason=str(error))
        return 1
    finally:
        unsubscribe()
    return 0
