"""Clients of a server of their own, with which a test may do what it likes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration.faults.actors import APIS, Actor, actor
from integration.needing import needed
from integration.opening import open_patiently
from integration.proxy import Proxy
from integration.redis_faults.nodes import Kept
from recipes.stores.redis.keys import Keys

SESSION_S = 6.0  # of one that is not to end by itself where a machine stands still for three seconds
REQUEST_S = 1.0


class Lab:
    """One server, a proxy before it, and what makes clients.

    Attributes:
        name: A name for a lock.
        session_s: How long sessions last.
    """

    name = "nightly"
    session_s = SESSION_S

    def __init__(self, server: Kept, proxy: Proxy, api: str, prefix: str) -> None:
        self.server, self.proxy, self.api, self.prefix = server, proxy, api, prefix
        self.keys = Keys(f"{prefix}:")
        self._clients: list[Actor] = []

    def client(self, *, proxied: bool = False, **options: Any) -> Actor:
        """Return a client, straight to the server or through the proxy; its session has begun."""
        settings = {"session_timeout": SESSION_S, "request_timeout": REQUEST_S, "restart_grace": 0, **options}
        one = actor(self.api, self.url(proxied=proxied), **settings)
        self._clients.append(one)
        open_patiently(one)
        return one

    def url(self, *, proxied: bool = False) -> str:
        """Return the URL of a client."""
        return f"redis://{(self.proxy if proxied else self.server).address}/0/{self.prefix}"

    def contenders(self) -> tuple[str, ...]:
        """Return the contenders, as the server has them."""
        return self.server.contenders(self.prefix)

    @property
    def key(self) -> str:
        """The key of the lock, which other programs see too."""
        return self.keys.base(self.name)

    def close(self) -> None:
        """Close all clients."""
        self.proxy.heal()
        for one in self._clients:
            one.close()


@pytest.fixture
def kind() -> Callable[[], Kept]:
    """Return what makes the server; a test may have another."""
    return Kept


@pytest.fixture(params=APIS)
def lab(request: pytest.FixtureRequest, kind: Callable[[], Kept], prefix: str) -> Iterator[Lab]:
    """Yield a server of its own, for each API in turn."""
    with needed("redis-7", kind) as server, Proxy.of(server) as proxy:
        one = Lab(server, proxy, request.param, prefix)
        yield one
        server.resume()
        server.start()
        one.close()
