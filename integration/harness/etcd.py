"""etcd servers, and the few gateway calls by which tests look at them without our package."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from integration.harness.cluster import Cluster
from integration.harness.hub import Hub
from integration.harness.process import Server, eventually
from integration.harness.throwaway import etcd_command, etcd_healthy, free_ports

__all__ = ["Etcd", "EtcdCluster"]

AGREED_S = 10.0
"""Within which members have the same, when what was left of the last test ends meanwhile."""


class Etcd(Server):
    """One etcd member; leases from ``ceil(1.5 * election_ms)`` seconds upwards."""

    scheme = "etcd"

    def __init__(
        self, label: str, binary: Path, *, name: str = "one", election_ms: int = 500, grpc: bool = False
    ) -> None:
        port, self.peer_port = free_ports(2)
        super().__init__(label, port)
        self.binary = binary
        if grpc:  # clients ask it so; what the tests ask, they ask the gateway
            self.scheme = "etcd+grpc"
        self.name = name
        self.cluster: str | None = None
        self._election_ms = election_ms

    def command(self) -> Sequence[str]:
        return etcd_command(
            self.binary,
            self.home / "data",
            client_port=self.port,
            peer_port=self.peer_port,
            name=self.name,
            cluster=self.cluster,
            election_ms=self._election_ms,
            host=self.host,
        )

    def healthy(self) -> bool:
        return etcd_healthy(self.port, self.host)

    def version(self) -> str:
        return str(self.ask("/version", method="GET")["etcdserver"])

    def forgets_when_killed(self) -> bool:
        """Whether this release may lose what it has answered when it is killed, as the only member.

        It answered before it had written: https://github.com/etcd-io/etcd/issues/14370. Until 3.5.2 it could
        also take a write for done that was not: https://github.com/etcd-io/etcd/issues/13766.
        """
        numbers = tuple(map(int, re.findall(r"\d+", self.version())[:3]))
        return numbers < (3, 4, 21) or (3, 5) <= numbers < (3, 5, 5)

    def ask(self, path: str, body: object = None, *, method: str = "POST", timeout_s: float = 5) -> Any:
        """Make one gateway call and return the decoded answer; RuntimeError if it is not 200."""
        connection = self.connection(None, timeout_s)
        try:
            connection.request(method, path, json.dumps({} if body is None else body))
            response = connection.getresponse()
            answer = json.loads(response.read())
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path}: {response.status} {answer}")
        return answer

    def connection(self, context: ssl.SSLContext | None, timeout_s: float) -> http.client.HTTPConnection:
        """Return a connection, not made yet; by TLS if there is a context."""
        if context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=context)

    def put(self, key: str, value: str = "", *, lease: str = "0") -> int:
        """Put one key and return the store's revision."""
        body = {"key": encoded(key), "value": encoded(value), "lease": lease}
        return int(self.ask("/v3/kv/put", body)["header"]["revision"])

    def revision(self) -> int:
        """Return the store's revision, when this member has all that the majority had when it was asked."""
        return int(self.ask("/v3/kv/range", {"key": encoded("x")})["header"]["revision"])

    def keys(self, prefix: str) -> list[str]:
        """Return every key that starts with ``prefix``, oldest first."""
        start = prefix.encode() or b"\0"
        body = {
            "key": encoded(start),
            "range_end": encoded(_after(start) if prefix else b"\0"),
            "keys_only": True,
            "sort_target": "CREATE",
            "sort_order": "ASCEND",
        }
        found = self.ask("/v3/kv/range", body).get("kvs", [])
        return [base64.b64decode(one["key"]).decode() for one in found]

    def delete(self, prefix: str) -> None:
        """Delete every key that starts with ``prefix``, which is not empty."""
        body = {"key": encoded(prefix), "range_end": encoded(_after(prefix.encode()))}
        self.ask("/v3/kv/deleterange", body)

    def leases(self) -> set[str]:
        """Return the id of every lease of the whole store, in decimal as the gateway writes it."""
        return {one["ID"] for one in self.ask("/v3/lease/leases").get("leases", [])}

    def grant(self, ttl_s: int) -> str:
        """Grant a lease and return its id."""
        return str(self.ask("/v3/lease/grant", {"TTL": ttl_s})["ID"])

    def revoke(self, lease: str) -> None:
        """Revoke a lease, with every key bound to it."""
        self.ask("/v3/lease/revoke", {"ID": lease})

    def watches(self) -> int:
        """Return how many watches are set on the server."""
        with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=5) as answer:
            match = re.search(
                r"^etcd_debugging_mvcc_watcher_total (\d+)", answer.read().decode(), re.MULTILINE
            )
        assert match is not None, "the metrics should tell of watchers"
        return int(match[1])

    def compact(self) -> int:
        """Compact the history up to now and return the revision of that."""
        revision = self.revision()
        self.ask("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision


class EtcdCluster(Cluster[Etcd]):
    """Three etcd members on loopback, or on a hub."""

    def __init__(
        self,
        label: str,
        binary: Path,
        *,
        size: int = 3,
        election_ms: int = 1000,
        hub: Hub | None = None,
        grpc: bool = False,
    ) -> None:
        names = [f"n{number}" for number in range(1, size + 1)]
        members = [
            Etcd(f"{label}-{name}", binary, name=name, election_ms=election_ms, grpc=grpc) for name in names
        ]
        super().__init__(members, hub)
        plan = ",".join(f"{member.name}=http://{member.host}:{member.peer_port}" for member in self.members)
        for member in self.members:
            member.cluster = plan

    def leads(self, member: Etcd) -> bool:
        status = member.ask("/v3/maintenance/status", timeout_s=1)
        return bool(status.get("leader") == status["header"]["member_id"])  # absent while there is none

    def agrees(self) -> bool:
        return eventually(lambda: len({member.revision() for member in self.members}) == 1, AGREED_S)


def encoded(text: str | bytes) -> str:
    """Return ``text`` as the gateway wants bytes."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _after(start: bytes) -> bytes:
    """Return the end of the range of keys that begin with ``start``; no prefix of a test ends in 0xff."""
    return start[:-1] + bytes([start[-1] + 1])
