"""Where runs happen: etcd or ZooKeeper, one server or three, and what an operator does to it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar, Self

from integration import servers
from integration.clusters.labs import cluster_of
from integration.harness.cluster import Cluster
from integration.harness.embedded import EmbeddedZooKeeper
from integration.harness.process import url_of
from integration.proxy import Proxy

__all__ = ["Stage", "Way"]

CLUSTERS = {
    "etcd-cluster": "etcd-3.4",
    "etcd-grpc-cluster": "etcd-grpc",
    "zookeeper-cluster": "zookeeper-3.8",
}
SESSION_S, CLUSTER_S = 2.0, 3.0
"""Long enough on a cluster for some sessions to outlive the death of a leader."""

KEPT = ("~value/", "~counter/", "~latch/", "~barrier/")
"""What stands there is no contender: values, which stay, and their receipts, which go with their session."""

_PLACE = re.compile(r"^\s(/\S+)$", re.MULTILINE)
_NODES = re.compile(r"^Node count: (\d+)", re.MULTILINE)


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

    Args:
        store: Its name in `integration.chaos.stages.STAGES`.
        session_s: How long sessions are; None: as long as it takes here.

    Attributes:
        options: What clients have to be told besides the URL.
        queues: Whether it keeps a queue of a name; otherwise its holder alone.
        without: The faults that cannot be here.
        graced: After a restart it grants nothing for as long as clients say: for a session here.
    """

    queues: ClassVar[bool] = True
    without: ClassVar[frozenset[str]] = frozenset()
    graced: ClassVar[bool] = False

    def __init__(self, store: str, session_s: float | None = None) -> None:
        self.store = store
        self.session_s = session_s or (CLUSTER_S if self.clustered else SESSION_S)
        self.options = {"restart_grace": self.session_s} if self.graced else {}
        self.server = self._made()
        self.kind: str = self.server.kind

    def _made(self) -> Any:
        if self.clustered:
            return cluster_of(CLUSTERS[self.store])
        made: dict[str, Any] = {
            "etcd-3.4": servers.etcd_34,
            "etcd-3.5": servers.etcd_35,
            "etcd-grpc": servers.etcd_grpc,
            "zookeeper": EmbeddedZooKeeper,
        }
        return made[self.store]()

    @property
    def clustered(self) -> bool:
        """Whether there are three servers."""
        return self.store.endswith("-cluster")

    @property
    def has_server(self) -> bool:
        """Whether there is a server, and a way to it, that can fail."""
        return True

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
        asked = self.server.leader() if self.clustered else self.server
        found = self._keys(asked, prefix) if self.kind == "etcd" else self._nodes(asked, prefix)
        return dict(found)

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
        else:
            self.server.expire(session)

    def compact(self) -> None:
        """Have etcd forget its history."""
        self.server_asked().compact()

    def size(self) -> int:
        """Return how many keys, nodes or rows there are in the whole store.

        Raises:
            OSError: It does not answer now; also other errors of its clients.
        """
        asked = self.server_asked()
        if self.kind == "etcd":
            return len(asked.keys("")) + len(asked.leases())
        found = _NODES.search(asked.ask("srvr"))
        assert found is not None, "srvr should say how many nodes there are"
        return int(found[1])

    def __enter__(self) -> Self:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.close()
