"""This package and its peers for threads: ``use`` gives what takes, which gives what releases.

What a peer needs is imported when one is made: a peer that is missing is missing alone.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["KINDS", "SESSION_S", "Release", "Take", "Taker"]

SESSION_S = 10
Release = Callable[[], object]
Take = Callable[[], Release]


def adding(add: Callable[[], object]) -> Take:
    """Return what adds, as something that is taken."""

    def take() -> Release:
        add()
        return _nothing

    return take


def _nothing() -> None:
    """Nothing is held."""


class Taker(ABC):
    """One client, on the server at ``address`` (``host:port``, or a folder)."""

    @abstractmethod
    def __init__(self, address: str) -> None:
        """Connect."""

    @abstractmethod
    def use(self, name: str, side: str) -> Take:
        """Return what waits for the lock ``name`` (side "lock", "reader" or "writer").

        Side "counter": what adds one to the counter ``name``; there is nothing to release then. Side "eager":
        the same, with less of a pause after a lost race than its package has by itself.
        """

    def close(self) -> None:  # noqa: B027 - most end with their process
        """Let go of the client."""


class Ours(Taker):
    """This package."""

    url: str
    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, address: str) -> None:
        import recipes

        url = self.url.format(address)
        self.client = recipes.connect(url, session_timeout=SESSION_S, **self.options).open()

    def use(self, name: str, side: str) -> Take:
        if side == "counter":
            return adding(self.client.counter(name).add)
        lock: Any
        lock = self.client.lock(name) if side == "lock" else getattr(self.client.rwlock(name), side)
        return lambda: lock.acquire().release

    def close(self) -> None:
        self.client.close()


class OursOnZooKeeper(Ours):
    """This package, on ZooKeeper."""

    url = "zookeeper://{}/bench"


class OursOnEtcd(Ours):
    """This package, on etcd."""

    url = "etcd://{}/bench"


class OursOnEtcdByGrpc(Ours):
    """This package, on etcd by gRPC."""

    url = "etcd+grpc://{}/bench"


class OursOnSqlite(Ours):
    """This package, on a file."""

    url = "sqlite://{}/bench.db"


class OursOnRedis(Ours):
    """This package, on Redis."""

    url = "redis://{}/0/bench"


class OursOnPostgres(Ours):
    """This package, on PostgreSQL."""

    url = "postgresql://app:app@{}/app/bench"


class OursOnMariaDb(Ours):
    """This package, on MariaDB."""

    url = "mysql://app:app@{}/app/bench"


class OursInMemory(Ours):
    """This package, in memory: what it costs without any store."""

    url = "memory://"


class Kazoo(Taker):
    """kazoo's ``Lock``, ``ReadLock``, ``WriteLock`` and ``Counter``."""

    def __init__(self, address: str) -> None:
        from kazoo.client import KazooClient

        self.client = KazooClient(address, timeout=SESSION_S)
        self.client.start()

    def use(self, name: str, side: str) -> Take:
        if side in ("counter", "eager"):
            from kazoo.retry import KazooRetry

            # By itself it waits for 0.1 s and more after each lost race; an eager one for a millisecond.
            eager = KazooRetry(max_tries=-1, delay=0.001, backoff=1, max_jitter=0)
            self.client.retry = eager if side == "eager" else KazooRetry(max_tries=-1)
            counter = self.client.Counter(f"/bench/{name}")
            return adding(lambda: counter.__add__(1))
        made = {"lock": self.client.Lock, "reader": self.client.ReadLock, "writer": self.client.WriteLock}
        lock = made[side](f"/bench/{name}")

        def take() -> Release:
            lock.acquire()
            return lock.release

        return take

    def close(self) -> None:
        self.client.stop()
        self.client.close()


class Etcd3gw(Taker):
    """etcd3gw's ``Lock``, which cannot wait."""

    def __init__(self, address: str) -> None:
        import etcd3gw

        host, _, port = address.partition(":")
        self.client = etcd3gw.client(host, int(port), api_path="/v3/")

    def use(self, name: str, side: str) -> Take:
        lock = self.client.lock(name, ttl=SESSION_S)

        def take() -> Release:
            if not lock.acquire():
                raise AssertionError("nobody else should hold it: this lock cannot wait")
            return lock.release

        return take


class Tooz(Taker):
    """tooz on etcd."""

    url = "etcd3+http://{}?api_version=v3"

    def __init__(self, address: str) -> None:
        from tooz import coordination

        self.client = coordination.get_coordinator(self.url.format(address), b"member")
        self.client.start()

    def use(self, name: str, side: str) -> Take:
        lock = self.client.get_lock(name.encode())

        def take() -> Release:
            lock.acquire()
            return lock.release

        return take


class RedisLock(Taker):
    """python-redis-lock."""

    def __init__(self, address: str) -> None:
        import redis

        host, _, port = address.partition(":")
        self.client = redis.Redis(host, int(port))

    def use(self, name: str, side: str) -> Take:
        import redis_lock

        def take() -> Release:
            lock = redis_lock.Lock(self.client, name, expire=SESSION_S, auto_renewal=False)
            lock.acquire()
            return lock.release

        return take


