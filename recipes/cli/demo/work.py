"""The first scene's work: a counter in a file that several processes add to.

Reading and writing the counter is deliberately two steps with a pause between them, as
in any program that loads, changes and stores something. Two processes that do it at
the same time both write the same number, and one update is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from recipes.cli.demo.ledger import Entry, Ledger

__all__ = ["PAUSE_S", "SLOW_S", "Work"]

PAUSE_S = 0.002
"""How long a worker holds what it has read before it writes: the work of a real program."""
SLOW_S = 0.15
"""The same, when somebody watches."""


class Work:
    """The counter and its ledger, in one folder.

    Args:
        folder: Where they are.
        name: What this side of the run is called; sides do not share files.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._counter = folder / f"{name}.counter"
        self._ledger = Ledger(folder / f"{name}.ledger")

    def prepare(self) -> None:
        """Make the files, with nothing counted."""
        self._counter.write_text("0\n")
        self._ledger.prepare()

    def counter(self) -> int:
        """Return what the counter says."""
        return int(self._counter.read_text())

    def ledger(self) -> list[Entry]:
        """Return the ledger, in the order in which it was written."""
        return self._ledger.entries()

    def add_one(
        self,
        worker: int,
        token: int | None,
        pause_s: float = PAUSE_S,
        check: Callable[[], None] = lambda: None,
    ) -> int:
        """Read, pause, write: one update; returns the value written.

        Calls ``check`` before it writes: it raises if the lock was lost on the way, say because
        this process was stopped.
        """
        value = self.counter() + 1
        time.sleep(pause_s)
        check()
        fresh = self._counter.with_suffix(f".worker-{worker}")
        fresh.write_text(f"{value}\n")
        fresh.replace(self._counter)  # readers see the old number or the new one, never half of one
        self._ledger.note(Entry(token, worker, value))
        return value
