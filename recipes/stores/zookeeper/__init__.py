"""ZooKeeper, through kazoo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recipes._contract.backend import Backend
from recipes.guarantees import STORES, one_holder
from recipes.stores import credentials, tls
from recipes.stores.urls import hosts_of, layout_of, root_of, written
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.protocol_name import NameProtocol

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from recipes._contract.connection import AsyncConnection, Connection, OnEnd
    from recipes._contract.protocol import StoreProtocol
    from recipes.stores.zookeeper.access import Access

__all__ = ["ZooKeeperBackend", "backend"]

LONGEST_SESSION_S = (2**31 - 1) // 1000


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[ZooKeeperBackend, set[str]]:
    """Return the backend for a URL and options, and which options there are.

    Raises:
        ValueError: The URL or an option does not fit.
        TypeError: An option is of the wrong type.
    """
    from recipes.stores.zookeeper.access import Access

    hosts, root = hosts_of(parts, 2181), root_of(parts)
    layout = layout_of(options, "name")
    made = ZooKeeperBackend(hosts, root, Access.given(parts.scheme, options), one_name=layout == "name")
    return made, {*tls.NAMES, *credentials.NAMES, "acl", "layout", "sasl"}


class ZooKeeperBackend(Backend):
    """A ZooKeeper ensemble; with ``one_name`` each lock is one ephemeral node, and no queue."""

    def __init__(
        self, hosts: list[tuple[str, int]], root: str, access: Access, *, one_name: bool = False
    ) -> None:
        queued = STORES["zookeeper"]
        self.guarantees = one_holder(queued) if one_name else queued
        self.one_name = one_name
        self._protocol = NameProtocol if one_name else ZooKeeperProtocol
        self._hosts = ",".join(written(host, port) for host, port in hosts)
        self._layout = Layout(root)
        self._access = access
        self.label = f"zookeeper{'' if access.context is None else 's'}://{self._hosts}/{root}"

    def check_session(self, session_timeout_s: float) -> None:
        """Refuse a session of more milliseconds than the wire has room for."""
        if session_timeout_s > LONGEST_SESSION_S:
            raise ValueError(
                f"session_timeout={session_timeout_s:g} is longer than ZooKeeper can be asked for: "
                f"{LONGEST_SESSION_S} s; a server grants 20 of its ticks, or its maxSessionTimeout, at most"
            )

    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session."""
        return self._protocol(self.label, self._layout)

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        from recipes.stores.zookeeper.blocking import KazooConnection

        return KazooConnection(self._hosts, on_end=on_end, access=self._access)

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        from recipes.stores.zookeeper.tasks import AsyncKazooConnection

        return AsyncKazooConnection(self._hosts, on_end=on_end, access=self._access)
