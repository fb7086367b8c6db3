"""Resources on servers, behind gates: each new one in a schema, or under a prefix, of its own."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import redis
import redis.asyncio
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from integration import servers
from recipes.fencing import AsyncRedisGate, Proof, RedisGate
from tests.fencing.doors import NAMES, AlchemyDoor, AwaitedDoor, AwaitedSqlDoor, Door, SessionDoor, SqlDoor

__all__ = ["POSTGRES", "REDIS", "PsycopgDoor", "RedisDoor", "RedisTransactionDoor", "door_on", "place_on"]


def door_on(server: servers.Server, kind: type[Door]) -> Door:
    """Return a new resource on a server, every number 0."""
    place = f"{server.url()} t{uuid.uuid4().hex[:12]}"
    if isinstance(server, servers.Postgres):
        url, schema = place.split()
        with psycopg.connect(url) as connection:
            connection.execute(f"CREATE SCHEMA {schema}")
        place = f"{url}?options=-csearch_path%3D{schema}"
    door = kind(place)
    door.prepare()
    return door


def place_on(server: servers.Server, kind: type[Door]) -> str:
    """Return where a new resource is, with nobody at it."""
    with contextlib.closing(door_on(server, kind)) as door:
        return door.place


class PsycopgDoor(SqlDoor):
    """PostgreSQL, through psycopg."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.connection = psycopg.connect(place)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        with self.connection.transaction():
            yield self.connection

    def close(self) -> None:
        self.connection.close()


class OnPostgres(AlchemyDoor):
    """What SQLAlchemy calls the same place."""

    @property
    def url(self) -> str:
        return self.place.replace("postgresql://", "postgresql+psycopg://")


class AlchemyPostgresDoor(OnPostgres):
    """PostgreSQL, through SQLAlchemy's connection."""


class SessionPostgresDoor(OnPostgres, SessionDoor):
    """PostgreSQL, through SQLAlchemy's session."""


class AwaitedPsycopgDoor(AwaitedSqlDoor):
    """PostgreSQL, through psycopg's asynchronous connection."""

    plain = PsycopgDoor

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.connection = self.runner.run(psycopg.AsyncConnection.connect(place))

    @contextlib.asynccontextmanager
    async def awaited(self) -> AsyncIterator[Any]:
        async with self.connection.transaction():
            yield self.connection

    def close(self) -> None:
        self.runner.run(self.connection.close())
        super().close()


class AwaitedSessionDoor(AwaitedSqlDoor):
    """PostgreSQL, through SQLAlchemy's asynchronous session."""

    plain = PsycopgDoor

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.engine = create_async_engine(place.replace("postgresql://", "postgresql+psycopg://"))

    def close(self) -> None:
        self.runner.run(self.engine.dispose())
        super().close()

    @contextlib.asynccontextmanager
    async def awaited(self) -> AsyncIterator[Any]:
        async with AsyncSession(self.engine) as session, session.begin():
            yield session

    async def run(self, connection: Any, sql: str) -> Any:
        return await connection.execute(sqlalchemy.text(sql))


class RedisDoor(Door):
    """Numbers in Redis, by scripts."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        url, self.prefix = place.split()
        self.client = redis.Redis.from_url(url)
        self.gate = RedisGate(self.client, prefix=f"{self.prefix}:fence:")

    def key(self, name: str) -> str:
        return f"{self.prefix}:{name}"

    def prepare(self) -> None:
        for name in NAMES:
            self.bare_write(name, 0)

    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int:
        script = "return redis.call('get', KEYS[1])"
        return int(self.gate.eval(name, grant, script, keys=[self.key(name)], shared=shared))

    def write(self, name: str, grant: Proof, value: int) -> None:
        script = "return redis.call('set', KEYS[1], ARGV[1])"
        assert self.gate.eval(name, grant, script, keys=[self.key(name)], args=[value])

    def bare_read(self, name: str) -> int:
        return int(str(self.client.get(self.key(name)), "ascii"))

    def bare_write(self, name: str, value: int) -> None:
        self.client.set(self.key(name), value)

    def close(self) -> None:
        self.client.close()


class RedisTransactionDoor(RedisDoor):
    """Numbers in Redis, by MULTI."""

    def read(self, name: str, grant: Proof, *, shared: bool = False) -> int:
        (found,) = self.gate.transaction(name, grant, lambda pipe: pipe.get(self.key(name)), shared=shared)
        return int(found)

    def write(self, name: str, grant: Proof, value: int) -> None:
        self.gate.transaction(name, grant, lambda pipe: pipe.set(self.key(name), value))


class AwaitedRedisDoor(AwaitedDoor):
    """The same with redis.asyncio: reading by scripts, writing by MULTI."""

    plain = RedisDoor

    @contextlib.asynccontextmanager
    async def awaited(self) -> AsyncIterator[AsyncRedisGate]:
        url, prefix = self.place.split()
        async with redis.asyncio.Redis.from_url(url) as client:
            yield AsyncRedisGate(client, prefix=f"{prefix}:fence:")

    def key(self, name: str) -> str:
        return f"{self.place.split()[1]}:{name}"

    async def read_soon(self, name: str, grant: Proof, *, shared: bool) -> int:
        script = "return redis.call('get', KEYS[1])"
        async with self.awaited() as gate:
            return int(await gate.eval(name, grant, script, keys=[self.key(name)], shared=shared))

    async def write_soon(self, name: str, grant: Proof, value: int) -> None:
        async with self.awaited() as gate:
            answers = await gate.transaction(name, grant, lambda pipe: pipe.set(self.key(name), value))
            assert answers == [True]


POSTGRES: dict[str, type[Door]] = {
    "psycopg": PsycopgDoor,
    "sqlalchemy": AlchemyPostgresDoor,
    "session": SessionPostgresDoor,
    "psycopg-asyncio": AwaitedPsycopgDoor,
    "session-asyncio": AwaitedSessionDoor,
}
REDIS: dict[str, type[Door]] = {
    "script": RedisDoor,
    "transaction": RedisTransactionDoor,
    "asyncio": AwaitedRedisDoor,
}
