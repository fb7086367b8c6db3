"""Holders that write values under their grants, one for each lane, until they are told to end.

``python -m integration.pausing.guarded_writer URL API LANES SESSION_S HOW``. Each lane takes its lock, and
then writes its value again and again by `Grant.guarding`, if it is as this lane left it; or ``plain``,
whatever is there, as long as the grant says that it is held. It says ``granted LANE TOKEN``, ``lost LANE
TOKEN WRITES``, and ``wrong LANE WHY`` if a write of another landed while it held.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import threading
from typing import Any

import recipes
from integration.crowd.visits import Tasks, Threads

REQUEST_S = 1.0
GAP_S = 0.004
EXPECTED = (recipes.StoreError, recipes.SessionLost)


def say(*words: object) -> None:
    """Print one line, by one system call."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Lane:
    """One lock, and the value that its holders write."""

    def __init__(self, client: Any, api: Tasks | Threads, number: int, how: str) -> None:
        self._api, self._number, self._plain = api, number, how == "plain"
        self._chance = random.Random(f"{os.getpid()} {number}")
        self._lock, self._value = client.lock(f"lane {number}"), client.value(f"lane {number}")

    async def go(self, over: threading.Event) -> None:
        """Hold and write, again and again."""
        while not over.is_set():
            try:
                grant = await self._api.call(self._lock.acquire)
            except EXPECTED:
                continue
            say("granted", self._number, grant.token)
            await self._hold(grant, over)
            with contextlib.suppress(*EXPECTED):
                await self._api.call(grant.release)

    async def _hold(self, grant: Any, over: threading.Event) -> None:
        guarded, term = grant.guarding(self._value), Term(grant.token)
        while not over.is_set():
            await self._api.pause(self._chance.uniform(0, GAP_S))
            try:
                term.saw(await self._api.call(self._value.get))
                data = b"%d %d" % (grant.token, self._chance.getrandbits(40))
                if self._plain:
                    grant.check()
                    await self._api.pause(self._chance.uniform(0, GAP_S))  # as work takes time
                    await self._api.call(self._value.set, data=data)
                    continue
                done = await self._api.call(guarded.set_if, data=data, version=term.version)
            except recipes.LockLost:
                break
            except EXPECTED:
                continue
            term.wrote(done=done)
        for what in term.wrong:
            say("wrong", self._number, what)
        say("lost", self._number, grant.token, term.writes)


class Term:
    """What one grant's holder wrote and read, and what of it cannot be.

    Until a write of its own has landed it reads what was there when it was granted; from then on what it
    wrote itself, until a later holder writes. No guarded write under this grant is answered any more after
    that.
    """

    def __init__(self, token: int) -> None:
        self._token = token
        self._first: int | None = None
        self._landed = False
        self._later: int | None = None
        self.version = 0
        self.writes = 0
        self.wrong: list[str] = []

    def saw(self, found: recipes.Versioned | None) -> None:
        """Judge what was read."""
        self.version = 0 if found is None else found.version
        theirs = None if found is None else int(found.data.split()[0])
        if theirs == self._token:
            self._landed = True
        elif theirs is not None and theirs > self._token:
            self._later = theirs
        elif self._landed or self.version != (self.version if self._first is None else self._first):
            self.wrong.append(f"a write of {theirs} landed under {self._token}")
        if self._first is None:
            self._first = self.version

    def wrote(self, *, done: bool) -> None:
        """Judge that a guarded write was answered, and not by `LockLost`."""
        self.writes += done
        self._landed = self._landed or done
        if self._later is not None:
            self.wrong.append(f"{self._token} may still write after {self._later} wrote")


def blocking(url: str, lanes: int, session_s: float, how: str) -> None:
    """Hold by threads."""
    over = threading.Event()
    client = recipes.connect(url, session_timeout=session_s, request_timeout=REQUEST_S)
    going = [Lane(client, Threads(), number, how).go(over) for number in range(lanes)]
    for one in going:
        threading.Thread(target=Threads.run, args=(one,), daemon=True).start()
    sys.stdin.readline()


async def tasks(url: str, lanes: int, session_s: float, how: str) -> None:
    """Hold by tasks."""
    over = threading.Event()
    client = recipes.connect_async(url, session_timeout=session_s, request_timeout=REQUEST_S)
    going = [asyncio.create_task(Lane(client, Tasks(), number, how).go(over)) for number in range(lanes)]
    await asyncio.to_thread(sys.stdin.readline)
    assert not any(one.done() for one in going), "a lane ended by itself"


if __name__ == "__main__":
    _, where, which, count, seconds, way = sys.argv
    if which == "blocking":
        blocking(where, int(count), float(seconds), way)
    else:
        asyncio.run(tasks(where, int(count), float(seconds), way))
    os._exit(0)  # what holds is left to the end of its session
