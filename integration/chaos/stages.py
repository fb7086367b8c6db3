"""The other stores on which runs happen, and every store by its name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Self

import sqlalchemy

from integration import servers
from integration.chaos.stage import Stage, Way
from integration.harness.process import url_of
from integration.stores import engine_of, make_tables
from recipes.stores.sql.tables import PREFIX

__all__ = ["STAGES", "DatabaseStage", "staged"]

MAJORITY = 3
PASSING = re.compile(r":(x|receipt):")


class DatabaseStage(Stage):
    """A database."""

    graced = True

    def _made(self) -> Any:
        return {"postgres": servers.postgres, "mariadb": servers.mariadb}[self.store](keeps=True)

    def contenders(self, prefix: str) -> dict[str, str]:
        found = self.server.ask(
            f"SELECT queue, token, session FROM {PREFIX}contender JOIN {PREFIX}session"
            f" ON {PREFIX}session.id = session WHERE expires_at > {self.server.now}"
        )
        return {f"{name}/{token}": one for name, token, one in found if name.startswith(f"{prefix}:")}

    def expires(self) -> bool:
        return True

    def expire(self, session: str) -> None:
        self.server.ask(f"UPDATE {PREFIX}session SET expires_at = 0 WHERE id = %s", session)

    def end_connections(self) -> None:
        """Have it end all its connections."""
        self.server.terminate()

    def size(self) -> int:
        with engine_of(self.server).connect() as connection:
            names = [name for name in sqlalchemy.inspect(connection).get_table_names() if PREFIX in name]
            counts = [
                sqlalchemy.select(sqlalchemy.func.count()).select_from(sqlalchemy.table(name))
                for name in names
            ]
            return sum(connection.execute(count).scalar_one() for count in counts)

    def __enter__(self) -> Self:
        super().__enter__()
        make_tables(self.server)
        return self


class Door(Way):
    """A way to a store whose URL is not made of the addresses of its servers."""

    def __init__(self, members: list[Any], url: Callable[[list[Any], str], str], *, proxied: bool) -> None:
        super().__init__(members, "", proxied=proxied)
        self._url = url

    def url(self, prefix: str) -> str:
        return self._url(self._doors, prefix)


class FilesStage(Stage):
    """SQLite: no server, and no way to it that could fail."""

    def _made(self) -> Any:
        return servers.Files()

    @property
    def has_server(self) -> bool:
        return False

    def expires(self) -> bool:
        return False

    def way(self, *, proxied: bool = True) -> Way:
        return Door([], lambda doors, prefix: self.server.url(prefix), proxied=False)

    def contenders(self, prefix: str) -> dict[str, str]:
        found = self.server.ask(prefix, "SELECT queue, token, session FROM contender")
        return {f"{queue}/{token}": session for queue, token, session in found}

    def size(self) -> int:
        files = [path.name.removesuffix("-clients") for path in self.server.home.glob("*-clients")]
        return sum(self._rows_of(file) for file in files)

    def _rows_of(self, file: str) -> int:
        tables = self.server.ask(file, "SELECT name FROM sqlite_master WHERE type = 'table'")
        return sum(self.server.ask(file, f"SELECT count(*) FROM {name}")[0][0] for (name,) in tables)


class RedisStage(Stage):
    """One Redis, which keeps over a kill what it has answered."""

    graced = True

    def _made(self) -> Any:
        return servers.redis(keeps=True)

    def expires(self) -> bool:
        return False

    def contenders(self, prefix: str) -> dict[str, str]:
        found = {}
        with self.server.client(decode_responses=True) as client:
            for path in self.server.contenders(prefix):
                key, _, token = path.rpartition("/")
                found[path] = str(client.hget(f"{{{key}}}:known", token)).partition(" ")[0]
        return found

    def size(self) -> int:
        """Return how many keys there are, without those that say what was, and go within an hour."""
        with self.server.client(decode_responses=True) as client:
            return sum(PASSING.search(key) is None for key in client.scan_iter("*", 1000))


class MemcachedStage(Stage):
    """One Memcached, which forgets everything when it is killed."""

    graced = True
    queues = False
    without = frozenset({"deaf", "reply lost"})

    def _made(self) -> Any:
        return servers.memcached()

    def expires(self) -> bool:
        return False

    def contenders(self, prefix: str) -> dict[str, str]:
        keys = self.server.keys(f"{prefix}:")
        return {key: self.server.get(key).partition("/")[0] for key in keys}

    def size(self) -> int:
        return int(self.server.stats()["curr_items"])


class Five:
    """Five independent servers, as one."""

    scheme = kind = "redlock"

    def __init__(self) -> None:
        self.members = [servers.redis(keeps=True) for _ in range(5)]

    def start(self) -> Self:
        """Start those that do not run."""
        for member in self.members:
            member.start()
        return self

    __enter__ = start

    def close(self) -> None:
        """End all."""
        for member in self.members:
            member.close()


class RedlockStage(Stage):
    """Five Redis, each with a vote."""

    graced = True
    queues = False

    def _made(self) -> Any:
        return Five()

    @property
    def members(self) -> list[Any]:
        return list(self.server.members)

    def expires(self) -> bool:
        return False

    def way(self, *, proxied: bool = True) -> Way:
        def url(doors: Sequence[Any], prefix: str) -> str:
            return url_of("redlock", [door.address for door in doors], f"0/{prefix}")

        return Door(self.members, url, proxied=proxied)

    def contenders(self, prefix: str) -> dict[str, str]:
        found: Counter[tuple[str, str]] = Counter()
        for member in self.members:
            with member.client(decode_responses=True) as client:
                keys = list(client.scan_iter(f"{prefix}:[^~]*", 1000))
                found.update((key, str(client.get(key)).partition("/")[0]) for key in keys)
        return {key: session for (key, session), votes in found.items() if votes >= MAJORITY}

    def size(self) -> int:
        return sum(int(member.ask("DBSIZE")) for member in self.members)


STAGES: dict[str, type[Stage]] = {
    "etcd-3.4": Stage,
    "etcd-3.5": Stage,
    "etcd-grpc": Stage,
    "etcd-cluster": Stage,
    "etcd-grpc-cluster": Stage,
    "zookeeper": Stage,
    "zookeeper-cluster": Stage,
    "redis": RedisStage,
    "sqlite": FilesStage,
    "postgres": DatabaseStage,
    "mariadb": DatabaseStage,
    "memcached": MemcachedStage,
    "redlock": RedlockStage,
}
"""Every store by its name, in the order in which they have their turn."""


def staged(store: str, session_s: float | None = None) -> Stage:
    """Return the stage of a store, to be entered; where None is given, sessions are as long as it takes."""
    return STAGES[store](store, session_s)
