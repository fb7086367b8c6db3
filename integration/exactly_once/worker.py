"""A process that adds: ``python -m integration.exactly_once.worker KIND URL NAME SESSION_S``.

It reads what to do from its standard input, line by line: ``add COUNT LANES`` adds one so often, in so
many threads or tasks beside each other, and ``get`` reads. It answers with lines: ``asked ID`` before each
addition, and then one of ``done ID SUM``, ``unknown ID WHY`` (it may have been done) and ``not ID WHY`` (it
was not done, and never will be; it is asked again under another id); ``over`` after all; ``found SUM``.
``java/Adder.java`` takes the same lines.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import recipes
from integration.opening import opened, opened_in_tasks

__all__ = ["KINDS"]

REQUEST_S = 5.0
MOST_TRIES = 1000
NOT_DONE = (recipes.StoreError, recipes.SessionLost)


def say(*words: object) -> None:
    """Print one line, by one system call: what a killed process was about to do stays without an answer."""
    os.write(1, (" ".join(str(word) for word in words).replace("\n", " ") + "\n").encode())


class Adder(ABC):
    """One client."""

    @abstractmethod
    def get(self) -> int:
        """Read the sum."""

    @abstractmethod
    def spread(self, count: int, lanes: int) -> None:
        """Add one so often, in so many lanes."""

    def serve(self) -> None:
        """Do what the lines say, until there are no more."""
        say("hello")
        for line in sys.stdin:
            match line.split():
                case ["get"]:
                    say("found", self.get())
                case ["add", count, lanes]:
                    self.spread(int(count), int(lanes))
                    say("over")


def _shares(count: int, lanes: int) -> list[int]:
    return [count // lanes + (lane < count % lanes) for lane in range(lanes)]


class Noted:
    """One addition at a time, and what came of it."""

    ids = itertools.count()

    def __init__(self) -> None:
        self.id = 0

    def ask(self) -> None:
        """Say that one is about to be asked."""
        self.id = next(self.ids)
        say("asked", self.id)

    def decided(self, error: Exception | None, result: int | None) -> bool:
        """Say what came of it; False: it was not done, and is to be asked again."""
        if isinstance(error, recipes.OutcomeUnknown):
            say("unknown", self.id, error.detail)
        elif error is not None:
            say("not", self.id, type(error).__name__, error)
            return False
        else:
            say("done", self.id, result)
        return True


class Threads(Adder):
    """Those that block."""

    def spread(self, count: int, lanes: int) -> None:
        with ThreadPoolExecutor(lanes) as pool:
            for one in [pool.submit(self._lane, share) for share in _shares(count, lanes)]:
                one.result()

    def _lane(self, count: int) -> None:
        add, note = self.lane(), Noted()
        for _ in range(count):
            for _ in range(MOST_TRIES):
                note.ask()
                if self.once(add, note):
                    break
            else:
                raise AssertionError("it should be added some time")

    @abstractmethod
    def lane(self) -> Callable[[], int]:
        """Return what adds one, for one thread."""

    def once(self, add: Callable[[], int], note: Noted) -> bool:
        """Add once, and say what came of it."""
        result, error = None, None
        try:
            result = add()
        except NOT_DONE as raised:
            error = raised
        return note.decided(error, result)


class Blocking(Threads):
    """This package."""

    def __init__(self, url: str, name: str, session_s: float) -> None:
        client = opened(url, session_timeout=session_s, request_timeout=REQUEST_S)
        self.counter = client.counter(name)

    def get(self) -> int:
        return self.counter.get()

    def lane(self) -> Callable[[], int]:
        return self.counter.add


class Asyncio(Adder):
    """This package, for asyncio."""

    def __init__(self, url: str, name: str, session_s: float) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.counter = self._run(self._open(url, name, session_s))

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def _open(self, url: str, name: str, session_s: float) -> Any:
        client = await opened_in_tasks(url, session_timeout=session_s, request_timeout=REQUEST_S)
        return client.counter(name)

    def get(self) -> int:
        return int(self._run(self.counter.get()))

    def spread(self, count: int, lanes: int) -> None:
        self._run(self._spread(_shares(count, lanes)))

    async def _spread(self, shares: list[int]) -> None:
        await asyncio.gather(*map(self._lane, shares))

    async def _lane(self, count: int) -> None:
        note = Noted()
        for _ in range(count):
            for _ in range(MOST_TRIES):
                note.ask()
                result, error = None, None
                try:
                    result = await self.counter.add()
                except NOT_DONE as raised:
                    error = raised
                if note.decided(error, result):
                    break
            else:
                raise AssertionError("it should be added some time")


class Kazoo(Threads):
    """kazoo's ``Counter``, which asks again for ever, as its locks do."""

    def __init__(self, address: str, name: str, session_s: float) -> None:
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry

        patient = {"max_tries": -1, "max_delay": 0.5}
        self.client = KazooClient(
            address, timeout=session_s, connection_retry=patient, command_retry=KazooRetry(**patient)
        )
        self.client.start(timeout=30)
        self.path = f"/{name}"

    def get(self) -> int:
        return int(self.client.Counter(self.path).value)

    def lane(self) -> Callable[[], int]:
        counter = self.client.Counter(self.path)

        def add() -> int:
            counter.__add__(1)  # as ``counter += 1`` does
            return int(counter.post_value)

        return add

    def once(self, add: Callable[[], int], note: Noted) -> bool:
        """Add once; what an error means is not said, so it may have been done."""
        try:
            say("done", note.id, add())
        except Exception as raised:
            say("unknown", note.id, type(raised).__name__, raised)
        return True


KINDS: dict[str, Callable[[str, str, float], Adder]] = {
    "blocking": Blocking,
    "asyncio": Asyncio,
    "kazoo": Kazoo,
}


if __name__ == "__main__":
    _, kind, where, what, seconds = sys.argv
    KINDS[kind](where, what, float(seconds)).serve()
    os._exit(0)  # threads of a client may wait for what never comes
