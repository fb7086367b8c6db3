"""What a client does all the while, in the words of either API: lanes beside each other.

Each turn takes a lock in some way, does its work, asking now and then whether it still holds,
and gives it back. Whatever the faults do to it is noted; what they may not do is noted as wrong.
"""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import recipes
from integration.chaos.history import Asked, Book, now_ns
from integration.chaos.resources import ACCOUNTS, REFUSED, Bank, Registers

__all__ = ["EXPECTED", "LANES", "MEMBER", "Held", "Joiner", "Lane", "Shape", "Sharing"]

EXPECTED = (recipes.LockTimeout, recipes.StoreError, recipes.SessionLost)
"""What a call may raise under faults."""

WAYS = {"wait": 10, "short": 3, "try": 3, "cancel": 3}
SHORTEST_S, SHORT_S = 0.001, 0.3
NAMES = 20
STAYS, LOOKS_S = 2, 0.005
MEMBER, IDS = "member ", "abc"
DOWNGRADES, TRANSFERS = 0.3, 0.4
RUNS, LEADS = 0.5, 0.2
SHARED = 4
ASKS_VALUES = {"get": 8, "set": 5, "set_if": 5, "delete": 1}
ASKS_COUNTERS = {"add": 8, "get": 3, "set_if": 1}


@dataclass(frozen=True)
class Shape:
    """How long things take in a run.

    Attributes:
        wait_s: How long to wait for a lock.
        hold_s: How long a lock is held at most.
        update_s: How long an update of the registers takes at most, between its read and its write:
            longer, so that more of the pauses strike there.
        lead_s: How long a leader leads at most.
        stay_s: How long one that stays holds at most.
        rest_s: How long a lane rests at most between two turns.
    """

    wait_s: float = 1.5
    hold_s: float = 0.003
    update_s: float = 0.024
    lead_s: float = 0.5
    stay_s: float = 3.0
    rest_s: float = 0.002


class Held:
    """A grant, and when it was last seen to be held; 0 if it never was.

    A grant that was held then was held all the time since it was returned: what is lost stays lost.
    """

    def __init__(self, grant: Any, name: str) -> None:
        self.grant = grant
        self.name = name
        self.seen = 0
        self.held()

    def held(self) -> bool:
        """Whether the grant says that it is held; remembers since when that is known."""
        asked = now_ns()  # before the question: held at that moment, if it is held after it
        held: bool = self.grant.held
        if held:
            self.seen = asked
        return held


class Lane(ABC):
    """One thread or task of a client."""

    def __init__(self, client: Any, api: Any, book: Book, shape: Shape, chance: random.Random) -> None:
        self.client, self.api, self.book, self.shape, self.chance = client, api, book, shape, chance

    async def go(self, over: threading.Event) -> None:
        """Take turns until it is over."""
        while not over.is_set():
            try:
                await self.turn()
            except BaseException as error:
                self.book.line({"id": self.book.who, "is": "wrong", "at": now_ns(), "why": repr(error)})
                raise
            await self.api.pause(self.chance.uniform(0, self.shape.rest_s))

    @abstractmethod
    async def turn(self) -> None:
        """Take a lock, use it, give it back."""

    async def acquire(
        self, lock: Any, mode: str, ways: dict[str, int] | None = None, **facts: Any
    ) -> Held | None:
        """Take a lock in some way; None if that did not work."""
        ways = ways or WAYS
        (way,) = self.chance.choices(list(ways), list(ways.values()))
        short_s = SHORTEST_S * (SHORT_S / SHORTEST_S) ** self.chance.random()
        asked = self.book.invoke("acquire", lock=lock.name, mode=mode, way=way, **facts)
        try:
            if way == "try":
                grant = await self.api.call(lock.try_acquire)
            elif way == "cancel":
                grant = await self.api.cancel(lock, short_s)
            else:
                within_s = self.shape.wait_s if way == "wait" else short_s
                grant = await self.api.call(lock.acquire, timeout=within_s)
        except EXPECTED as error:
            asked.fail(type(error).__name__)
            await self.api.pause(self.chance.uniform(0, 0.02))
            return None
        if grant is None:
            asked.fail("not granted")
            return None
        asked.ok(token=grant.token, session=grant._hold.session.id)
        return Held(grant, asked.name)

    async def release(self, held: Held) -> None:
        """Give a lock back."""
        still = held.held()
        asked = self.book.invoke("release", of=held.name, held=still, seen=held.seen)
        try:
            asked.ok(was_held=await self.api.call(held.grant.release))
        except EXPECTED as error:
            asked.unknown(type(error).__name__)

    def attempt(self, what: str, do: Callable[[], Any], **facts: Any) -> Any:
        """Do something with what the lock protects; returns what it returned, None if it was refused."""
        asked = self.book.invoke(what, **facts)
        try:
            result = do()
        except REFUSED as error:
            asked.fail(type(error).__name__)
            return None
        asked.ok(result=result)
        return result if result is not None else True

    async def work(self, held: Held, at_most_s: float | None = None) -> None:
        """Take the time that work takes."""
        await self.api.pause(self.chance.uniform(0, at_most_s or self.shape.hold_s))
        held.held()


