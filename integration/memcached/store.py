"""A Memcached as the contract suite sees it: its items, read and written by plain commands."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from integration import servers
from integration.proxy import Proxy
from recipes._contract.names import encode
from recipes.stores.memcached.acts import Acts
from tests.contract.stores import CellStore, Line, queue_of
from tests.contract.tap import Tap

__all__ = ["MemcachedStore"]


class MemcachedStore(CellStore):
    """A prefix on a Memcached; a frail client goes through a proxy of its own."""

    options: Mapping[str, Any] = MappingProxyType({"restart_grace": 0})  # the server is up for long enough

    def __init__(self, server: servers.Memcached, prefix: str) -> None:
        self.server = server
        self.mark = prefix
        self._acts = Acts("", f"{prefix}:", 0)
        self._open = contextlib.ExitStack()

    def url(self) -> str:
        return self.server.url(self.mark)

    def line(self, tap: Tap) -> Line:
        proxy = self._open.enter_context(Proxy.of(self.server))
        return Line(proxy.url(self.mark), proxy.blackhole, proxy.cut, proxy.heal)

    def contenders(self, name: str) -> list[str]:
        return [queue_of(name)] if self.server.get(self.key(queue_of(name))) else []

    def everything(self) -> list[str]:
        return [encode(key.removeprefix(f"{self.mark}:")) for key in self.server.keys(f"{self.mark}:")]

    def remove(self, contender: str) -> None:
        self.server.delete(self.key(contender))

    def plant(self, name: str, kind: str) -> str:
        value = f"another/{uuid.uuid4()}" if kind == "orphan" else kind
        assert self.server.add(self.key(encode(name)), value), "it excludes, and is excluded"
        return encode(name)

    def end_session(self, client: Any) -> None:
        for key in self.server.keys(f"{self.mark}:"):
            if self.server.get(key).startswith(f"{client.session.id}/"):
                self.server.delete(key)

    def close(self) -> None:
        """End the proxies, and delete what is left."""
        self._open.close()
        for key in self.server.keys(f"{self.mark}:"):
            self.server.delete(key)

    def key(self, queue: str) -> str:
        """Return the key of a lock."""
        return self._acts.key(queue).decode()
