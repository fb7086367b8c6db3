"""The gate for SQL databases on drivers for asyncio, as SQLAlchemy adapts them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_dbapi
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import scoped_session, sessionmaker

from recipes.fencing import AsyncSqlGate, SqlGate

gate = AsyncSqlGate()


class AsyncpgConnection:
    """As asyncpg's; each statement finds one row."""

    def __init__(self) -> None:
        self.begun = False

    def is_in_transaction(self) -> bool:
        return self.begun

    def transaction(self, **_: Any) -> Self:
        return self

    async def start(self) -> None:
        self.begun = True

    async def rollback(self) -> None:
        self.begun = False

    async def prepare(self, *_: Any, **__: Any) -> Self:
        return self

    def get_attributes(self) -> list[Any]:
        return []

    async def fetch(self, *_: Any) -> list[Any]:
        return []

    def get_statusmsg(self) -> str:
        return "UPDATE 1"

    async def close(self) -> None:
        pass


class AiosqliteConnection:
    """As aiosqlite's, but without its thread."""

    def __init__(self, file: str) -> None:
        self._conn = self._connection = sqlite3.connect(file)
        self._tx = self

    def put_nowait(self, work: tuple[asyncio.Future[None], Callable[[], None]]) -> None:
        work[0].set_result(work[1]())

    @property
    def in_transaction(self) -> bool:
        return self._conn.in_transaction

    def cursor(self) -> AiosqliteCursor:
        return AiosqliteCursor(self._conn.cursor())

    async def rollback(self) -> None:
        self._conn.rollback()

    async def close(self) -> None:
        self._conn.close()


class AiosqliteCursor:
    """As aiosqlite's."""

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, values: Any = ()) -> None:
        self._cursor.execute(sql, values)

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    async def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()

    async def close(self) -> None:
        self._cursor.close()


def of_asyncpg(folder: Path) -> AsyncEngine:
    del folder

    async def connect() -> AsyncpgConnection:
        return AsyncpgConnection()

    return create_async_engine("postgresql+asyncpg://", async_creator=connect, _initialize=False)


def of_aiosqlite(folder: Path) -> AsyncEngine:
    async def connect() -> AiosqliteConnection:
        made = AiosqliteConnection(str(folder / "db"))
        made._conn.execute(gate.ddl())
        return made

    module = AsyncAdapt_aiosqlite_dbapi(sqlite3, sqlite3)
    return create_async_engine(
        "sqlite+aiosqlite:///db", async_creator=connect, module=module, _initialize=False
    )


@pytest.mark.parametrize("engine_of", [of_asyncpg, of_aiosqlite])
def test_autocommit_is_refused(engine_of: Callable[[Path], AsyncEngine], tmp_path: Path) -> None:
    async def main() -> None:
        engine = engine_of(tmp_path)
        engine.dialect.default_isolation_level = "SERIALIZABLE"  # which it would ask the server for
        async with engine.connect() as connection:
            await gate.admit(connection, "x", 1)
            await connection.rollback()
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            with pytest.raises(ValueError, match="commits each statement by itself"):
                await gate.admit(connection, "x", 1)
        await engine.dispose()

    asyncio.run(main())


def test_a_session_of_a_registry_is_admitted(tmp_path: Path) -> None:
    async def main() -> None:
        engine = of_aiosqlite(tmp_path)
        registry = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        await gate.admit(registry, "x", 7)
        assert (await registry.execute(text("SELECT newest FROM fences"))).scalar_one() == 7
        with pytest.raises(TypeError, match="is for AsyncSqlGate"):
            SqlGate().admit(registry, "x", 7)
        await registry.remove()
        await engine.dispose()

    asyncio.run(main())


def test_a_session_of_a_registry_for_threads_is_admitted() -> None:
    engine = create_engine("sqlite://")
    registry = scoped_session(sessionmaker(engine))
    registry.execute(text(gate.ddl()))
    SqlGate().admit(registry, "x", 7)
    assert registry.execute(text("SELECT newest FROM fences")).scalar_one() == 7
    with pytest.raises(TypeError, match="is for SqlGate"):
        asyncio.run(gate.admit(registry, "x", 7))
    registry.remove()
    engine.dispose()
