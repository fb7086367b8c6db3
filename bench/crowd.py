"""Processes with many waiters each (`bench.many`), and what holds the lock before them."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import recipes
from bench.many import session_s
from bench.stage import Turn
from integration.fleet.peers import Process

__all__ = ["Many", "holding", "together"]

PATIENCE_S = 300.0


class Many:
    """One process with many waiters."""

    def __init__(self, api: str, url: str) -> None:
        self._process = Process([sys.executable, "-m", "bench.many", api, url])
        assert self.answer() == "hello"

    def tell(self, *words: object) -> None:
        """Send a line."""
        self._process.tell(" ".join(map(str, words)))

    def answer(self) -> Any:
        """Return the next answer."""
        said = self._process.next_line(PATIENCE_S)
        if not said:
            raise AssertionError("a process with many waiters ended, or is silent")
        return json.loads(said)

    def size(self) -> dict[str, float]:
        """Return its memory (KiB), threads and connections."""
        self.tell("size")
        found: dict[str, float] = self.answer()
        return found

    def close(self) -> None:
        """End it."""
        self._process.finish(20)


@contextlib.contextmanager
def holding(url: str, *names: str) -> Iterator[contextlib.ExitStack]:
    """Hold locks for the time of the block, or until the stack that it yields is closed."""
    with recipes.connect(url, session_timeout=session_s(url)) as client, contextlib.ExitStack() as held:
        for name in names:
            held.enter_context(client.lock(name))
        yield held


def together(
    api: str, url: str, name: str, sizes: list[int], for_s: float, hold_s: float, *, by_waiter: bool = False
) -> Turn:
    """Have processes of so many waiters each hand a lock around, once all are in the queue.

    The turn has the spans of each process, or of each waiter of the first process, and then of the others.
    """
    with contextlib.ExitStack() as crowd:
        many = [Many(api, url) for _ in sizes]
        for one in many:
            crowd.callback(one.close)
        with contextlib.ExitStack() if api.startswith("plain") else holding(url, name) as held:
            for one, size in zip(many, sizes, strict=True):
                one.tell("join", name, size, 0, 1)
            assert all(one.answer() == "joined" for one in many)
            start = time.monotonic_ns()
            end = start + int(for_s * 1e9)
            for one in many:
                one.tell("spans", end, hold_s)
            held.close()
            found = [one.answer() for one in many]
    of_process = [[(got, gone) for got, gone, _ in spans] for spans in found]
    if not by_waiter:
        return Turn(of_process, start, end, 0.0, 0.0)
    of_waiter = [[(got, gone) for got, gone, who in found[0] if who == number] for number in range(sizes[0])]
    return Turn([*of_waiter, *of_process[1:]], start, end, 0.0, 0.0)
