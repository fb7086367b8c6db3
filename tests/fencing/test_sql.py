from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from recipes import StaleToken
from recipes._rules.fence import WRITER, Pass, Seen
from recipes.fencing import AsyncSqlGate, SqlGate, statements
from recipes.fencing.statements import STYLES, Statement, admission, rendered, step

gate = SqlGate()


@pytest.fixture
def file(tmp_path: Path) -> str:
    with contextlib.closing(sqlite3.connect(tmp_path / "db")) as connection:
        connection.executescript(f"{gate.ddl()}; CREATE TABLE log (line TEXT)")
    return str(tmp_path / "db")


@pytest.fixture
def db(file: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(file, timeout=0)) as connection:
        yield connection


@pytest.fixture
def other(file: str) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(file, timeout=0, check_same_thread=False)) as connection:
        yield connection


def seen(db: sqlite3.Connection, resource: str = "x") -> Seen | None:
    found = db.execute("SELECT newest, writer FROM fences WHERE resource = ?", [resource]).fetchone()
    return found and Seen(*found)


def test_what_a_rolled_back_transaction_was_admitted_with_is_forgotten(db: sqlite3.Connection) -> None:
    gate.admit(db, "x", 9)
    db.rollback()
    with db:
        gate.admit(db, "x", 3)
    assert seen(db) == Seen(3, 3)


def test_a_transaction_that_waited_is_judged_by_what_was_committed_meanwhile(file: str) -> None:
    started = threading.Event()
    outcome: list[BaseException | None] = []

    def late() -> None:
        with contextlib.closing(sqlite3.connect(file, timeout=30)) as own:
            started.set()
            try:
                gate.admit(own, "x", 6)
                outcome.append(None)
            except StaleToken as refused:
                outcome.append(refused)

    # Its commit may have to wait: the other looks again and again, and has the file open for moments.
    with contextlib.closing(sqlite3.connect(file, timeout=30)) as db, db:
        gate.admit(db, "x", 7)
        thread = threading.Thread(target=late)
        thread.start()
        assert started.wait(30)
        thread.join(0.1)  # it waits at the gate, or is about to: either is refused
        assert outcome == []
    thread.join(30)
    assert isinstance(outcome[0], StaleToken)


