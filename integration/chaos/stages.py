"""Where a soak happens: the stages of the chaos runs, and more stores; each says how much it keeps."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import sqlalchemy

from integration import servers
from integration.chaos.stage import Stage, Way
from integration.harness.process import url_of
from integration.stores import engine_of
from recipes.stores.sql.tables import Tables

__all__ = ["CELL_LANES", "LANES", "PLACES", "place"]

MAJORITY = 3
LANES = (
    *("locks", "locks", "staying", "counting", "reentering", "banking", "permits", "electing", "joining"),
    *("dividing", "together", "valuing", "adding", "guarding", "latching", "meeting", "blocks"),
)
"""What each client does all the while: every recipe."""
CELL_LANES = ("locks", "locks", "locks", "staying", "counting", "reentering", "together", "blocks")
"""Where a store keeps one holder of a name and no queue."""
PASSING = re.compile(r":(x|receipt):")
NODES = re.compile(r"^Node count: (\d+)", re.MULTILINE)


class Place(Stage):
    """A stage for long runs.

    Attributes:
        lanes: What its clients do.
        without: The faults that cannot be here.
        graced: After a restart it grants nothing for as long as clients say: for a session here.
    """

    lanes: tuple[str, ...] = LANES
    without: frozenset[str] = frozenset()
    graced = False

    def __init__(self, store: str, session_s: float) -> None:
        super().__init__(store)
        self.session_s = session_s
        if self.graced:
            self.options = {"restart_grace": session_s}

    def size(self) -> int:
        """Return how many keys, nodes or rows there are in the whole store.

        Raises:
            OSError: It does not answer now; also other errors of its clients.
        """
        asked = self.server_asked()
        if self.kind == "etcd":
            return len(asked.keys("")) + len(asked.leases())
        found = NODES.search(asked.ask("srvr"))
        assert found is not None, "srvr should say how many nodes there are"
        return int(found[1])


class DatabasePlace(Place):
    """A database."""

    graced = True

    def size(self) -> int:
        tables = Tables().metadata.sorted_tables
        with engine_of(self.server).connect() as connection:
            counts = [sqlalchemy.select(sqlalchemy.func.count()).select_from(table) for table in tables]
            return sum(connection.execute(count).scalar_one() for count in counts)


class Door(Way):
    """A way to a store whose URL is not made of the addresses of its servers."""

    def __init__(self, members: list[Any], url: Callable[[list[Any], str], str], *, proxied: bool) -> None:
        super().__init__(members, "", proxied=proxied)
        self._url = url

    def url(self, prefix: str) -> str:
        return self._url(self._doors, prefix)


class FilesPlace(Place):
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


class RedisPlace(Place):
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


class MemcachedPlace(Place):
    """One Memcached, which forgets everything when it is killed."""

    graced = True
    lanes = CELL_LANES
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


class RedlockPlace(Place):
    """Five Redis, each with a vote."""

    graced = True
    lanes = CELL_LANES

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


PLACES: dict[str, type[Place]] = {
    "etcd-3.4": Place,
    "etcd-grpc": Place,
    "etcd-grpc-cluster": Place,
    "zookeeper": Place,
    "zookeeper-cluster": Place,
    "redis": RedisPlace,
    "sqlite": FilesPlace,
    "postgres": DatabasePlace,
    "mariadb": DatabasePlace,
    "memcached": MemcachedPlace,
    "redlock": RedlockPlace,
}
"""Every store on which a soak can be, by its name, in the order in which it has them."""


@contextlib.contextmanager
def place(store: str, session_s: float) -> Iterator[Place]:
    """Start a place where sessions are so long, and close it."""
    with PLACES[store](store, session_s) as one:
        yield one
