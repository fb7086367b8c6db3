"""The two scenes: what is shared in each, who does what, and what became of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from recipes.cli.demo.bank import TOTAL, Bank
from recipes.cli.demo.member import Message
from recipes.cli.demo.orders import Order, SceneName
from recipes.cli.demo.turns import Turn
from recipes.cli.demo.verdict import Locked, LockedSums, Sums, Unlocked
from recipes.cli.demo.work import Work
from recipes.cli.demo.worker import LOCK, RWLOCK, writes

__all__ = ["SCENES", "BankScene", "CounterScene", "Scene", "turn_of"]

TURN = tuple(field.name for field in fields(Turn))


def turn_of(message: Message) -> Turn:
    """Return the turn that a message tells of."""
    return Turn(**{name: message[name] for name in TURN if name in message})


@dataclass(frozen=True, slots=True)
class Scene(ABC):
    """One part of the demonstration.

    Attributes:
        processes: How many workers, and how many twins.
        order: What each is asked for.
    """

    processes: int
    order: Order

    name: ClassVar[SceneName]
    number: ClassVar[int]
    title: ClassVar[str]
    lock: ClassVar[str]
    does: ClassVar[str]

    @abstractmethod
    def role(self, worker: int) -> str:
        """Return what a worker is here, in one word."""

    @abstractmethod
    def prepare(self, folder: Path) -> None:
        """Make the files of both sides."""

    @abstractmethod
    def wrong(self, before: int, turns: int, value: int) -> int:
        """Return how many turns are lost or wrong, if the last of so many has this value."""


@dataclass(frozen=True, slots=True)
class CounterScene(Scene):
    """Everybody adds one to a number in a file."""

    name: ClassVar[SceneName] = "counter"
    number: ClassVar[int] = 1
    title: ClassVar[str] = "a counter, and a lock"
    lock: ClassVar[str] = LOCK
    does: ClassVar[str] = "each turn reads a number from a file, waits 2 ms, and writes it plus one"

    def role(self, worker: int) -> str:
        """Return what a worker is here, in one word."""
        return "worker"

    def prepare(self, folder: Path) -> None:
        """Make the files of both sides."""
        for side in ("locked", "unlocked"):
            Work(folder, side).prepare()

    def wrong(self, before: int, turns: int, value: int) -> int:
        """Return how many updates are lost: the number should count them all."""
        return max(turns - value, 0)

    def locked(self, folder: Path, turns: list[Message]) -> Locked:
        """Return what became of it under the lock."""
        work = Work(folder, "locked")
        return Locked(len(turns), work.counter(), work.ledger(), [turn_of(turn) for turn in turns])

    def unlocked(self, folder: Path, turns: list[Message]) -> Unlocked:
        """Return what became of it without the lock."""
        work = Work(folder, "unlocked")
        return Unlocked(len(turns), work.counter(), work.ledger())


@dataclass(frozen=True, slots=True)
class BankScene(Scene):
    """Writers move money between accounts, readers add it up."""

    name: ClassVar[SceneName] = "bank"
    number: ClassVar[int] = 2
    title: ClassVar[str] = "accounts, and a read-write lock"
    lock: ClassVar[str] = RWLOCK
    does: ClassVar[str] = f"writers move money, downgrade, and read back; readers add up: always {TOTAL}"

    def role(self, worker: int) -> str:
        """Return what a worker is here, in one word."""
        return "writer" if writes(worker) else "reader"

    def prepare(self, folder: Path) -> None:
        """Make the files of both sides."""
        for side in ("locked", "unlocked"):
            Bank(folder, side).prepare()

    def wrong(self, before: int, turns: int, value: int) -> int:
        """Return how many sums were wrong: one more, if this one is."""
        return before + (value != TOTAL)

    def locked(self, folder: Path, turns: list[Message]) -> LockedSums:
        """Return what became of it under the read-write lock."""
        sums = self.unlocked(folder, turns, "locked")
        return LockedSums(sums.sums, sums.money, sums.moved, sums.ledger, [turn_of(turn) for turn in turns])

    def unlocked(self, folder: Path, turns: list[Message], side: str = "unlocked") -> Sums:
        """Return what became of it without a lock."""
        bank = Bank(folder, side)
        moved = sum(writes(turn["worker"]) for turn in turns)
        return Sums([turn["value"] for turn in turns], sum(bank.balances()), moved, bank.ledger())


SCENES = (CounterScene, BankScene)
