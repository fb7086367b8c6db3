"""What a test left on a server: listed and removed by plain calls, not by the package under test."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import SequentialThreadingHandler

from integration.harness.cluster import Cluster
from integration.harness.database import Database
from integration.harness.etcd import Etcd
from integration.harness.files import Files
from integration.harness.process import Server, eventually
from integration.harness.redis import Redis
from integration.harness.zookeeper import ZooKeeper
from recipes.stores.zookeeper.handler_sockets import poll

__all__ = ["Leftovers", "clean", "kazoo_client", "leftovers", "sessions", "settle"]

SESSIONS = "~session/"
"""Where on etcd all clients' sessions have their keys, by their roots."""
_VALUE = re.compile(r"/~[a-z]+/[^/]+$")
"""The key of a value on etcd, a counter's say: it belongs to no session, and is to stay."""


@dataclass(frozen=True)
class Leftovers:
    """What stands under a prefix, and on etcd what belongs to the sessions of its clients.

    ``contenders`` live by a session (etcd: keys; ZooKeeper: ephemeral nodes) and must
    be gone when their clients are. ``parents`` are the directories of ZooKeeper, which
    may stay, and are empty on etcd.
    """

    contenders: tuple[str, ...]
    parents: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.contenders)


def leftovers(server: Server | Cluster[Any], prefix: str) -> Leftovers:
    """List everything under ``prefix``, the path of the URL the test gave its clients."""
    server = _asked(server)
    if isinstance(server, Etcd):
        standing = (key for key in server.keys(prefix) if not _VALUE.search(key))
        return Leftovers((*standing, *server.keys(SESSIONS + prefix)))
    if isinstance(server, Files):
        return Leftovers(server.contenders(prefix))
    if isinstance(server, Database):
        return Leftovers(server.contenders(prefix))
    if isinstance(server, Redis):
        return Leftovers((*server.contenders(prefix), *server.sessions(prefix)))
    with kazoo_client(server) as client:
        nodes = list(_walk(client, f"/{prefix.strip('/')}"))
    return Leftovers(
        contenders=tuple(path for path, ephemeral in nodes if ephemeral),
        parents=tuple(path for path, ephemeral in nodes if not ephemeral),
    )


def sessions(server: Server | Cluster[Any]) -> set[str]:
    """Return what the whole server knows of living clients: leases, sessions, or keys for them."""
    server = _asked(server)
    if isinstance(server, Etcd):
        return server.leases()
    if isinstance(server, Database | Files | Redis):
        return server.sessions()
    assert isinstance(server, ZooKeeper)
    return server.sessions()


def settle(server: Server | Cluster[Any], prefix: str, within_s: float = 15) -> Leftovers:
    """Wait until no contender is left under ``prefix`` (L5 grants five seconds) and return what is."""
    eventually(lambda: not leftovers(server, prefix), within_s)
    return leftovers(server, prefix)


def clean(server: Server | Cluster[Any], prefix: str) -> None:
    """Delete everything under ``prefix``."""
    server = _asked(server)
    if isinstance(server, Etcd):
        server.delete(prefix)
        server.delete(SESSIONS + prefix)
        return
    if isinstance(server, Database | Files | Redis):
        server.clean(prefix)
        return
    with kazoo_client(server) as client, contextlib.suppress(NoNodeError):
        client.delete(f"/{prefix.strip('/')}", recursive=True)


@contextlib.contextmanager
def kazoo_client(server: Server, *, timeout_s: float = 10) -> Generator[KazooClient, None, None]:
    """Yield a plain kazoo client of ``server``, connected."""
    options = server.kazoo_options if isinstance(server, ZooKeeper) else {}
    client = KazooClient(hosts=server.address, timeout=timeout_s, handler=_Steady(), **options)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


class _Steady(SequentialThreadingHandler):  # type: ignore[misc] # kazoo ships no types
    """Waits without an epoll descriptor, which comes and goes with each wait, and would be counted."""

    def select(self, rlist: Any, wlist: Any, _xlist: Any, timeout: float | None = None) -> Any:
        return *poll(rlist, wlist, timeout), []


def _asked(server: Server | Cluster[Any]) -> Server:
    """Return the server itself, or of a cluster the leader, which knows all."""
    if isinstance(server, Cluster):
        leader: Server = server.leader()
        return leader
    return server


def _walk(client: KazooClient, path: str) -> Iterator[tuple[str, bool]]:
    """Yield every node from ``path`` down, and whether it is ephemeral; what goes meanwhile is not there."""
    with contextlib.suppress(NoNodeError):
        _, stat = client.get(path)
        yield path, bool(stat.ephemeralOwner)
        for child in client.get_children(path):
            yield from _walk(client, f"{path.rstrip('/')}/{child}")
