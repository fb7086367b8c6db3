"""What the locks of a run protect, in one file of SQLite each, shared by all clients.

A register is there three times: behind a gate (`recipes.fencing.SqlGate`), without one, and without
one but asking ``grant.held`` right before the write. All three take the same updates, so the
last two tell what the gate is good for. The bank is behind a gate as well.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

from recipes import StaleToken
from recipes.errors import LockLost
from recipes.fencing import SqlGate

__all__ = ["ACCOUNTS", "BALANCE", "REFUSED", "REGISTERS", "Bank", "Registers"]

ACCOUNTS, BALANCE = 8, 100
REGISTERS = ("fenced", "unfenced", "asked")
BUSY_S = 0.5  # whoever is stopped in the middle of a transaction has the others wait
REFUSED = (StaleToken, LockLost, sqlite3.OperationalError)
"""What says that a transaction did not happen."""


class _File:
    """A file of SQLite, with a connection for each thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._gate = SqlGate()
        self._local = threading.local()

    def connection(self) -> sqlite3.Connection:
        if not hasattr(self._local, "connection"):
            made = sqlite3.connect(self._path, timeout=BUSY_S, check_same_thread=False)
            made.execute("PRAGMA synchronous=OFF")
            self._local.connection = made
        found: sqlite3.Connection = self._local.connection
        return found

    def close(self) -> None:
        """Close the connection of this thread."""
        if hasattr(self._local, "connection"):
            self._local.connection.close()
            del self._local.connection

    @contextlib.contextmanager
    def transaction(self) -> Generator[sqlite3.Connection, None, None]:
        """Have all of the block happen, or nothing."""
        connection = self.connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def admit(self, connection: sqlite3.Connection, grant: Any, *, shared: bool = False) -> None:
        self._gate.admit(connection, self._path.name, grant.token, shared=shared)

    def found(self, *statements: str) -> None:
        """Make the file."""
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            for statement in (self._gate.ddl(), *statements):
                connection.execute(statement)
            connection.commit()


class Registers(_File):
    """Counts of updates; each is read, and written one higher, in two transactions."""

    def make(self) -> None:
        """Make the file."""
        rows = ", ".join(f"('{name}', 0)" for name in REGISTERS)
        self.found(
            "CREATE TABLE register (name TEXT PRIMARY KEY, value INT)", f"INSERT INTO register VALUES {rows}"
        )

    def values(self) -> dict[str, int]:
        """Return what is in each, asking no gate."""
        return dict(self.connection().execute("SELECT name, value FROM register"))

    def read(self, grant: Any) -> dict[str, int]:
        """Return what is in each, as the holder.

        The gate is asked with the token alone, so that it decides, and not the grant.

        Raises:
            StaleToken: A later holder was there.
        """
        with self.transaction() as connection:
            self.admit(connection, grant)
            return self.values()

    def write_fenced(self, grant: Any, value: int) -> None:
        """Write the fenced one, as the holder.

        Raises:
            StaleToken: A later holder was there.
        """
        with self.transaction() as connection:
            self.admit(connection, grant)
            self._set(connection, "fenced", value)

    def write(self, name: str, value: int) -> None:
        """Write one that no gate protects."""
        with self.transaction() as connection:
            self._set(connection, name, value)

    @staticmethod
    def _set(connection: sqlite3.Connection, name: str, value: int) -> None:
        connection.execute("UPDATE register SET value = ? WHERE name = ?", (value, name))


class Bank(_File):
    """Accounts whose sum is constant; everything takes two transactions, with a pause between them."""

    total = ACCOUNTS * BALANCE

    def make(self) -> None:
        """Make the file."""
        rows = ", ".join(f"({number}, {BALANCE})" for number in range(ACCOUNTS))
        self.found(
            "CREATE TABLE account (number INT PRIMARY KEY, balance INT)", f"INSERT INTO account VALUES {rows}"
        )

    def sum(self) -> int:
        """Return the sum of all accounts, asking no gate."""
        return int(self.connection().execute("SELECT sum(balance) FROM account").fetchone()[0])

    def balances(self, grant: Any, numbers: list[int], *, shared: bool = False) -> list[int]:
        """Return what is in these accounts, as the holder.

        Raises:
            StaleToken: A later writer was there.
        """
        with self.transaction() as connection:
            self.admit(connection, grant, shared=shared)
            found = dict(connection.execute("SELECT number, balance FROM account"))
            return [found[number] for number in numbers]

    def put(self, grant: Any, balances: dict[int, int]) -> None:
        """Write what is to be in these accounts, as the holder.

        Raises:
            StaleToken: A later holder was there.
        """
        with self.transaction() as connection:
            self.admit(connection, grant)
            for number, balance in balances.items():
                connection.execute("UPDATE account SET balance = ? WHERE number = ?", (balance, number))

    def drawn(self, chance: random.Random) -> tuple[list[int], int]:
        """Return from which account to which to move, and how much."""
        return chance.sample(range(ACCOUNTS), 2), chance.randint(1, 9)
