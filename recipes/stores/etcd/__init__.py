"""etcd, through its JSON gateway (etcd3gw) or by gRPC."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from recipes._contract.backend import Backend
from recipes.guarantees import STORES
from recipes.stores import credentials, tls
from recipes.stores.credentials import Credentials
from recipes.stores.etcd.gateway_wire import GATEWAY
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.wire_dial import Endpoints
from recipes.stores.urls import hosts_of, root_of, written

if TYPE_CHECKING:
    import ssl
    from urllib.parse import SplitResult

    from recipes._contract.connection import AsyncConnection, Connection, OnEnd
    from recipes.stores.etcd.wires import Wire

__all__ = ["EtcdBackend", "backend"]

GRPC = "+grpc"
"""What a scheme ends in that asks for gRPC."""


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[EtcdBackend, set[str]]:
    """Return the backend for a URL and options, and which options there are.

    Raises:
        ValueError: The URL or an option does not fit.
        TypeError: An option is of the wrong type.
    """
    context = tls.context_for(parts.scheme, options)
    given = Credentials.given(parts.scheme, options)
    hosts = hosts_of(parts, 2379)
    grpc = parts.scheme.endswith(GRPC)
    made = EtcdBackend(hosts, root_of(parts), ssl_context=context, credentials=given, grpc=grpc)
    return made, {*tls.NAMES, *credentials.NAMES}


class EtcdBackend(Backend):
    """etcd at these endpoints; leases are valid on all members of a cluster."""

    guarantees = STORES["etcd"]

    def __init__(
        self,
        hosts: list[tuple[str, int]],
        root: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        grpc: bool = False,
    ) -> None:
        self._endpoints = Endpoints(hosts)
        self.servers = len(hosts)
        self._ssl_context = ssl_context
        self._credentials = credentials
        self._layout = Layout(root)
        scheme = ("etcd" if ssl_context is None else "etcds") + (GRPC if grpc else "")
        self._grpc = grpc
        self.label = f"{scheme}://{','.join(written(host, port) for host, port in hosts)}/{root}"

    def protocol(self) -> EtcdProtocol:
        """Return the protocol for one session, with a lease id of its own."""
        named = self._credentials is not None
        return EtcdProtocol(self.label, self._layout, (int.from_bytes(os.urandom(8)) >> 2) + 1, named=named)

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        from recipes.stores.etcd.blocking import EtcdConnection

        return EtcdConnection(
            self._endpoints, ssl_context=self._context(), credentials=self._credentials, wire=self._wire()
        )

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        from recipes.stores.etcd.tasks import AsyncEtcdConnection

        return AsyncEtcdConnection(
            self._endpoints, ssl_context=self._context(), credentials=self._credentials, wire=self._wire()
        )

    def _context(self) -> ssl.SSLContext | None:
        if self._ssl_context is None:
            return None
        from recipes.stores.tls_alpn import AlpnContext

        # By what is asked for etcd knows whether to serve gRPC, or its gateway.
        return AlpnContext(self._ssl_context, "h2" if self._grpc else "http/1.1")

    def _wire(self) -> Wire:
        if not self._grpc:
            return GATEWAY
        from recipes.stores.etcd.grpc_wire import GrpcWire

        return GrpcWire(secure=self._ssl_context is not None)
