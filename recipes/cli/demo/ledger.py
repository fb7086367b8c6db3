"""A ledger: who wrote what, in the order of writing, in a file that many processes append to."""

from __future__ import annotations

import json
import os
from dataclasses import astuple, dataclass
from pathlib import Path

__all__ = ["Entry", "Ledger"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger: under which token (None without a lock) which worker wrote what."""

    token: int | None
    worker: int
    value: int


class Ledger:
    """The file ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make it, with nothing in it."""
        self._path.write_text("")

    def entries(self) -> list[Entry]:
        """Return what it says, in the order in which it was written."""
        return [Entry(*json.loads(line)) for line in self._path.read_text().splitlines()]

    def note(self, entry: Entry) -> None:
        """Append a line, whole: the order of the lines is the order of the writes."""
        line = json.dumps(astuple(entry)).encode() + b"\n"
        target = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(target, line)
        finally:
            os.close(target)
