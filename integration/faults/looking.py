"""What fault tests look at: contenders on the server, and requests at the proxy."""

from __future__ import annotations

import threading

from integration import servers
from integration.harness.wire import Match, Request
from integration.proxy import matching
from integration.stores import store_on
from recipes._contract.names import encode
from tests.pace import taking

__all__ = [
    "L5_S",
    "Gate",
    "contenders",
    "creates",
    "deletes",
    "ends",
    "hold_fault",
    "keepalives",
    "opens",
    "remove",
    "taking",
    "token_of",
]

L5_S = 5.0


def hold_fault(seconds: float) -> None:
    """Let a fault last: the only place where a fault test waits for time to pass."""
    threading.Event().wait(seconds)


# On the server.


def contenders(server: servers.Server, prefix: str) -> list[str]:
    """Return every contender under ``prefix``; what a store keeps of a session itself is none."""
    return [path for path in servers.leftovers(server, prefix).contenders if "~session" not in path]


def remove(server: servers.Server, contender: str) -> None:
    """Delete one contender, as an operator would."""
    if isinstance(server, servers.Etcd | servers.Files):
        server.delete(contender)
    elif isinstance(server, servers.Redis):
        prefix, _, standing = contender.partition(":")
        name, _, token = standing.rpartition("/")
        store = store_on(server, prefix)
        store.remove(f"{encode(name)}/{token}")
        store.open.close()
    else:
        with servers.kazoo_client(server) as client:
            client.delete(contender)


def token_of(server: servers.Server, contender: str) -> int:
    """Return what the store itself says is the contender's token."""
    if isinstance(server, servers.Etcd):
        from integration.harness.etcd import encoded

        found = server.ask("/v3/kv/range", {"key": encoded(contender)})["kvs"]
        return int(found[0]["create_revision"])
    if isinstance(server, servers.Files | servers.Redis):
        return int(contender.rpartition("/")[2])
    with servers.kazoo_client(server) as client:
        stat = client.exists(contender)
        assert stat is not None
        return int(stat.czxid)


# At the proxy: which request is which.


def creates(server: servers.Server) -> Match:
    """Match the request that makes a contender."""
    if isinstance(server, servers.Redis):
        return matching("join")
    if isinstance(server, servers.ZooKeeper):
        return matching("create2")
    return lambda request: _puts(request) and b'"request_delete_range"' not in request.body


def deletes(server: servers.Server) -> Match:
    """Match the request that deletes a contender."""
    if isinstance(server, servers.Redis):
        return matching("remove")
    if isinstance(server, servers.ZooKeeper):
        return matching("delete")
    return lambda request: _deletes(request.label, request.body)


def opens(server: servers.Server) -> Match:
    """Match the request that starts a session."""
    if isinstance(server, servers.Redis):
        return lambda request: request.label == "set" and ":~session:" in request.path
    return matching("connect" if isinstance(server, servers.ZooKeeper) else "lease/grant")


def keepalives(server: servers.Server) -> Match:
    """Match the request that renews a session."""
    if isinstance(server, servers.Redis):
        return matching("pexpire", ":~session:")
    return matching("sync" if isinstance(server, servers.ZooKeeper) else "lease/keepalive")


def ends(server: servers.Server) -> Match:
    """Match the request that ends a session."""
    if isinstance(server, servers.Redis):
        return matching("del", ":~session:")
    return matching("close" if isinstance(server, servers.ZooKeeper) else "lease/revoke")


def _deletes(label: str, body: bytes) -> bool:
    """Alone, or with a tombstone put in its place."""
    return label.endswith("kv/deleterange") or (
        label.endswith("kv/txn") and b'"request_delete_range"' in body
    )


def _puts(request: Request) -> bool:
    return request.label.endswith("kv/txn") and b'"request_put"' in request.body


class Gate:
    """A resource that takes no token smaller than the largest it has seen (S3)."""

    def __init__(self) -> None:
        self._largest = 0

    def write(self, token: int) -> bool:
        """Write with a token; whether it was taken."""
        taken = token >= self._largest
        self._largest = max(self._largest, token)
        return taken