class Locks(Lane):
    """Takes one of several locks that protect nothing."""

    async def turn(self) -> None:
        lock = self.client.lock(f"lock-{self.chance.randrange(NAMES)}")
        held = await self.acquire(lock, "exclusive")
        if held is not None:
            await self.work(held)
            await self.release(held)


class Staying(Lane):
    """Holds a lock for so long that faults strike, or until it is lost, and asks all the while."""

    async def turn(self) -> None:
        lock = self.client.lock(f"stay-{self.chance.randrange(STAYS)}")
        held = await self.acquire(lock, "exclusive", {"wait": 1})
        if held is not None:
            until = now_ns() + self.chance.uniform(0, self.shape.stay_s) * 1e9
            while held.held() and now_ns() < until:
                await self.api.pause(LOOKS_S)
            await self.release(held)


class Counting(Lane):
    """Counts on the registers."""

    registers: Registers

    async def turn(self) -> None:
        held = await self.acquire(self.client.lock("registers"), "exclusive", {"wait": 1})
        if held is not None:
            await self._update(held)
            await self.release(held)

    async def _update(self, held: Held) -> None:
        grant = held.grant
        before = self.attempt("read", lambda: self.registers.read(grant), of=held.name)
        if before is None:
            return
        await self.work(held, self.shape.update_s)
        old = {"of": held.name, "value": before["fenced"] + 1}
        self.attempt(
            "write", lambda: self.registers.write_fenced(grant, old["value"]), register="fenced", **old
        )
        for name in ("unfenced", "asked"):
            new = before[name] + 1
            if name == "unfenced" or held.held():
                self.attempt(
                    "write",
                    lambda name=name, new=new: self.registers.write(name, new),  # type: ignore[misc]
                    register=name,
                    of=held.name,
                    value=new,
                )


class Banking(Lane):
    """Moves amounts as a writer, and sums as a reader, or as a writer that has downgraded."""

    bank: Bank

    async def turn(self) -> None:
        lock = self.client.rwlock("bank")
        if self.chance.random() < TRANSFERS:
            held = await self.acquire(lock.writer, "exclusive")
            if held is not None:
                await self._transfer(held)
                if self.chance.random() < DOWNGRADES and await self._downgrade(held):
                    await self._sum(held)
        else:
            held = await self.acquire(lock.reader, "shared")
            if held is not None:
                await self._sum(held)
        if held is not None:
            await self.release(held)

    async def _transfer(self, held: Held) -> None:
        numbers, amount = self.bank.drawn(self.chance)
        before = self.attempt("balances", lambda: self.bank.balances(held.grant, numbers), of=held.name)
        if before is None:
            return
        await self.work(held)
        after = dict(zip(numbers, (before[0] - amount, before[1] + amount), strict=True))
        self.attempt("transfer", lambda: self.bank.put(held.grant, after), of=held.name)

    async def _sum(self, held: Held) -> None:
        asked = self.book.invoke("sum", of=held.name)
        half = ACCOUNTS // 2
        try:
            one = self.bank.balances(held.grant, list(range(half)), shared=True)
            await self.work(held)
            other = self.bank.balances(held.grant, list(range(half, ACCOUNTS)), shared=True)
        except REFUSED as error:
            asked.fail(type(error).__name__)
        else:
            asked.ok(total=sum(one + other))

    async def _downgrade(self, held: Held) -> bool:
        if not held.held():
            return False
        asked: Asked = self.book.invoke("downgrade", of=held.name)
        try:
            await self.api.call(held.grant.downgrade)
        except (*EXPECTED, recipes.LockLost) as error:
            asked.unknown(type(error).__name__)
            return False
        asked.ok()
        return True


