"""The servers of the integration tests, one import.

::

    with servers.etcd_34() as server:             # found or installed, started, closed
        client = recipes.connect(server.url("my/prefix"))
        server.pause(); server.resume(); server.kill(); server.start(); server.restart(wipe=True)

Each name in ``ALL`` is one store the suite promises to work on, with the version it
was written against. A version named through the environment is taken as it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from integration.harness.database import Database
from integration.harness.etcd import Etcd, EtcdCluster
from integration.harness.files import Files
from integration.harness.finding import (
    find_etcd_34,
    find_etcd_35,
    find_etcdctl,
    find_mariadb,
    find_memcached,
    find_mysql,
    find_pgbouncer,
    find_postgres,
    find_redis,
    find_zookeeper,
)
from integration.harness.leftovers import Leftovers, clean, kazoo_client, leftovers, sessions, settle
from integration.harness.mariadb import MariaDb
from integration.harness.memcached import Memcached
from integration.harness.mysql import MySql
from integration.harness.pgbouncer import PgBouncer
from integration.harness.postgres import Postgres, PostgresPair
from integration.harness.process import Server, ServerUnavailable, eventually
from integration.harness.redis import DOWN_MS, Redis, RedisCluster, RedisReplicas, RedisSentinels
from integration.harness.zookeeper import Java, ZooKeeper, ZooKeeperCluster

__all__ = [
    "ALL",
    "ASKED",
    "CONSENSUS",
    "ETCDS",
    "Database",
    "Etcd",
    "EtcdCluster",
    "Files",
    "Java",
    "Leftovers",
    "MariaDb",
    "Memcached",
    "MySql",
    "PgBouncer",
    "Postgres",
    "PostgresPair",
    "Promised",
    "Redis",
    "RedisCluster",
    "RedisReplicas",
    "RedisSentinels",
    "Server",
    "ServerUnavailable",
    "ZooKeeper",
    "ZooKeeperCluster",
    "clean",
    "etcd_34",
    "etcd_35",
    "etcd_grpc",
    "eventually",
    "find_etcdctl",
    "kazoo_client",
    "leftovers",
    "mariadb",
    "memcached",
    "pgbouncer",
    "postgres",
    "postgres_pair",
    "redis",
    "redis_cluster",
    "redis_replicas",
    "redis_sentinels",
    "sessions",
    "settle",
    "zookeeper_38",
]


def etcd_34(*, install: bool = True) -> Etcd:
    """Return an etcd 3.4, not yet started."""
    return Etcd("etcd-3.4", find_etcd_34(install=install))


def etcd_35(*, install: bool = True) -> Etcd:
    """Return an etcd 3.5, not yet started."""
    return Etcd("etcd-3.5", find_etcd_35(install=install))


def etcd_grpc(*, install: bool = True) -> Etcd:
    """Return an etcd 3.4 that clients ask by gRPC, not yet started."""
    return Etcd("etcd-grpc", find_etcd_34(install=install), grpc=True)


def zookeeper_38(*, install: bool = True, tick_ms: int = 500) -> ZooKeeper:
    """Return a ZooKeeper 3.8, not yet started."""
    return ZooKeeper("zookeeper-3.8", find_zookeeper(install=install), tick_ms=tick_ms)


def postgres(*, install: bool = True, **options: Any) -> Postgres:
    """Return a PostgreSQL, not yet started; `Database` tells the options."""
    return Postgres("postgres", find_postgres(install=install), **options)


def postgres_pair(
    *, install: bool = True, keeps: bool = False, settings: Mapping[str, str] | None = None
) -> PostgresPair:
    """Return a primary and a standby, not yet started."""
    return PostgresPair("postgres-pair", find_postgres(install=install), keeps=keeps, settings=settings)


def pgbouncer(
    server: Postgres, *, install: bool = True, mode: str = "transaction", pool: int = 100
) -> PgBouncer:
    """Return a PgBouncer before a PostgreSQL, not yet started; ``mode`` is ``transaction`` or ``session``."""
    return PgBouncer(f"pgbouncer-{mode}", find_pgbouncer(install=install), server, mode=mode, pool=pool)


def mariadb(*, install: bool = True, **options: Any) -> MariaDb:
    """Return a MariaDB, or the MySQL that the environment names, not yet started.

    `Database` documents the options.
    """
    if (mysql := find_mysql()) is not None:
        return MySql("mysql", mysql, **options)
    return MariaDb("mariadb", find_mariadb(install=install), **options)


def memcached(*words: str, install: bool = True) -> Memcached:
    """Return a Memcached 1.6, not yet started, that forgets nothing; or one with these options."""
    return Memcached("memcached-1.6", find_memcached(install=install), words or ("-M",))


def redis(*, install: bool = True, keeps: bool = False) -> Redis:
    """Return a Redis 7.0, not yet started; with ``keeps`` it keeps over a kill what it has answered."""
    return Redis("redis-7", find_redis(install=install), keeps=keeps)


def redis_replicas(*, install: bool = True, keeps: bool = False) -> RedisReplicas:
    """Return a master and a replica, not yet started."""
    return RedisReplicas("redis-replicas", find_redis(install=install), keeps=keeps)


def redis_sentinels(*, install: bool = True, keeps: bool = False, down_ms: int = DOWN_MS) -> RedisSentinels:
    """Return a master with two replicas and three sentinels, not yet started."""
    return RedisSentinels("redis-sentinels", find_redis(install=install), keeps=keeps, down_ms=down_ms)


def redis_cluster(*, install: bool = True, keeps: bool = False, down_ms: int = DOWN_MS) -> RedisCluster:
    """Return a cluster of three masters and a replica of each, not yet started."""
    return RedisCluster("redis-cluster", find_redis(install=install), keeps=keeps, down_ms=down_ms)


@dataclass(frozen=True)
class Promised:
    """A store the suite runs on: how to get one, and which version it has to be."""

    make: Callable[[], Server]
    version: str
    variable: str

    def started(self) -> Server:
        """Start one and see that it is the version promised; AssertionError if not."""
        server = self.make().start()
        found = server.version()
        if found != self.version and not os.environ.get(self.variable):
            server.close()
            raise AssertionError(f"{server.label} should be {self.version}, and says it is {found}")
        return server


ALL: Mapping[str, Promised] = {
    "etcd-3.4": Promised(etcd_34, "3.4.23", "RECIPES_TEST_ETCD_34"),
    "etcd-3.5": Promised(etcd_35, "3.5.1", "RECIPES_TEST_ETCD_35"),
    "etcd-grpc": Promised(etcd_grpc, "3.4.23", "RECIPES_TEST_ETCD_34"),
    "zookeeper-3.8": Promised(zookeeper_38, "3.8.0", "RECIPES_TEST_ZOOKEEPER"),
    "redis-7": Promised(redis, "7.0.15", "RECIPES_TEST_REDIS"),
}
ETCDS = tuple(name for name in ALL if name.startswith("etcd"))
"""Those that are etcd, in whichever version and whatever they are asked in."""
CONSENSUS = (*ETCDS, "zookeeper-3.8")
"""Those whose members agree by consensus, and which end sessions themselves."""
ASKED = tuple(name for name in ALL if name != "etcd-3.4")
"""One for each way to ask: the gateway, that of etcd 3.5; gRPC, of etcd 3.4; and the others."""
