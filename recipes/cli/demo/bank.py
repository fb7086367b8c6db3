"""The second scene's work: accounts in a file, money that moves between them, and sums over all.

The file has no protection of its own. A transfer reads two accounts, takes from the one,
pauses, and gives to the other: whoever adds the accounts up in between misses the amount, and
of two transfers from one account at the same time one is forgotten, so that money is made or lost.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from recipes.cli.demo.ledger import Entry, Ledger
from recipes.cli.demo.work import PAUSE_S

__all__ = ["ACCOUNTS", "TOTAL", "Bank"]

ACCOUNTS = 4
OPENING = 250
TOTAL = ACCOUNTS * OPENING
"""What every sum has to be: a transfer makes no money, and loses none."""
LARGEST = 20
WIDTH = 12
"""Bytes of an account: each is read and written whole, and they are not kept in step with each other."""


class Bank:
    """The accounts and the ledger of transfers, in one folder.

    Args:
        folder: Where they are.
        name: What this side of the run is called; sides do not share files.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._accounts = folder / f"{name}.accounts"
        self._ledger = Ledger(folder / f"{name}.transfers")

    def prepare(self) -> None:
        """Open the accounts."""
        self._accounts.write_bytes(b"".join(map(_record, [OPENING] * ACCOUNTS)))
        self._ledger.prepare()

    def ledger(self) -> list[Entry]:
        """Return the amounts moved, in the order in which they were."""
        return self._ledger.entries()

    def balances(self, pause_s: float = 0.0) -> list[int]:
        """Return what each account says, read one after the other with a pause half-way."""
        with self._open(os.O_RDONLY) as file:
            first = [_read(file, number) for number in range(ACCOUNTS // 2)]
            time.sleep(pause_s)
            return [*first, *(_read(file, number) for number in range(ACCOUNTS // 2, ACCOUNTS))]

    def transfer(
        self, worker: int, token: int | None, dice: random.Random, pause_s: float = PAUSE_S
    ) -> dict[int, int]:
        """Move some money from one account to another; returns what was written, by account."""
        payer, payee = dice.sample(range(ACCOUNTS), 2)
        amount = dice.randint(1, LARGEST)
        with self._open(os.O_RDWR) as file:
            written = {payer: _read(file, payer) - amount, payee: _read(file, payee) + amount}
            for number, balance in written.items():
                time.sleep(pause_s / 2)
                os.pwrite(file, _record(balance), number * WIDTH)
        self._ledger.note(Entry(token, worker, amount))
        return written

    @contextmanager
    def _open(self, how: int) -> Generator[int]:
        file = os.open(self._accounts, how)
        try:
            yield file
        finally:
            os.close(file)


def _record(balance: int) -> bytes:
    return f"{balance:{WIDTH - 1}}\n".encode()


def _read(file: int, number: int) -> int:
    return int(os.pread(file, WIDTH, number * WIDTH))
