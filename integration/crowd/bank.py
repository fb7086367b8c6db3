"""What the lock protects, and nothing else does: accounts, and marks of who is inside.

Both are files, so that every process of the crowd shares them. A transfer is torn on
purpose: the caller pauses in the middle, and so does one that sums.
"""

from __future__ import annotations

import mmap
import os
import random
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Bank", "Witness"]

ACCOUNTS, BALANCE = 16, 100
SIZE = 8

Pause = Callable[[], Awaitable[None]]


class Bank:
    """Accounts whose sum is constant, as long as nobody looks in the middle of a transfer."""

    total = ACCOUNTS * BALANCE

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._accounts = mmap.mmap(file.fileno(), 0)

    @staticmethod
    def found(path: Path) -> None:
        """Make the file."""
        path.write_bytes(struct.pack("<q", BALANCE) * ACCOUNTS)

    def read(self, account: int) -> int:
        """Return what is in one account."""
        return int(struct.unpack_from("<q", self._accounts, account * SIZE)[0])

    def _write(self, account: int, amount: int) -> None:
        struct.pack_into("<q", self._accounts, account * SIZE, amount)

    async def transfer(self, chance: random.Random, pause: Pause) -> dict[int, int]:
        """Move an amount; returns what the two accounts hold then."""
        giver, taker = chance.sample(range(ACCOUNTS), 2)
        amount = chance.randint(1, 9)
        left, more = self.read(giver) - amount, self.read(taker) + amount
        self._write(giver, left)
        await pause()
        self._write(taker, more)
        return {giver: left, taker: more}

    async def sum(self, pause: Pause) -> int:
        """Return the sum of all accounts."""
        half = sum(map(self.read, range(ACCOUNTS // 2)))
        await pause()
        return half + sum(map(self.read, range(ACCOUNTS // 2, ACCOUNTS)))


class Witness:
    """Marks of who is inside: each marks itself first, and looks for others after that."""

    def __init__(self, folder: Path) -> None:
        self._writer = folder / "writer"
        self._readers = folder / "readers"
        self._readers.mkdir(exist_ok=True)
        self.seen: list[str] = []

    @contextmanager
    def writer(self, who: str) -> Iterator[None]:
        """Mark a writer, who is alone when it comes and when it goes."""
        try:
            os.close(os.open(self._writer, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            self.seen.append(f"{who} writes beside a writer")
        self._look(who)
        yield
        self._look(who)
        with suppress(FileNotFoundError):
            self._writer.unlink()

    @contextmanager
    def reader(self, who: str) -> Iterator[None]:
        """Mark a reader, beside whom no writer is when it comes and when it goes."""
        mark = self._readers / who
        mark.touch()
        self._look_for_writer(who)
        yield
        self._look_for_writer(who)
        mark.unlink()

    def _look(self, who: str) -> None:
        if others := os.listdir(self._readers):  # noqa: PTH208 - a hot path
            self.seen.append(f"{who} writes beside readers: {others}")

    def _look_for_writer(self, who: str) -> None:
        if self._writer.exists():
            self.seen.append(f"{who} reads beside a writer")
