"""What reading and writing a value does to the tables, inside one transaction.

Which copy of a write is done, `recipes.stores.receipts` says.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from recipes._contract.operations import Stored, Write
from recipes.stores._kit.queue import Put
from recipes.stores.receipts import Exchanged

__all__ = ["put", "read"]

Run = Callable[..., sqlite3.Cursor]

READ = "SELECT data, version FROM value WHERE key = ?"
RECEIPT = "SELECT version, said FROM receipt WHERE session = ? AND key = ?"
SET = """
INSERT INTO value (key, version, data) VALUES (?, ?, ?)
ON CONFLICT (key) DO UPDATE SET version = excluded.version, data = excluded.data
"""


def read(run: Run, key: str) -> Stored:
    """Return a value as it is."""
    found = run(READ, (key,)).fetchone()
    return Stored() if found is None else Stored(*found)


def put(run: Run, session: str, op: Put, token: Callable[[], int], *, guarded: bool) -> Exchanged:
    """Write a value and its receipt, or the receipt alone, if all is as expected.

    Args:
        run: Executes a statement.
        session: Whose receipt it is.
        op: What is to be done.
        token: Draws the next number of the machine, which is the version of what is written.
        guarded: Whether all guards stand.
    """
    asked, write = op.exchange, op.exchange.write
    for key, at in op.spent:
        run("DELETE FROM receipt WHERE session = ? AND key = ? AND version = ?", (session, key, at))
    receipt, said = run(RECEIPT, (session, write.key)).fetchone() or (0, b"")
    found = run("SELECT version FROM value WHERE key = ?", (write.key,)).fetchone()
    if not op.fits(receipt, 0 if found is None else found[0], guarded=guarded):
        return Exchanged(False, receipt, said, read(run, write.key), guarded)
    version = token()
    run("INSERT OR REPLACE INTO receipt VALUES (?, ?, ?, ?)", (session, write.key, version, asked.receipt))
    if asked.settles:
        return Exchanged(True, version, asked.receipt)
    return Exchanged(True, version, asked.receipt, _set(run, write, version))


def _set(run: Run, write: Write, version: int) -> Stored:
    if write.data is None:
        run("DELETE FROM value WHERE key = ?", (write.key,))
        return Stored()
    run(SET, (write.key, version, write.data))
    return Stored(write.data, version)
