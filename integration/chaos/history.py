"""What the clients of a run did, as JSON lines: one when something is asked, one when it is answered.

``{"id": "c1.bank.7", "is": "invoke", "what": "acquire", "at": 812345678901234, ...}``, and with the
same ``id`` later ``"is": "ok"``, ``"fail"`` (it did not happen) or ``"unknown"`` (nobody can tell).
A line is written by one system call, before the client goes on: what a killed client noted is
there, and what it was about to do stays without an answer. ``at`` is in nanoseconds of the
boot-time clock, which all processes of the machine share and which counts suspended time.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Book", "Entry", "Line", "entries_of", "now_ns", "read"]

Line = dict[str, Any]


def now_ns() -> int:
    """Return nanoseconds since boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Book:
    """The history of one client; usable from any thread."""

    def __init__(self, folder: Path, who: str) -> None:
        self.who = who
        self._count = itertools.count()
        self._file = os.open(folder / f"{who}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def invoke(self, what: str, **facts: Any) -> Asked:
        """Note that something is about to be asked."""
        name = f"{self.who}.{next(self._count)}"
        self.line({"id": name, "is": "invoke", "what": what, "at": now_ns(), **facts})
        return Asked(self, name)

    def line(self, line: Line) -> None:
        """Write a line."""
        os.write(self._file, (json.dumps(line) + "\n").encode())


class Asked:
    """Something that was asked, and that is answered once."""

    def __init__(self, book: Book, name: str) -> None:
        self._book = book
        self.name = name

    def ok(self, **facts: Any) -> None:
        """Note that it happened."""
        self._answer("ok", facts)

    def fail(self, why: str) -> None:
        """Note that it did not happen."""
        self._answer("fail", {"why": why})

    def unknown(self, why: str) -> None:
        """Note that it may have happened."""
        self._answer("unknown", {"why": why})

    def _answer(self, how: str, facts: dict[str, Any]) -> None:
        self._book.line({"id": self.name, "is": how, "at": now_ns(), **facts})


@dataclass
class Entry:
    """An operation: what was asked, and how it was answered; "unknown" if it was not."""

    name: str
    what: str
    called: int
    facts: dict[str, Any]
    how: str = "unknown"
    returned: int | None = None
    answer: dict[str, Any] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """The client."""
        return self.name.partition(".")[0]


def read(folder: Path) -> Iterator[Line]:
    """Yield the lines of all clients, client by client."""
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            yield json.loads(text)


def entries_of(lines: Iterator[Line]) -> dict[str, Entry]:
    """Return the operations by their names, in the order in which each client asked."""
    found: dict[str, Entry] = {}
    for line in lines:
        rest = {key: value for key, value in line.items() if key not in ("id", "is", "what", "at")}
        if line["is"] == "invoke":
            found[line["id"]] = Entry(line["id"], line["what"], line["at"], rest)
        else:
            entry = found[line["id"]]
            assert entry.returned is None, f"answered twice: {line}"
            entry.how, entry.returned, entry.answer = line["is"], line["at"], rest
    return found
