"""Resources behind gates, all in the same words: a number under each name, read and written."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import sqlalchemy
from sqlalchemy.orm import Session

from recipes import fencing
from recipes.fencing import FileGate, MemoryGate, Proof, SqlGate

__all__ = [
    "HERE",
    "NAMES",
    "AlchemyDoor",
    "AwaitedDoor",
    "AwaitedSqlDoor",
    "Door",
    "FileDoor",
    "MemoryDoor",
    "SessionDoor",
    "SqlDoor",
    "SqliteDoor",
]

READ = "SELECT value FROM stock WHERE name = 'NAME'"
WRITE = "UPDATE stock SET value = VALUE WHERE name = 'NAME'"
NAMES = ("books", "pens")


class Door(ABC):
    """A resource, through its gate or past it."""

    many: ClassVar[bool] = True
    """Whether processes can share it, by its ``place``."""

    def __init__(self, place: str) -> None:
        self.place = place

    @classmethod
    def new(cls, folder: Path) -> Door:
        """Make a resource, every number 0."""
        door = cls(tempfile.mkdtemp(dir=folder))
        door.prepare()
        return door

    @abstractmethod
    def prepare(self) -> None: ...

    @abstractmethod
    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int: ...

    @abstractmethod
    def write(self, name: str, grant: Proof, value: int) -> None: ...

    @abstractmethod
    def bare_read(self, name: str) -> int: ...

    @abstractmethod
    def bare_write(self, name: str, value: int) -> None: ...

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """End what is open."""


class MemoryDoor(Door):
    """Numbers in a dict."""

    many = False

    def prepare(self) -> None:
        self.gate = MemoryGate()
        self.numbers = dict.fromkeys(NAMES, 0)

    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int:
        with self.gate.admit(name, grant, shared=shared):
            return self.numbers[name]

    def write(self, name: str, grant: Proof, value: int) -> None:
        with self.gate.admit(name, grant):
            self.numbers[name] = value

    def bare_read(self, name: str) -> int:
        return self.numbers[name]

    def bare_write(self, name: str, value: int) -> None:
        self.numbers[name] = value


class FileDoor(Door):
    """Numbers, each in a file."""

    def prepare(self) -> None:
        for name in NAMES:
            self.bare_write(name, 0)

    def path(self, name: str) -> Path:
        return Path(self.place, name)

    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int:
        return int(FileGate(self.path(name)).read(grant, shared=shared))

    def write(self, name: str, grant: Proof, value: int) -> None:
        FileGate(self.path(name)).write(grant, str(value).encode())

    def bare_read(self, name: str) -> int:
        return int(self.path(name).read_text() or 0)

    def bare_write(self, name: str, value: int) -> None:
        self.path(name).write_text(str(value))


class SqlDoor(Door):
    """Numbers in a table; each read and each write is a transaction."""

    gate: Any = SqlGate()

    @abstractmethod
    def transaction(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context manager of a transaction, with what runs statements in it."""

    def run(self, connection: Any, sql: str) -> Any:
        return connection.execute(sql)

    def prepare(self) -> None:
        with self.transaction() as connection:
            self.run(connection, self.gate.ddl())
            self.run(connection, "CREATE TABLE stock (name VARCHAR(20) PRIMARY KEY, value INTEGER)")
            for name in NAMES:
                self.run(connection, f"INSERT INTO stock VALUES ('{name}', 0)")

    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int:
        with self.transaction() as connection:
            self.gate.admit(connection, name, grant, shared=shared)
            return int(self.run(connection, READ.replace("NAME", name)).fetchone()[0])

    def write(self, name: str, grant: Proof, value: int) -> None:
        with self.transaction() as connection:
            self.gate.admit(connection, name, grant)
            self.run(connection, WRITE.replace("NAME", name).replace("VALUE", str(value)))

    def bare_read(self, name: str) -> int:
        with self.transaction() as connection:
            return int(self.run(connection, READ.replace("NAME", name)).fetchone()[0])

    def bare_write(self, name: str, value: int) -> None:
        with self.transaction() as connection:
            self.run(connection, WRITE.replace("NAME", name).replace("VALUE", str(value)))


class SqliteDoor(SqlDoor):
    """The standard library's driver."""

    @contextlib.contextmanager
    def transaction(self) -> Any:
        with contextlib.closing(sqlite3.connect(f"{self.place}/db", timeout=30)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")  # no power cut here: races are quicker
            yield connection


class AlchemyDoor(SqlDoor):
    """SQLAlchemy's connection, of any database."""

    @property
    def url(self) -> str:
        return f"sqlite:///{self.place}/db"

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.engine = sqlalchemy.create_engine(self.url)

    def run(self, connection: Any, sql: str) -> Any:
        return connection.execute(sqlalchemy.text(sql))

    def transaction(self) -> Any:
        return self.engine.begin()

    def close(self) -> None:
        self.engine.dispose()


class SessionDoor(AlchemyDoor):
    """SQLAlchemy's session."""

    @contextlib.contextmanager
    def transaction(self) -> Any:
        with Session(self.engine) as session, session.begin():
            yield session


class AwaitedDoor(Door):
    """A door whose gate is awaited, in a loop of its own; all else is as on the ``plain`` one."""

    plain: type[Door]

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.beside = self.plain(place)
        self.runner = asyncio.Runner()

    def prepare(self) -> None:
        self.beside.prepare()

    def bare_read(self, name: str) -> int:
        return self.beside.bare_read(name)

    def bare_write(self, name: str, value: int) -> None:
        self.beside.bare_write(name, value)

    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int:
        return self.runner.run(self.read_soon(name, grant, shared=shared))

    def write(self, name: str, grant: Proof, value: int) -> None:
        self.runner.run(self.write_soon(name, grant, value))

    @abstractmethod
    async def read_soon(self, name: str, grant: Proof, *, shared: bool) -> int: ...

    @abstractmethod
    async def write_soon(self, name: str, grant: Proof, value: int) -> None: ...

    def close(self) -> None:
        self.runner.close()
        self.beside.close()


class AwaitedSqlDoor(AwaitedDoor):
    """Numbers in a table, through something asynchronous."""

    gate = fencing.AsyncSqlGate()

    @abstractmethod
    def awaited(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """Return a context manager of a transaction, with what runs statements in it."""

    async def run(self, connection: Any, sql: str) -> Any:
        return await connection.execute(sql)

    async def read_soon(self, name: str, grant: Proof, *, shared: bool) -> int:
        async with self.awaited() as connection:
            await self.gate.admit(connection, name, grant, shared=shared)
            found = (await self.run(connection, READ.replace("NAME", name))).fetchone()
            return int((await found if asyncio.iscoroutine(found) else found)[0])

    async def write_soon(self, name: str, grant: Proof, value: int) -> None:
        async with self.awaited() as connection:
            await self.gate.admit(connection, name, grant)
            await self.run(connection, WRITE.replace("NAME", name).replace("VALUE", str(value)))


HERE: dict[str, type[Door]] = {
    "memory": MemoryDoor,
    "file": FileDoor,
    "sqlite3": SqliteDoor,
    "sqlalchemy": AlchemyDoor,
    "session": SessionDoor,
}
"""The doors that need no server."""
