"""The rest of the recipes as lanes: re-entrant locks, permits, several locks, shares, latches, barriers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import recipes
from integration.chaos.history import Asked, now_ns
from integration.chaos.lanes import EXPECTED, LANES, Held, Joiner, Lane, Sharing

__all__ = ["ALL", "MEETING", "PARTIES", "PERMITS", "PERMITS_OF"]

WAYS = {"wait": 8, "short": 3, "try": 3}
DEEPEST = 3
PERMITS, PERMITS_OF = "permits", 3
"""The semaphore, and how many permits it has."""
PARTS = 4
ITEMS = tuple(f"item {number}" for number in range(6))
LOOKS_S = 0.05
COUNTS = {"count_down": 6, "left": 3, "wait": 1}
MOST = 10**9
MEETING, PARTIES = "meeting", 3
"""The barrier, and how many pass together."""


class Reentering(Lane):
    """Takes a lock again while it holds it, and gives it back in any order."""

    async def turn(self) -> None:
        lock, depth = self.client.rlock("again"), self.chance.randrange(DEEPEST)
        held = await self.acquire(lock, "exclusive", WAYS)
        if held is None:
            return
        inner: list[Any] = []
        try:
            while len(inner) < depth:
                inner.append(await self.api.call(lock.acquire, timeout=self.shape.wait_s))
        except (*EXPECTED, recipes.LockLost):  # it was lost, and is not entered again until all are released
            pass
        assert all(grant.token == held.grant.token for grant in inner), "one contender, one token"
        await self.work(held)
        for grant in inner:
            await self.api.call(grant.release)
        await self.release(held)


class Permits:
    """So many permits, in the words of a lock."""

    name = PERMITS

    def __init__(self, client: Any, weight: int) -> None:
        self._some = client.semaphore(PERMITS, PERMITS_OF).of(weight)
        self.acquire = self._some.acquire
        self.try_acquire = self._some.try_acquire


class Permitted(Lane):
    """Takes some permits of a semaphore."""

    async def turn(self) -> None:
        weight = self.chance.randint(1, PERMITS_OF - 1)
        held = await self.acquire(Permits(self.client, weight), "shared", weight=weight)
        if held is not None:
            await self.work(held)
            await self.release(held)


class Together(Lane):
    """Takes several locks at once; what is noted is a grant of each."""

    async def turn(self) -> None:
        names = self.chance.sample(range(PARTS), self.chance.randint(2, PARTS - 1))
        locks = [self.client.lock(f"part {number}") for number in names]
        asked = [
            self.book.invoke("acquire", lock=lock.name, mode="exclusive", way="together") for lock in locks
        ]
        try:
            grant = await self.api.call(self.client.multilock(*locks).acquire, timeout=self.shape.wait_s)
        except EXPECTED as error:
            for one in asked:
                one.fail(type(error).__name__)
            return
        held = []
        for lock, one in zip(locks, asked, strict=True):
            part = grant[lock]
            one.ok(token=part.token, session=part._hold.session.id)
            held.append(Held(part, one.name))
        await self.api.pause(self.chance.uniform(0, self.shape.hold_s))
        await self._release(grant, held)

    async def _release(self, grant: Any, held: list[Held]) -> None:
        asked = [self.book.invoke("release", of=one.name, held=one.held(), seen=one.seen) for one in held]
        try:
            was_held = await self.api.call(grant.release)
        except EXPECTED as error:
            for one in asked:
                one.unknown(type(error).__name__)
        else:
            for one in asked:
                one.ok(was_held=was_held)


class Dividing(Lane):
    """Joins a group for a while and holds its share of some items; each is a lock."""

    async def turn(self) -> None:
        joiner = Joiner(self.client.group("shares"), self.book.who, called="shares ")
        asked = {item: self._asks(item) for item in ITEMS}
        member = await self.acquire(joiner, "exclusive", {"wait": 1})
        items: dict[str, Held] = {}
        if member is not None:
            await self._share(member, asked, items)
            await self.release(member)
        for held in items.values():
            self._leaves(held)
        for one in asked.values():
            one.fail("not assigned")

    def _asks(self, item: str) -> Asked:
        return self.book.invoke("acquire", lock=item, mode="exclusive", way="share")

    async def _share(self, member: Held, asked: dict[str, Asked], items: dict[str, Held]) -> None:
        """Work on what is assigned until the time is over, or the membership is lost."""
        until = now_ns() + self.chance.uniform(0, self.shape.stay_s) * 1e9
        partitions = member.grant.partitions(ITEMS)
        leaving: list[str] = []
        while member.held() and now_ns() < until:
            for item in leaving:
                self._leaves(items.pop(item))
                asked[item] = self._asks(item)
            try:
                assignment = await self.api.call(partitions.next, timeout=LOOKS_S)
            except (*EXPECTED, recipes.LockLost):
                return
            leaving = []
            if assignment is not None:
                leaving = [item for item in assignment.leaving if item in items]
                for item, grant in assignment.new.items():
                    one = asked.pop(item)
                    one.ok(token=grant.token, session=grant._hold.session.id)
                    items[item] = Held(grant, one.name)
            for held in items.values():
                held.held()

    def _leaves(self, held: Held) -> None:
        """Note that an item is let go of, at a time that is not known."""
        still = held.held()
        self.book.invoke("release", of=held.name, held=still, seen=held.seen).unknown("behind the scenes")


class Latching(Sharing):
    """Counts a latch down that never opens; as a counter, it is what was counted so far."""

    name = "latch 0"

    async def turn(self) -> None:
        latch = self.client.latch(self.name, MOST)
        (what,) = self.chance.choices(list(COUNTS), list(COUNTS.values()))
        if what == "count_down":
            await self.ask("add", self.name, latch.count_down, count=1)
        elif what == "left":
            await self.ask("get", self.name, latch.left)
        else:
            try:
                opened = await self.api.call(latch.wait, timeout=LOOKS_S)
            except EXPECTED:
                return
            assert not opened, "it is closed until it was counted down"

    def means(self, answer: Any) -> Any:
        return MOST - answer


class Meeting(Lane):
    """Waits at a barrier for two others."""

    async def turn(self) -> None:
        asked = self.book.invoke("meet", of=MEETING)
        barrier = self.client.barrier(MEETING, PARTIES)
        try:
            index = await self.api.call(barrier.wait, timeout=self.shape.wait_s)
        except recipes.BarrierBroken as error:
            asked.fail(error.reason)
        except EXPECTED as error:
            asked.unknown(type(error).__name__)
        else:
            asked.ok(index=index)


class Blocks(Lane):
    """Notes how many blocks of memory Python has given out, which says more than the size of a process."""

    folder: Path

    async def turn(self) -> None:
        path = self.folder / f"{self.book.who}.blocks"
        beside = path.with_suffix(".new")
        beside.write_text(str(sys.getallocatedblocks()))
        beside.rename(path)


class Leaking(Lane):
    """Leaks on purpose, whatever there is: what a soak that is worth anything refuses."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._kept: list[Any] = []

    async def turn(self) -> None:
        self._kept += [[number] for number in range(20_000)]
        self._kept.append(bytearray(b"x" * 2**19))
        self._kept.append(os.open("/dev/null", os.O_RDONLY))
        try:
            for _ in range(5):
                value = self.client.value(f"leak {self.chance.getrandbits(64):x}")
                await self.api.call(value.set, data=b"stays")
        except EXPECTED:
            return


ALL: dict[str, type[Lane]] = {
    **LANES,
    "reentering": Reentering,
    "permits": Permitted,
    "together": Together,
    "dividing": Dividing,
    "latching": Latching,
    "meeting": Meeting,
    "blocks": Blocks,
    "leaking": Leaking,
}
"""Every lane there is."""
