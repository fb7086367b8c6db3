"""Same as `bench.takers`, but awaits."""

# ruff: noqa: PLC0415

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from bench.takers import SESSION_S

__all__ = ["KINDS", "Take", "Taker"]

Take = Callable[[], Awaitable[Callable[[], Awaitable[object]]]]


class Taker(ABC):
    """One client of one loop, on the server at ``address``."""

    def __init__(self, address: str) -> None:
        self.address = address

    @abstractmethod
    async def open(self) -> None:
        """Connect."""

    @abstractmethod
    def use(self, name: str, side: str) -> Take:
        """Return what waits for the lock ``name``."""

    async def close(self) -> None:  # noqa: B027 - most end with their process
        """Let go of the client."""


def _adding(add: Callable[[], Awaitable[object]]) -> Take:
    """Return what adds, as something that is taken."""

    async def take() -> Callable[[], Awaitable[object]]:
        await add()
        return _nothing

    return take


async def _nothing() -> None:
    """Nothing is held."""


class Ours(Taker):
    """This package."""

    url: str

    async def open(self) -> None:
        import recipes

        url = self.url.format(self.address)
        self.client = await recipes.connect_async(url, session_timeout=SESSION_S).open()

    def use(self, name: str, side: str) -> Take:
        if side == "counter":
            return _adding(self.client.counter(name).add)
        lock: Any
        lock = self.client.lock(name) if side == "lock" else getattr(self.client.rwlock(name), side)

        async def take() -> Callable[[], Awaitable[object]]:
            release: Callable[[], Awaitable[object]] = (await lock.acquire()).release
            return release

        return take

    async def close(self) -> None:
        await self.client.close()


class OursOnZooKeeper(Ours):
    """This package, on ZooKeeper."""

    url = "zookeeper://{}/bench"


class OursOnEtcd(Ours):
    """This package, on etcd."""

    url = "etcd://{}/bench"


class OursOnEtcdByGrpc(Ours):
    """This package, on etcd by gRPC."""

    url = "etcd+grpc://{}/bench"


class OursOnRedis(Ours):
    """This package, on Redis."""

    url = "redis://{}/0/bench"


class OursOnPostgres(Ours):
    """This package, on PostgreSQL."""

    url = "postgresql://app:app@{}/app/bench"


class OursOnMariaDb(Ours):
    """This package, on MariaDB."""

    url = "mysql://app:app@{}/app/bench"


class RedisPy(Taker):
    """redis-py's own ``Lock``, of its asyncio client."""

    async def open(self) -> None:
        import redis.asyncio

        host, _, port = self.address.partition(":")
        self.client = redis.asyncio.Redis(host=host, port=int(port))

    def use(self, name: str, side: str) -> Take:
        async def take() -> Callable[[], Awaitable[object]]:
            lock = self.client.lock(name, timeout=SESSION_S)
            await lock.acquire()
            return lock.release

        return take

    async def close(self) -> None:
        await self.client.aclose()


class Aetcd(Taker):
    """aetcd's ``Lock``, over gRPC."""

    async def open(self) -> None:
        import aetcd

        host, _, port = self.address.partition(":")
        self.client = aetcd.Client(host, int(port))

    def use(self, name: str, side: str) -> Take:
        lock = self.client.lock(name.encode(), ttl=SESSION_S)

        async def take() -> Callable[[], Awaitable[object]]:
            await lock.acquire(timeout=None)
            release: Callable[[], Awaitable[object]] = lock.release
            return release

        return take


KINDS: dict[str, Callable[[str], Taker]] = {
    "recipes-zookeeper-asyncio": OursOnZooKeeper,
    "recipes-etcd-asyncio": OursOnEtcd,
    "recipes-grpc-asyncio": OursOnEtcdByGrpc,
    "recipes-redis-asyncio": OursOnRedis,
    "recipes-postgres-asyncio": OursOnPostgres,
    "recipes-mariadb-asyncio": OursOnMariaDb,
    "redis-py-asyncio": RedisPy,
    "aetcd": Aetcd,
}
