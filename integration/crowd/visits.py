"""What one member of the crowd does, round after round, in the words of either API."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import recipes
from integration.crowd.bank import Bank, Witness
from recipes._run.clock import boot_time
from tests.histories.checks import Visit

__all__ = ["APIS", "Found", "Member", "Tasks", "Threads"]

WAYS = {"wait": 10, "timeout": 4, "try": 3, "cancel": 3}
SHORTEST_S, LONGEST_S = 0.001, 3.0
DOWNGRADES = 0.5
LULL_S = 1.0


class Tasks:
    """How a task calls."""

    async def call(self, method: Any, **options: Any) -> Any:
        """Call a method of a lock or of a grant."""
        return await method(**options)

    async def cancel(self, lock: Any, after_s: float) -> Any:
        """Acquire, and be cancelled after a while."""

        async def acquire() -> Any:
            return await lock.acquire()

        task = asyncio.create_task(acquire())
        await asyncio.wait({task}, timeout=after_s)
        task.cancel()
        try:
            return await task
        except asyncio.CancelledError:
            return None

    async def pause(self, seconds: float) -> None:
        """Let others go on."""
        await asyncio.sleep(seconds)


class Threads:
    """How a thread calls; what it awaits is never suspended, so that `run` needs no loop."""

    def __init__(self) -> None:
        self._never = threading.Event()

    async def call(self, method: Any, **options: Any) -> Any:
        return method(**options)

    async def cancel(self, lock: Any, after_s: float) -> Any:
        """Acquire; a thread cannot be cancelled, it can be out of time."""
        try:
            return lock.acquire(timeout=after_s)
        except recipes.LockTimeout:
            return None

    async def pause(self, seconds: float) -> None:
        self._never.wait(seconds)

    @staticmethod
    def run(work: Coroutine[Any, Any, None]) -> None:
        """Run what never suspends."""
        try:
            work.send(None)
        except StopIteration:
            return
        raise AssertionError("a blocking call should not suspend")


APIS: dict[str, type[Tasks | Threads]] = {"asyncio": Tasks, "blocking": Threads}


@dataclass
class Found:
    """What the members of one process noted."""

    visits: list[Visit] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Member:
    """A reader or a writer."""

    who: str
    rwlock: Any
    writes: bool
    api: Tasks | Threads
    bank: Bank
    witness: Witness
    found: Found
    chance: random.Random

    async def go(self, rounds: int) -> None:
        """Come so often."""
        for _ in range(rounds):
            asked = boot_time()
            grant = await self._acquire()
            if grant is not None:
                await self._inside(grant, asked, boot_time())
            if self.writes:  # so that there are moments without one, and readers may try
                await self.api.pause(self.chance.uniform(0, LULL_S))

    async def _acquire(self) -> Any:
        lock = self.rwlock.writer if self.writes else self.rwlock.reader
        (way,) = self.chance.choices(list(WAYS), list(WAYS.values()))
        moment_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self.chance.random()
        grant = None
        if way == "wait":
            grant = await self.api.call(lock.acquire)
        elif way == "try":
            try:
                grant = await self.api.call(lock.try_acquire)
            except recipes.StoreUnavailable:
                way = "try without an answer"
        elif way == "cancel":
            grant = await self.api.cancel(lock, moment_s)
        else:
            try:
                grant = await self.api.call(lock.acquire, timeout=moment_s)
            except recipes.LockTimeout:
                pass
        self.found.counts[f"{way}: {'granted' if grant else 'given up'}"] += 1
        return grant

    async def _inside(self, grant: Any, asked: float, granted: float) -> None:
        downgraded = None
        if self.writes:
            with self.witness.writer(self.who):
                written = await self.bank.transfer(self.chance, self._pause)
            if self.chance.random() < DOWNGRADES:
                downgraded = await self._read_back(grant, written)
        else:
            with self.witness.reader(self.who):
                total = await self.bank.sum(self._pause)
            if total != self.bank.total:
                self.found.wrong.append(f"{self.who} read a total of {total}")
        released = boot_time()
        if not await self.api.call(grant.release):
            self.found.wrong.append(f"{self.who} lost its grant: {grant.lost_reason}")
        visit = Visit(self.writes, grant.token, asked, granted, released, downgraded, self.who)
        self.found.visits.append(visit)

    async def _read_back(self, grant: Any, written: dict[int, int]) -> float:
        """Downgrade, and see that what was written is there, and goes on to be."""
        downgraded = boot_time()
        await self._downgrade(grant)
        self.found.counts["downgraded"] += 1
        with self.witness.reader(self.who):
            await self._pause()
            total = await self.bank.sum(self._pause)
            left = {account: self.bank.read(account) for account in written}
        if left != written or total != self.bank.total:
            self.found.wrong.append(f"{self.who} wrote {written} and read {left}, in all {total}")
        return downgraded

    async def _downgrade(self, grant: Any) -> None:
        while True:
            try:
                return await self.api.call(grant.downgrade)
            except recipes.StoreUnavailable:
                self.found.counts["downgrade asked again"] += 1

    async def _pause(self) -> None:
        await self.api.pause(self.chance.uniform(0, 0.002))
