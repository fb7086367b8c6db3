"""A worker: a process that takes turns, and writes what happens as JSON lines to standard output.

Each line of standard input is an order: a scene, a side of it ("locked" or "unlocked"), how many turns, and
how many seconds the work of a turn takes. The end of it ends the worker. Every line it writes has ``worker``,
``at`` (boot time) and ``event``: one of the package, or

``ready``   the session with the store is open; with the process id
``turn``    a turn was taken: its ``value``, and if it wrote ``token``, ``before`` and ``changes``
``done``    an order was carried out
``failed``  the worker ends, for this ``reason``
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import recipes
from recipes import events
from recipes._run.clock import boot_time
from recipes.cli.demo.scenes import COUNTER, SCENES, Numbers, Scene, name_of

__all__ = ["OPTIONS_VARIABLE", "Worker", "main"]

OPTIONS_VARIABLE = "RECIPES_DEMO_OPTIONS"
"""The options of the store as JSON, where no list of processes shows a password among them."""
GIVE_UP_AFTER_S = 30.0  # a store that falls silent ends the demo


class Worker:
    """A worker, from 1, with its client and the folder of the shared files."""

    def __init__(self, number: int, folder: Path, client: recipes.Client) -> None:
        self._number = number
        self._folder = folder
        self._client = client
        self._called_at: dict[str, float] = {}

    def write(self, event: str, **fields: Any) -> None:
        """Write a line: in one piece, for all workers write to one pipe."""
        line = {"event": event, "worker": self._number, "at": boot_time(), **fields}
        os.write(1, json.dumps(line).encode() + b"\n")  # to standard output

    def on_transition(self, transition: events.Transition) -> None:
        """Write an event of the package; a release and a downgrade count from when they are called."""
        at = self._called_at.pop(transition.event, boot_time())
        self.write(transition.event, **transition.fields(), at=at)

    def serve(self, orders: Iterable[str]) -> None:
        """Carry out orders until there are no more."""
        self.write("ready", pid=os.getpid())
        for order in orders:
            name, side, turns, pause_s = order.split()
            for _ in range(int(turns)):
                self.write("turn", scene=name, side=side, **self._turn(SCENES[name], side, float(pause_s)))
            self.write("done")

    def _turn(self, scene: Scene, side: str, pause_s: float) -> dict[str, Any]:
        """Take a turn; again from the beginning, if the lock was lost on the way."""
        numbers = Numbers(self._folder, scene, side)
        if side == "unlocked":
            return self._work(scene, numbers, None, pause_s)
        both = self._client.rwlock(scene.lock)
        locks = {"worker": self._client.lock(scene.lock), "writer": both.writer, "reader": both.reader}
        lock: Any = locks[name_of(self._number, scene).split()[0]]
        while True:
            try:
                with lock.acquire(timeout=GIVE_UP_AFTER_S) as grant:
                    done = self._work(scene, numbers, grant, pause_s)
                    self._called_at["lock.released"] = boot_time()
            except recipes.LockLost:
                continue
            return done

    def _work(self, scene: Scene, numbers: Numbers, grant: Any, pause_s: float) -> dict[str, Any]:
        """Do the work of a turn, under a grant or none: add one, add up, or move money and add up."""
        token = grant and grant.token
        if scene is COUNTER:
            value, before = numbers.add(0, 1, grant, pause_s)
            return {"value": value, "token": token, "before": before, "changes": 1}
        if name_of(self._number, scene).startswith("reader"):
            time.sleep(pause_s)
            return {"value": sum(numbers.read().numbers)}
        payer, payee = random.sample(range(len(scene.opening)), 2)
        amount = random.randint(1, 20)  # noqa: S311 - money that does not exist
        paid, before = numbers.add(payer, -amount, grant, pause_s / 2)
        received, _ = numbers.add(payee, amount, grant, pause_s / 2)
        if grant is not None:
            self._called_at["lock.downgraded"] = boot_time()
            grant.downgrade()
        time.sleep(pause_s)
        seen = numbers.read().numbers
        kept = (seen[payer], seen[payee]) == (paid, received)
        return {"value": sum(seen), "token": token, "before": before, "changes": 2, "kept": kept}


def main(argv: Sequence[str] | None = None) -> None:
    """Work until the parent's orders end."""
    parent, url, folder, session_s, number = sys.argv[1:] if argv is None else argv
    given: dict[str, Any] = json.loads(os.environ.get(OPTIONS_VARIABLE, "{}"))
    options: dict[str, Any] = {**given, "session_timeout": float(session_s)}
    client = recipes.connect(url, **options)
    worker = Worker(int(number), Path(folder), client)
    unsubscribe = events.subscribe(worker.on_transition)
    try:
        # How the parent ends a worker; until here that is its end at once, and nothing is to be tidied.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with client:
            worker.serve(sys.stdin)
    except recipes.RecipesError as error:
        worker.write("failed", reason=str(error))
    except (KeyboardInterrupt, BrokenPipeError):  # the parent ends it, or was killed
        pass
    finally:
        unsubscribe()
        if os.getppid() != int(parent):  # it was killed, and could not tidy up
            shutil.rmtree(folder, ignore_errors=True)