class Candidate:
    """An election, in the words of a lock."""

    name = "election"

    def __init__(self, client: Any) -> None:
        self.election = client.election("chief")

    def acquire(self, timeout: float | None = None) -> Any:
        """Campaign."""
        return self.election.campaign(timeout=timeout)

    def try_acquire(self) -> Any:
        """Campaign, if nothing else leads."""
        return self.election.campaign(timeout=0)


class Electing(Lane):
    """Leads an election, by a campaign or by `run`, and looks at which candidate leads."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._candidate = Candidate(self.client)
        self._leaders = self._candidate.election.observe()
        self._asked = self._releasing = Asked(self.book, "")

    async def turn(self) -> None:
        if self.chance.random() < RUNS:
            await self._run()
        else:
            held = await self.acquire(self._candidate, "exclusive")
            if held is not None:
                await self._proclaim(held)
                await self.work(held)
                await self.release(held)
        await self._observe()

    async def _observe(self) -> None:
        """See who leads, if that is news; whatever happens, it raises nothing."""
        asked = self.book.invoke("observe")
        seen = await self.api.call(self._leaders.next, timeout=SHORTEST_S, default=...)
        if seen is None or seen is ...:
            asked.fail("nothing new" if seen else "none leads")
        else:
            asked.ok(token=seen.token)

    async def _proclaim(self, held: Held) -> None:
        asked = self.book.invoke("proclaim", of=held.name)
        try:
            await self.api.call(held.grant.proclaim, value=held.name)
        except (*EXPECTED, recipes.LockLost) as error:
            asked.unknown(type(error).__name__)
        else:
            asked.ok()

    async def _run(self) -> None:
        """Lead until the work ends by itself: a leadership that is lost meanwhile is followed by another."""
        self._ask()
        tasks = type(self.api).__name__ == "Tasks"
        try:
            await self.api.call(self._candidate.election.run, work=self._task if tasks else self._thread)
        except EXPECTED as error:
            self._asked.fail(type(error).__name__)
        else:
            self._asked.fail("it need not lead again")
            self._releasing.ok(was_held=True)

    def _ask(self) -> None:
        self._asked = self.book.invoke("acquire", lock=Candidate.name, mode="exclusive", way="run")

    def _begins(self, leadership: Any) -> Held:
        self._asked.ok(token=leadership.token, session=leadership._hold.session.id)
        return Held(leadership, self._asked.name)

    def _ends(self, held: Held) -> None:
        still = held.held()
        self._releasing = self.book.invoke("release", of=held.name, held=still, seen=held.seen)
        self._ask()

    def _thread(self, leadership: Any) -> None:
        held = self._begins(leadership)
        try:
            leadership.lost.wait(self._lasts())
        finally:
            self._ends(held)

    async def _task(self, leadership: Any) -> None:
        held = self._begins(leadership)
        try:
            await self.api.pause(self._lasts())
        finally:
            self._ends(held)

    def _lasts(self) -> float:
        """Return for how long to work: now and then for so long that faults strike."""
        return self.chance.uniform(
            0, self.shape.lead_s if self.chance.random() < LEADS else self.shape.hold_s
        )


class Joiner:
    """A group, in the words of a lock of each id: an id has one member at a time."""

    def __init__(self, group: Any, member_id: str, called: str = MEMBER) -> None:
        self._group, self._id = group, member_id
        self.name = f"{called}{member_id}"

    def acquire(self, timeout: float | None = None) -> Any:
        """Join."""
        return self._group.join(id=self._id, timeout=timeout)

    def try_acquire(self) -> Any:
        """Join, if no other has the id."""
        return self._group.join(id=self._id, timeout=0)


class Joining(Lane):
    """Joins a group under ids that others have too, says something, and lists the members."""

    async def turn(self) -> None:
        group = self.client.group("crew")
        held = await self.acquire(Joiner(group, self.chance.choice(IDS)), "exclusive")
        if held is not None:
            await self._update(held)
        asked = self.book.invoke("members")
        try:
            members = await self.api.call(group.members)
        except EXPECTED as error:
            asked.fail(type(error).__name__)
        else:
            asked.ok(ids=[member.id for member in members])
        if held is not None:
            await self.work(held)
            await self.release(held)

    async def _update(self, held: Held) -> None:
        asked = self.book.invoke("update", of=held.name)
        try:
            await self.api.call(held.grant.update, data=held.name.encode())
        except (*EXPECTED, recipes.LockLost) as error:
            asked.unknown(type(error).__name__)
        else:
            asked.ok()


class Sharing(Lane):
    """Reads and writes what all share; what each call came to is noted."""

    @abstractmethod
    async def turn(self) -> None:
        """Ask once."""

    async def ask(self, what: str, name: str, method: Any, *arguments: Any, **facts: Any) -> Any:
        """Ask, and note what the answer `means`; ``...`` if there is none.

        Of a write that raised anything but `OutcomeUnknown` it is noted that it was not done, nor will be.
        """
        asked = self.book.invoke(what, of=name, **facts)
        try:
            answer = await self.api.call(partial(method, *arguments))
        except recipes.OutcomeUnknown as error:
            asked.unknown(error.detail)
        except (*EXPECTED, recipes.LockLost) as error:
            asked.fail(type(error).__name__)
            await self.api.pause(self.chance.uniform(0, 0.02))
        else:
            asked.ok(result=self.means(answer))
            return answer
        return ...

    def means(self, answer: Any) -> Any:
        """Return an answer as JSON can say it."""
        return [answer.data.decode(), answer.version] if isinstance(answer, recipes.Versioned) else answer


class Valuing(Sharing):
    """Reads, writes and deletes values, and writes them if they are as they were when it read them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._seen: dict[str, int] = {}

    async def turn(self) -> None:
        name = f"value {self.chance.randrange(SHARED)}"
        value, data = self.client.value(name), f"{self.book.who}-{self.chance.getrandbits(48):x}"
        (what,) = self.chance.choices(list(ASKS_VALUES), list(ASKS_VALUES.values()))
        version = self._seen.get(name, 0)
        if what == "get":
            found = await self.ask("get", name, value.get)
            self._seen[name] = found.version if isinstance(found, recipes.Versioned) else 0
        elif what == "set":
            await self.ask("set", name, value.set, data.encode(), data=data)
        elif what == "set_if":
            await self.ask("set_if", name, value.set_if, data.encode(), version, data=data, version=version)
        elif what == "delete" or not version:
            await self.ask("delete", name, value.delete, version=None)
        else:
            await self.ask("delete", name, value.delete, version, version=version)