class RedisPy(RedisLock):
    """redis-py's own ``Lock``."""

    def use(self, name: str, side: str) -> Take:
        def take() -> Release:
            lock = self.client.lock(name, timeout=SESSION_S)
            lock.acquire()
            return lock.release

        return take


class ToozOnRedis(Tooz):
    """tooz on Redis."""

    url = "redis://{}"


class Pottery(RedisLock):
    """pottery's ``Redlock``, on one server."""

    def use(self, name: str, side: str) -> Take:
        import pottery

        def take() -> Release:
            lock = pottery.Redlock(key=name, masters={self.client}, auto_release_time=SESSION_S)
            lock.acquire()
            return lock.release

        return take


class OursOnRedlock(Ours):
    """This package, on five servers."""

    url = "redlock://{}/0/bench"
    options: Mapping[str, Any] = MappingProxyType({"restart_grace": 0})  # they started a moment ago


class OursOnMemcached(Ours):
    """This package, on Memcached."""

    url = "memcached://{}/bench"
    options: Mapping[str, Any] = MappingProxyType({"restart_grace": 0})


class RedlockPy(Taker):
    """redlock-py, on five servers."""

    def __init__(self, address: str) -> None:
        import redis

        places = [one.partition(":") for one in address.split(",")]
        self.clients = [redis.Redis(host, int(port)) for host, _, port in places]

    def use(self, name: str, side: str) -> Take:
        import redlock

        lock = redlock.Redlock(self.clients, retry_count=1_000_000, retry_delay=0.01)

        def take() -> Release:
            held = lock.lock(name, SESSION_S * 1000)
            return lambda: lock.unlock(held)

        return take


class PotteryOnFive(RedlockPy):
    """pottery's ``Redlock``, on five servers."""

    def use(self, name: str, side: str) -> Take:
        import pottery

        masters = frozenset(self.clients)

        def take() -> Release:
            lock = pottery.Redlock(key=name, masters=masters, auto_release_time=SESSION_S)
            lock.acquire()
            return lock.release

        return take


class PgAdvisory(Taker):
    """``pg_advisory_lock`` of a hashed name, on a connection of its own: what django-pglocks does."""

    def __init__(self, address: str) -> None:
        import psycopg

        self.connection = psycopg.connect(f"postgresql://app:app@{address}/app", autocommit=True)

    def use(self, name: str, side: str) -> Take:
        number = zlib.crc32(name.encode())

        def release() -> None:
            self.connection.execute("SELECT pg_advisory_unlock(%s)", (number,))

        def take() -> Release:
            self.connection.execute("SELECT pg_advisory_lock(%s)", (number,))
            return release

        return take


class GetLock(Taker):
    """``GET_LOCK``, on a connection of its own."""

    def __init__(self, address: str) -> None:
        import pymysql

        host, _, port = address.partition(":")
        at = {"host": host, "port": int(port), "user": "app", "password": "app", "database": "app"}
        self.cursor = pymysql.connect(**at, autocommit=True).cursor()

    def use(self, name: str, side: str) -> Take:
        def release() -> None:
            self.cursor.execute("SELECT RELEASE_LOCK(%s)", (name,))

        def take() -> Release:
            self.cursor.execute("SELECT GET_LOCK(%s, 60)", (name,))
            assert self.cursor.fetchone() == (1,)
            return release

        return take


class FileLock(Taker):
    """filelock, in a folder."""

    def __init__(self, address: str) -> None:
        self.folder = address

    def use(self, name: str, side: str) -> Take:
        import filelock

        lock = filelock.FileLock(f"{self.folder}/{name}.lock")

        def take() -> Release:
            lock.acquire()
            return lock.release

        return take


def _floor(module: str) -> Callable[[str], Taker]:
    """Return what makes the client of raw sockets in a module."""

    def make(address: str) -> Taker:
        import importlib

        taker: Taker = importlib.import_module(module).Floor(address)
        return taker

    return make


KINDS: dict[str, Callable[[str], Taker]] = {
    "recipes-zookeeper": OursOnZooKeeper,
    "recipes-etcd": OursOnEtcd,
    "recipes-grpc": OursOnEtcdByGrpc,
    "recipes-sqlite": OursOnSqlite,
    "recipes-redis": OursOnRedis,
    "recipes-memcached": OursOnMemcached,
    "recipes-postgres": OursOnPostgres,
    "recipes-mariadb": OursOnMariaDb,
    "recipes-memory": OursInMemory,
    "kazoo": Kazoo,
    "etcd3gw": Etcd3gw,
    "tooz": Tooz,
    "python-redis-lock": RedisLock,
    "redis-py": RedisPy,
    "tooz-redis": ToozOnRedis,
    "pottery": Pottery,
    "recipes-redlock": OursOnRedlock,
    "redlock-py": RedlockPy,
    "pottery-five": PotteryOnFive,
    "pg-advisory": PgAdvisory,
    "get-lock": GetLock,
    "filelock": FileLock,
    "floor-zookeeper": _floor("bench.floor_zookeeper"),
    "floor-etcd": _floor("bench.floor_etcd"),
    "floor-grpc": _floor("bench.floor_grpc"),
    "floor-redis": _floor("bench.floor_redis"),
    "floor-redlock": _floor("bench.floor_redlock"),
    "floor-memcached": _floor("bench.floor_memcached"),
    "floor-postgres": _floor("bench.floor_postgres"),
}
