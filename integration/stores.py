"""Real servers as the contract suite sees them: what is really there, and an operator's hands on it."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from integration import servers
from integration.proxy import Proxy
from recipes._contract.names import encode
from tests.contract.stores import Line, Store, queue_of
from tests.contract.tap import Tap

__all__ = ["EtcdStore", "ServerStore", "ZooKeeperStore", "store_on"]

FOREIGN = "6f1d5e0c"


class ServerStore(Store):
    """A prefix on a real server; a frail client goes through a proxy of its own."""

    def __init__(self, server: servers.Server, prefix: str) -> None:
        self.server = server
        self.options = server.options
        self.mark = self.prefix = prefix
        self.open = contextlib.ExitStack()

    def url(self) -> str:
        return self.server.url(self.prefix)

    def below(self, name: str) -> str:
        return self.server.url(f"{self.prefix}/{encode(name)}")

    def line(self, tap: Tap) -> Line:
        proxy = self.open.enter_context(Proxy.of(self.server))
        return Line(proxy.url(self.prefix), proxy.blackhole, proxy.cut, proxy.heal)

    def close(self) -> None:
        """End the proxies, and wipe the prefix."""
        self.open.close()
        servers.clean(self.server, self.prefix)


class EtcdStore(ServerStore):
    """A prefix on etcd."""

    server: servers.Etcd

    def contenders(self, name: str) -> list[str]:
        return self.server.keys(f"{self.prefix}/{queue_of(name)}/")

    def everything(self) -> list[str]:
        return self.server.keys(f"{self.prefix}/")

    def sessions(self) -> set[str]:
        return servers.sessions(self.server)

    def remove(self, contender: str) -> None:
        self.server.delete(contender)

    def plant(self, name: str, kind: str) -> str:
        key = f"{self.prefix}/{queue_of(name)}/"
        lease = "0"
        if kind == "foreign":  # Go's mutex, and etcdctl
            lease = self.server.grant(60)
            key += f"{int(lease):x}"
        elif kind == "orphan":
            key += f"W-{FOREIGN}-{uuid.uuid4()}"
        else:
            key += "no / layout"
        self.server.put(key, lease=lease)
        return key

    def forget_history(self) -> None:
        self.server.put(f"{self.prefix}/~something", "else")
        self.server.delete(f"{self.prefix}/~something")
        self.server.compact()

    def end_session(self, client: Any) -> None:
        self.server.revoke(str(int(client.session.id, 16)))


class ZooKeeperStore(ServerStore):
    """A root on ZooKeeper."""

    server: servers.ZooKeeper
    malformed_blocks = False
    lands_late = False  # what a session sent on a connection that is gone is refused

    def __init__(self, server: servers.Server, prefix: str) -> None:
        super().__init__(server, prefix)
        self._operator: KazooClient | None = None

    @property
    def operator(self) -> KazooClient:
        """A plain kazoo client."""
        if self._operator is None:
            self._operator = self.open.enter_context(servers.kazoo_client(self.server))
        return self._operator

    def contenders(self, name: str) -> list[str]:
        return self._children(f"/{self.prefix}/{queue_of(name)}")

    def everything(self) -> list[str]:
        with contextlib.suppress(NoNodeError):
            nodes = self.operator.get_children(f"/{self.prefix}")
            return [path for node in nodes for path in self._children(f"/{self.prefix}/{node}")]
        return []

    def sessions(self) -> set[str]:
        assert self.operator.connected, "its session is one of them"
        return servers.sessions(self.server)

    def remove(self, contender: str) -> None:
        self.operator.delete(contender)

    def remove_directory(self, name: str) -> None:
        self.operator.delete(f"/{self.prefix}/{queue_of(name)}")

    def plant(self, name: str, kind: str) -> str:
        node = f"/{self.prefix}/{encode(name)}"
        if kind == "foreign":  # kazoo's lock
            return self._create(f"{node}/{uuid.uuid4().hex}__lock__", ephemeral=True, sequence=True)
        if kind == "orphan":
            return self._create(f"{node}/_c_{uuid.uuid4()}-lock-", sequence=True)
        return self._create(f"{node}/no layout")

    def end_session(self, client: Any) -> None:
        connection = client._runtime.state.session.connection
        self.expire(getattr(connection, "inner", connection)._session._client)  # tapped, or not

    def expire(self, client: KazooClient) -> None:
        """Take the session of any client over, with its id and password, and close it."""
        thief = KazooClient(self.server.address, client_id=client.client_id, **self.server.kazoo_options)
        thief.start(timeout=10)
        thief.stop()
        thief.close()

    def _create(self, path: str, **options: Any) -> str:
        return str(self.operator.create(path, b"", makepath=True, **options))

    def _children(self, node: str) -> list[str]:
        """Return the paths of all children, as they were created."""
        found = []
        with contextlib.suppress(NoNodeError):
            for child in self.operator.get_children(node):
                with contextlib.suppress(NoNodeError):
                    _, stat = self.operator.get(f"{node}/{child}")
                    found.append((stat.czxid, f"{node}/{child}"))
        return [path for _, path in sorted(found)]


def store_on(server: servers.Server, prefix: str) -> ServerStore:
    """Return the store of a kind of server."""
    return (EtcdStore if isinstance(server, servers.Etcd) else ZooKeeperStore)(server, prefix)
