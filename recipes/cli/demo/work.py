"""The work: a counter in a file that several processes add to, and a ledger of what each wrote.

Reading and writing the counter is deliberately two steps with a pause between them, as
in any program that loads, changes and stores something. Two processes that do it at
the same time both write the same number, and one update is lost.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import astuple, dataclass
from pathlib import Path

__all__ = ["PAUSE_S", "Entry", "Work"]

PAUSE_S = 0.002
"""How long a worker holds what it has read before it writes: the work of a real program."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger: under which token (None without a lock) which worker wrote what."""

    token: int | None
    worker: int
    value: int


class Work:
    """The two files in one folder.

    Args:
        folder: Where they are.
        name: What this part of the run is called; parts do not share files.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._counter = folder / f"{name}.counter"
        self._ledger = folder / f"{name}.ledger"

    def prepare(self) -> None:
        """Make the files, with nothing counted."""
        self._counter.write_text("0\n")
        self._ledger.write_text("")

    def counter(self) -> int:
        """Return what the counter says."""
        return int(self._counter.read_text())

    def ledger(self) -> list[Entry]:
        """Return the ledger, in the order in which it was written."""
        return [Entry(*json.loads(line)) for line in self._ledger.read_text().splitlines()]

    def add_one(self, worker: int, token: int | None) -> int:
        """Read, pause, write: one update; returns the value written."""
        value = self.counter() + 1
        time.sleep(PAUSE_S)
        fresh = self._counter.with_suffix(f".worker-{worker}")
        fresh.write_text(f"{value}\n")
        fresh.replace(self._counter)  # readers see the old number or the new one, never half of one
        self._note(Entry(token, worker, value))
        return value

    def _note(self, entry: Entry) -> None:
        line = json.dumps(astuple(entry)).encode() + b"\n"
        target = os.open(self._ledger, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(target, line)  # appended whole: the order of the lines is the order of the writes
        finally:
            os.close(target)
