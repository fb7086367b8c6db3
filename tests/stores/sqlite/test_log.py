"""The log: what keeps it from beginning again is said once."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from recipes import StoreFull
from recipes.stores.sqlite import schema
from recipes.stores.sqlite import session as sessions
from recipes.stores.sqlite.schema import connect, meaning
from recipes.stores.sqlite.transactions import Transaction
from tests.stores.sqlite.connecting import join, renew


def test_a_reader_that_does_not_end_is_warned_of_once(
    connection: Any, path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sessions, "CHECKPOINT_CHANCE", 1.0)
    caplog.set_level(logging.WARNING, "recipes")
    a = connection("a")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM machine").fetchall()
    a.ask(renew("a"), 1.0)
    assert not caplog.records  # it is small yet
    monkeypatch.setattr(sessions, "LOG_WARNS", 1000)
    for _ in range(3):
        a.ask(renew("a"), 1.0)
    (said,) = caplog.messages
    assert said.startswith("label: the log has grown to 0 MB, as some process does not end its transaction")
    assert f"{path}-wal" in said
    reader.execute("COMMIT")
    reader.close()


def test_a_log_that_is_not_there_is_no_matter(connection: Any, path: str) -> None:
    a = connection("a")
    Path(f"{path}-wal").unlink()
    a.session._look_at_log()


def test_what_deleting_a_damaged_file_costs_is_said() -> None:
    error = sqlite3.DatabaseError("malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    assert "delete it: tokens begin anew then (malformed)" in str(meaning(error, "label"))


def test_a_checkpoint_copies_the_log_and_gives_way_to_a_reader(path: str) -> None:
    db, reader = (connect(path, "label", lambda db: False) for _ in range(2))
    assert db.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    assert Path(path).stat().st_size > schema.RESERVE
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM machine").fetchall()
    db.execute("UPDATE machine SET token = token + 1")
    assert not schema.checkpoint(db)
    reader.execute("COMMIT")
    assert schema.checkpoint(db)
    assert db.execute("PRAGMA busy_timeout").fetchone() == (0,)
    for one in (db, reader):
        one.close()


def test_a_checkpoint_keeps_writers_out_and_so_gives_way_to_one(path: str) -> None:
    db, writer = (connect(path, "label", lambda db: False) for _ in range(2))
    db.execute("UPDATE machine SET token = token + 1")
    writer.execute("BEGIN IMMEDIATE")
    assert not schema.checkpoint(db)
    writer.execute("COMMIT")
    assert schema.checkpoint(db)
    for one in (db, writer):
        one.close()


@pytest.mark.parametrize("made", [True, False])
def test_a_log_that_is_full_is_begun_again_once(
    connection: Any, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    def full(*_: object) -> None:
        tried.append("tried")
        raise StoreFull("label", "the disk is full")

    tried: list[str] = []
    a = connection("a")
    monkeypatch.setattr(Transaction, "carry_out", full)
    monkeypatch.setattr(sessions, "checkpoint", lambda db: made)
    with pytest.raises(StoreFull):
        a.ask(renew("a"), 1.0)
    assert len(tried) == 1 + made
    with pytest.raises(StoreFull):
        join(a, "a")
    assert len(tried) == 2 + made
