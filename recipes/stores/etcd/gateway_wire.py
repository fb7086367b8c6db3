"""The way to etcd by its gateway; what speaks HTTP is imported when it is used, which is not by gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recipes.stores.addresses import Endpoint

if TYPE_CHECKING:
    from recipes.stores.etcd.gateway import GatewaySpeaker
    from recipes.stores.etcd.stream import Stream

__all__ = ["GATEWAY"]


class _Gateway:
    """The way by the gateway."""

    def speaker(self, endpoint: Endpoint) -> GatewaySpeaker:
        """Return what is spoken with a server."""
        from recipes.stores.etcd.gateway import GatewaySpeaker  # noqa: PLC0415

        return GatewaySpeaker(endpoint)

    def channel(self, endpoint: Endpoint, token: str | None, only: dict[str, Any] | None = None) -> Stream:
        """Return a new stream of watches."""
        from recipes.stores.etcd.stream import Stream  # noqa: PLC0415

        return Stream(endpoint, token, only)


GATEWAY = _Gateway()
