"""Where runs happen: a server or a cluster of three, started once, and what an operator does to it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Self

from integration import servers
from integration.clusters.labs import cluster_of
from integration.harness.cluster import Cluster
from integration.harness.embedded import EmbeddedZooKeeper
from integration.harness.process import url_of
from integration.proxy import Proxy
from integration.stores import make_tables
from recipes.stores.sql.tables import PREFIX

__all__ = ["STORES", "Stage", "Way"]

CLUSTERS = {
    "etcd-cluster": "etcd-3.4",
    "etcd-grpc-cluster": "etcd-grpc",
    "zookeeper-cluster": "zookeeper-3.8",
}
STORES = (
    *servers.ETCDS,
    "zookeeper",
    *CLUSTERS,
    *("postgres", "mariadb"),
)
SESSION_S = {
    "etcd-3.4": 2.0,
    "etcd-3.5": 2.0,
    "etcd-grpc": 2.0,
    "zookeeper": 2.0,
    "etcd-cluster": 3.0,
    "etcd-grpc-cluster": 3.0,
    "zookeeper-cluster": 3.0,
    "postgres": 2.0,
    "mariadb": 2.0,
}
"""Long enough on a cluster for some sessions to outlive the death of a leader."""

OTHERS_S = 2.0

KEPT = ("~value/", "~counter/", "~latch/", "~barrier/")
"""What stands there is no contender: values, which stay, and their receipts, which go with their session."""

_PLACE = re.compile(r"^\s(/\S+)$", re.MULTILINE)


class Way:
    """A client's own way to the store: a proxy before each member, or none, which is quicker."""

    def __init__(self, members: list[Any], scheme: str, *, proxied: bool) -> None:
        self.proxies = [Proxy.of(member).start() for member in members if proxied]
        self._doors: list[Any] = list(self.proxies or members)
        self._scheme = scheme

    def url(self, prefix: str) -> str:
        """Return the URL by which this client connects."""
        return url_of(self._scheme, [door.address for door in self._doors], prefix)

    def heal(self) -> None:
        """End all that is wrong with it; traps stay set."""
        for proxy in self.proxies:
            proxy.heal()

    def close(self) -> None:
        """End the proxies."""
        for proxy in self.proxies:
            proxy.close()


class Stage:
    """A store of one kind; a context manager starts and closes it.

    Attributes:
        options: What clients have to be told besides the URL.
    """

    options: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, store: str) -> None:
        self.store = store
        self.session_s = SESSION_S.get(store, OTHERS_S)
        self.server = self._made()
        self.kind: str = self.server.kind

    def _made(self) -> Any:
        if self.clustered:
            return cluster_of(CLUSTERS[self.store])
        return {
            "etcd-3.4": servers.etcd_34,
            "etcd-3.5": servers.etcd_35,
            "etcd-grpc": servers.etcd_grpc,
            "zookeeper": EmbeddedZooKeeper,
            "postgres": partial(servers.postgres, keeps=True),
            "mariadb": partial(servers.mariadb, keeps=True),
        }[self.store]()

    @property
    def clustered(self) -> bool:
        """Whether there are three servers."""
        return self.store.endswith("-cluster")

    @property
    def has_server(self) -> bool:
        """Whether there is a server, and a way to it, that can fail."""
        return True

    @property
    def is_database(self) -> bool:
        """Whether it is a database."""
        return isinstance(self.server, servers.Database)

    @property
    def members(self) -> list[Any]:
        """All servers."""
        return list(self.server.members) if isinstance(self.server, Cluster) else [self.server]

    def version(self) -> str:
        """Return what the server says that it is."""
        return str(self.members[0].version())

    def way(self, *, proxied: bool = True) -> Way:
        """Return a way of its own for a client."""
        return Way(self.members, self.server.scheme, proxied=proxied)

    def heal(self) -> None:
        """Have every server run and serve."""
        for member in self.members:
            member.resume()
        self.server.start()
        if self.clustered:
            self.server.leader()

    def contenders(self, prefix: str) -> dict[str, str]:
        """Return the contenders below ``prefix``, and the session of each, in hexadecimal."""
        if self.is_database:
            return self._rows(prefix)
        asked = self.server.leader() if self.clustered else self.server
        found = self._keys(asked, prefix) if self.kind == "etcd" else self._nodes(asked, prefix)
        return dict(found)

    def _rows(self, prefix: str) -> dict[str, str]:
        found = self.server.ask(
            f"SELECT queue, token, session FROM {PREFIX}contender JOIN {PREFIX}session"
            f" ON {PREFIX}session.id = session WHERE expires_at > {self.server.now}"
        )
        return {f"{name}/{token}": one for name, token, one in found if name.startswith(f"{prefix}:")}

    @staticmethod
    def _keys(server: Any, prefix: str) -> Iterator[tuple[str, str]]:
        for key in server.keys(f"{prefix}/"):
            if key.startswith(tuple(f"{prefix}/{kind}" for kind in KEPT)):
                continue
            yield key, key.rpartition("/")[2].split("-")[1]

    @staticmethod
    def _nodes(server: Any, prefix: str) -> Iterator[tuple[str, str]]:
        said = server.ask("dump").partition("Sessions with Ephemerals")[2]
        for part in re.split(r"^(?=0x)", said, flags=re.MULTILINE)[1:]:
            session = part.partition(":")[0]
            for path in _PLACE.findall(part):
                kept = path.startswith(tuple(f"/{prefix}/{kind}" for kind in KEPT))
                if path.startswith(f"/{prefix}/") and not kept:
                    yield path, session.removeprefix("0x")

    def sessions(self, prefix: str) -> list[str]:
        """Return the sessions that have something below ``prefix``, in hexadecimal."""
        if self.kind == "etcd":
            mine = f"~session/{prefix}/"
            keys = self.server_asked().keys(mine)  # anchors, and tombstones below them
            return sorted({key.removeprefix(mine).split("/")[0] for key in keys})
        return sorted(set(self.contenders(prefix).values()))

    def server_asked(self) -> Any:
        """Return a server that can be asked."""
        return self.server.leader() if self.clustered else self.server

    def expires(self) -> bool:
        """Whether sessions can be ended from outside."""
        return self.kind == "etcd" or not self.clustered

    def expire(self, session: str) -> None:
        """End a session as if its time were up."""
        if self.kind == "etcd":
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self.server_asked().revoke(str(int(session, 16)))
        elif self.is_database:
            self.server.ask(f"UPDATE {PREFIX}session SET expires_at = 0 WHERE id = %s", session)
        else:
            self.server.expire(session)

    def compact(self) -> None:
        """Have etcd forget its history."""
        self.server_asked().compact()

    def end_connections(self) -> None:
        """Have a database end all its connections."""
        self.server.terminate()

    def __enter__(self) -> Self:
        self.server.__enter__()
        if self.is_database:
            make_tables(self.server)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
