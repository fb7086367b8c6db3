"""One process: ``python -m integration.multilock.process API URL SETTINGS`` (JSON).

It says "ready", begins when told, prints what it found, and closes its client when told.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import recipes
from integration.crowd.visits import APIS, Tasks, Threads
from integration.multilock import NAMES
from integration.opening import opened, opened_in_tasks

WAYS = {"wait": 10, "timeout": 3, "try": 3, "cancel": 2}
SHORTEST_S, LONGEST_S = 0.001, 0.3
INSIDE_S = 0.002


class Rounds:
    """What one process does."""

    def __init__(self, client: Any, api: Tasks | Threads, settings: dict[str, Any]) -> None:
        self.client = client
        self.api = api
        self.who = settings["name"]
        self.folder = Path(settings["folder"])
        self.rounds = settings["rounds"]
        self.chance = random.Random(f"{settings['seed']} {self.who}")
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def go(self) -> None:
        """Come so often."""
        for _ in range(self.rounds):
            names = self.chance.sample(NAMES, self.chance.randint(2, len(NAMES)))
            made = self.client.multilock(*map(self.client.lock, names))
            grant = await self._acquire(made)
            if grant is None:
                if self.client.grants:
                    self.wrong.append(f"{self.who} was given none of {names}, and has {self.client.grants}")
                continue
            with self._inside(names):
                await self.api.pause(self.chance.uniform(0, INSIDE_S))
                if not (grant.held and all(grant[self.client.lock(name)].held for name in names)):
                    self.wrong.append(f"{self.who} holds not all of {names}: {grant.lost_reason}")
            if not await self.api.call(grant.release):
                self.wrong.append(f"{self.who} lost {names}: {grant.lost_reason}")
            if self.client.grants:
                self.wrong.append(f"{self.who} released {names}, and has {self.client.grants}")

    async def _acquire(self, made: Any) -> Any:
        (way,) = self.chance.choices(list(WAYS), list(WAYS.values()))
        moment_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self.chance.random()
        grant = None
        if way == "wait":
            grant = await self.api.call(made.acquire)
        elif way == "try":
            grant = await self.api.call(made.try_acquire)
        elif way == "cancel":
            grant = await self.api.cancel(made, moment_s)
        else:
            try:
                grant = await self.api.call(made.acquire, timeout=moment_s)
            except recipes.LockTimeout:
                pass
        self.counts[f"{way}: {'granted' if grant else 'given up'}"] += 1
        return grant

    @contextmanager
    def _inside(self, names: list[str]) -> Iterator[None]:
        """Mark each name as held by this process; another's mark is a lock with two holders."""
        marks = [self.folder / name for name in names]
        for mark in marks:
            try:
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                self.wrong.append(f"{self.who} is beside another in {mark.name}")
        yield
        for mark in marks:
            mark.unlink(missing_ok=True)


def tell(rounds: Rounds) -> None:
    """Print what was found, while the client is still open."""
    print(json.dumps({"counts": rounds.counts, "wrong": rounds.wrong}), flush=True)


def blocking(url: str, settings: dict[str, Any]) -> None:
    """Be a thread."""
    with opened(url, session_timeout=settings["session_s"]) as client:
        rounds = Rounds(client, Threads(), settings)
        print("ready", flush=True)
        sys.stdin.readline()
        Threads.run(rounds.go())
        tell(rounds)
        sys.stdin.readline()


async def tasks(url: str, settings: dict[str, Any]) -> None:
    """Be a task."""
    async with await opened_in_tasks(url, session_timeout=settings["session_s"]) as client:
        rounds = Rounds(client, Tasks(), settings)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await rounds.go()
        tell(rounds)
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    _, chosen, address, described = sys.argv
    assert chosen in APIS
    if chosen == "blocking":
        blocking(address, json.loads(described))
    else:
        asyncio.run(tasks(address, json.loads(described)))