def test_a_snapshot_from_before_lets_nobody_in(db: sqlite3.Connection, other: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN")
    assert db.execute("SELECT * FROM log").fetchall() == []  # a snapshot, before the gate
    with other:
        gate.admit(other, "x", 9)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        gate.admit(db, "x", 10)
    db.rollback()
    with db:
        gate.admit(db, "x", 10)


@pytest.mark.parametrize("handed", ["connection", "cursor"])
@pytest.mark.parametrize("factory", [None, sqlite3.Row, lambda c, r: {"newest": r[0], "writer": r[1]}])
def test_any_kind_of_row_does(db: sqlite3.Connection, factory: Any, handed: str) -> None:
    with db:
        gate.admit(db, "x", 7)
    db.row_factory = factory
    with pytest.raises(StaleToken), db:
        gate.admit(db if handed == "connection" else db.cursor(), "x", 6)


def test_autocommit_is_refused(file: str) -> None:
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
        with pytest.raises(ValueError, match="commits each statement by itself"):
            gate.admit(db, "x", 1)
        db.execute("BEGIN IMMEDIATE")
        gate.admit(db, "x", 1)
        db.execute("COMMIT")


def test_autocommit_of_sqlalchemy_is_refused(file: str) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{file}", isolation_level="AUTOCOMMIT")
    with (
        engine.connect() as connection,
        pytest.raises(ValueError, match="commits each statement by itself"),
    ):
        gate.admit(connection, "x", 1)
    engine.dispose()


class MySqlClient:
    """Its words for a connection that begins no transaction by itself."""

    def __init__(self, said: object) -> None:
        self.get_autocommit = lambda: said


class Pg8000:
    """Likewise."""

    def __init__(self, said: object) -> None:
        self.autocommit = said


class PyMySql(MySqlClient):
    """Says also whether a transaction is open, as the server says it."""

    def __init__(self, said: object) -> None:
        super().__init__(True)
        self.server_status = 0b10 if said else 0b11


@pytest.mark.parametrize("kind", [MySqlClient, Pg8000, PyMySql])
@pytest.mark.parametrize("said", [True, False, None])
def test_autocommit_is_seen_where_that_is_all_that_a_driver_shows(
    db: sqlite3.Connection, kind: Any, said: bool | None
) -> None:
    wrapped = Wrapped(db.cursor())
    wrapped.connection = kind(said)  # type: ignore[attr-defined]
    refused = (
        pytest.raises(ValueError, match="begin a transaction first") if said else contextlib.nullcontext()
    )
    with refused:
        SqlGate(paramstyle="named").admit(wrapped, "x", 7)
    db.rollback()


class Wrapped:
    """A cursor behind a wrapper that does not say whose it is, and cannot count."""

    def __init__(self, cursor: sqlite3.Cursor, counted: int | None = None) -> None:
        self._cursor, self._counted = cursor, counted
        self.fetchone = cursor.fetchone

    def execute(self, sql: str, values: Any) -> None:
        self._cursor.execute(sql, values)

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount if self._counted is None else self._counted


def test_behind_a_wrapper_the_style_has_to_be_said(db: sqlite3.Connection) -> None:
    with pytest.raises(ValueError, match="give paramstyle="):
        gate.admit(Wrapped(db.cursor()), "x", 7)
    with db:
        SqlGate(paramstyle="named").admit(Wrapped(db.cursor()), "x", 7)
    assert seen(db) == Seen(7, 7)


@pytest.mark.parametrize("counted", [-1, 0])
def test_a_driver_that_cannot_count_lets_nobody_in(db: sqlite3.Connection, counted: int) -> None:
    with pytest.raises(ValueError, match="does not say how many rows an UPDATE of fences matched"), db:
        SqlGate(paramstyle="qmark").admit(Wrapped(db.cursor(), counted), "x", 7)


class Awaited:
    """An asynchronous cursor in the manner of DB-API."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    async def execute(self, sql: str, values: Any) -> None:
        self._cursor.execute(sql, values)

    async def fetchone(self) -> Any:
        return self._cursor.fetchone()

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount


def test_an_awaited_cursor(db: sqlite3.Connection) -> None:
    awaited = AsyncSqlGate(paramstyle="qmark")

    async def main() -> None:
        await awaited.admit(Awaited(db.cursor()), "x", 7)
        with pytest.raises(StaleToken):
            await awaited.admit(Awaited(db.cursor()), "x", 6)
        with pytest.raises(TypeError, match="Connection is for SqlGate"):
            await awaited.admit(db, "x", 8)
        with pytest.raises(TypeError, match="Awaited is for AsyncSqlGate"):
            SqlGate(paramstyle="qmark").admit(Awaited(db.cursor()), "x", 8)

    asyncio.run(main())


def test_what_is_no_connection() -> None:
    with pytest.raises(
        TypeError, match="a gate takes a DB-API connection or cursor, or SQLAlchemy's, not str"
    ):
        gate.admit("fences", "x", 1)


@pytest.mark.parametrize("table", ["", "a b", "x;--", "a.b.c", '"x"', "1x", "ü", "x" * 64, None])
def test_names_of_tables_that_are_none(table: Any) -> None:
    with pytest.raises(ValueError, match="is no name of a table"):
        SqlGate(table)
    with pytest.raises(ValueError, match="use 'qmark'"):
        SqlGate("fences", paramstyle="dollar")


def test_the_table_has_the_name_it_was_given(db: sqlite3.Connection) -> None:
    own = SqlGate("main.own_fences")
    assert repr(own) == "<SqlGate in table main.own_fences>"
    with db:
        db.execute(own.ddl())
        db.execute(own.ddl())
        own.admit(db, "ü'x%s:name?", 7)
        assert db.execute("SELECT * FROM own_fences").fetchall() == [("ü'x%s:name?", 7, 7)]


@pytest.mark.parametrize(
    ("style", "text", "values"),
    [
        ("qmark", "a = ? AND b = ? AND c = ?", [1, 2, 1]),
        ("format", "a = %s AND b = %s AND c = %s", [1, 2, 1]),
        ("numeric", "a = :1 AND b = :2 AND c = :3", [1, 2, 1]),
        ("named", "a = :x AND b = :y AND c = :x", {"x": 1, "y": 2}),
        ("pyformat", "a = %(x)s AND b = %(y)s AND c = %(x)s", {"x": 1, "y": 2}),
    ],
)
def test_styles_of_parameters(style: str, text: str, values: Any) -> None:
    assert style in STYLES
    assert rendered(Statement("a = :x AND b = :y AND c = :x", {"x": 1, "y": 2}), style) == (text, values)


def test_it_takes_one_statement_and_at_first_use_three() -> None:
    """What the round trips of an admission are: the first word of each statement."""

    def said(*answers: Any) -> list[str]:
        program = admission("fences", Pass("x", 7, WRITER))
        words, given = [], iter((None, *answers))
        with contextlib.suppress(StaleToken):
            while (statement := step(program, next(given))) is not None:
                words.append(re.split(r"\W", statement.text)[0])
        return words

    assert said(1) == ["UPDATE"]
    assert said(0, (8, 8)) == ["UPDATE", "SELECT"]
    assert said(0, None, 1, 1) == ["UPDATE", "SELECT", "INSERT", "UPDATE"]
    assert said(0, (7, 7), 1) == ["UPDATE", "SELECT", "UPDATE"], "somebody made the row just now"
    assert statements.TRIES == 5
