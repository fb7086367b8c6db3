"""Who is measured: this package, its peers and the floors; on which server, and by which program."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from integration.fleet.building import curator_program, go_program
from integration.harness.process import ServerUnavailable

__all__ = ["KINDS", "Kind", "command", "package_version"]

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Kind:
    """A kind of contender.

    Attributes:
        name: What the programs call it.
        label: How the tables call it.
        store: On which server it works ("zookeeper", "etcd", "redis", "redis-five", "memcached", "postgres",
            "mariadb", "folder").
        package: The Python distribution it needs; empty if none, or if it is no Python.
        ours: It is this package.
        waits: It can wait for a lock that is held.
    """

    name: str
    label: str
    store: str
    package: str = ""
    ours: bool = False
    waits: bool = True

    @property
    def floor(self) -> bool:
        """Whether it is no lock to use, but what one could cost at least."""
        return self.name.startswith("floor-")


_ALL = (
    Kind("recipes-zookeeper", "recipes", "zookeeper", ours=True),
    Kind("recipes-zookeeper-asyncio", "recipes, asyncio", "zookeeper", ours=True),
    Kind("kazoo", "kazoo `Lock`", "zookeeper", "kazoo"),
    Kind("curator", "Curator `InterProcessMutex`", "zookeeper"),
    Kind("floor-zookeeper", "the same exchanges by a raw socket", "zookeeper"),
    Kind("recipes-etcd", "recipes", "etcd", ours=True),
    Kind("recipes-etcd-asyncio", "recipes, asyncio", "etcd", ours=True),
    Kind("recipes-grpc", "recipes, gRPC", "etcd", ours=True),
    Kind("recipes-grpc-asyncio", "recipes, gRPC, asyncio", "etcd", ours=True),
    Kind("go", "Go `concurrency.Mutex`", "etcd"),
    Kind("etcd3gw", "etcd3gw `Lock`", "etcd", "etcd3gw", waits=False),
    Kind("tooz", "tooz", "etcd", "tooz"),
    Kind("aetcd", "aetcd `Lock`", "etcd", "aetcd"),
    Kind("floor-etcd", "the same exchanges by raw sockets", "etcd"),
    Kind("floor-grpc", "the same exchanges by raw frames of gRPC", "etcd"),
    Kind("recipes-sqlite", "recipes", "folder", ours=True),
    Kind("filelock", "filelock", "folder", "filelock"),
    Kind("recipes-redis", "recipes", "redis", "redis", ours=True),
    Kind("recipes-redis-asyncio", "recipes, asyncio", "redis", "redis", ours=True),
    Kind("python-redis-lock", "python-redis-lock", "redis", "python-redis-lock"),
    Kind("redis-py", "redis-py `Lock`", "redis", "redis"),
    Kind("redis-py-asyncio", "redis-py `Lock`, asyncio", "redis", "redis"),
    Kind("tooz-redis", "tooz", "redis", "tooz"),
    Kind("pottery", "pottery `Redlock`", "redis", "pottery"),
    Kind("floor-redis", "SET NX and a script by a raw socket", "redis", waits=False),
    Kind("recipes-redlock", "recipes", "redis-five", "redis", ours=True),
    Kind("redlock-py", "redlock-py `Redlock`", "redis-five", "redlock-py"),
    Kind("pottery-five", "pottery `Redlock`", "redis-five", "pottery"),
    Kind("floor-redlock", "SET NX and a script by raw sockets, three answers", "redis-five", waits=False),
    Kind("recipes-memcached", "recipes", "memcached", ours=True),
    Kind("floor-memcached", "an item added and deleted by a raw socket", "memcached", waits=False),
    Kind("recipes-postgres", "recipes", "postgres", "psycopg", ours=True),
    Kind("recipes-postgres-asyncio", "recipes, asyncio", "postgres", "psycopg", ours=True),
    Kind("pg-advisory", "`pg_advisory_lock`, as django-pglocks", "postgres", "psycopg"),
    Kind("floor-postgres", "two functions in PL/pgSQL", "postgres", "psycopg", waits=False),
    Kind("recipes-mariadb", "recipes", "mariadb", "pymysql", ours=True),
    Kind("recipes-mariadb-asyncio", "recipes, asyncio", "mariadb", "asyncmy", ours=True),
    Kind("get-lock", "`GET_LOCK`", "mariadb", "pymysql"),
    Kind("recipes-memory", "recipes, no store (`memory://`)", "folder", ours=True),
)
KINDS = {kind.name: kind for kind in _ALL}


def command(kind: Kind, address: str) -> list[str]:
    """Return what runs a contender of a kind.

    Raises:
        ServerUnavailable: What it is made with is not there.
    """
    if kind.name == "go":
        return [*go_program("contender", HERE / "go"), address]
    if kind.name == "curator":
        # The tests stop Java's compiler early; a peer is measured at its best.
        program = curator_program("Contender", HERE / "java")
        return [word for word in program if not word.startswith("-XX:Tiered")] + [address]
    if kind.package and package_version(kind.package) is None:
        raise ServerUnavailable(f"{kind.package} is not installed (pip install {kind.package})")
    return [sys.executable, "-m", "bench.worker", kind.name, address]


def package_version(distribution: str) -> str | None:
    """Return the version of an installed Python distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