class Adding(Sharing):
    """Adds to counters, reads them, and replaces them if they are as expected."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._seen: dict[str, int] = {}

    async def turn(self) -> None:
        name = f"counter {self.chance.randrange(SHARED)}"
        counter = self.client.counter(name)
        (what,) = self.chance.choices(list(ASKS_COUNTERS), list(ASKS_COUNTERS.values()))
        seen = self._seen.get(name, 0)
        if what == "get":
            found = await self.ask("get", name, counter.get)
        elif what == "add":
            found = await self.ask("add", name, counter.add, count=1)
        else:
            new = seen + self.chance.randint(-2, 2)
            done = await self.ask("set_if", name, counter.set_if, new, seen, new=new, expected=seen)
            found = new if done is True else ...
        if found is not ...:
            self._seen[name] = found


class Guarding(Sharing):
    """Writes a value under a lock, guarded by the grant alone, and reads it."""

    name = "guarded 0"

    async def turn(self) -> None:
        held = await self.acquire(self.client.lock(self.name), "exclusive")
        if held is None:
            return
        token = held.grant.token
        value = self.client.value(self.name)
        guarded = held.grant.guarding(value)
        for _ in range(self.chance.randint(1, 4)):
            data = f"{token}-{self.chance.getrandbits(32):x}"
            await self.ask("get", self.name, value.get)
            await self.ask("set", self.name, guarded.set, data.encode(), data=data, token=token)
        held.held()
        await self.release(held)


LANES: dict[str, type[Lane]] = {
    "locks": Locks,
    "staying": Staying,
    "counting": Counting,
    "banking": Banking,
    "electing": Electing,
    "joining": Joining,
    "valuing": Valuing,
    "adding": Adding,
    "guarding": Guarding,
}
