"""What a client of redis-py that a program has already says: which servers, which user, which TLS.

Only its settings are read. Its connections, timeouts, retries and callbacks stay its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipes._record import record
from recipes.stores.redis.access import Access
from recipes.stores.redis.places import Address, Place, Remap, place_of

__all__ = ["Known", "known_client"]

_CLIENTS = {"Redis": "", "StrictRedis": "", "RedisCluster": "cluster"}


@record
class Known:
    """What is known of a client.

    Attributes:
        scheme: Of the URL that would say the same.
        kind: What follows ``+`` in it.
        place: Its servers.
        access: How to log in, and encrypt.
    """

    scheme: str
    kind: str
    place: Place
    access: Access


def known_client(client: Any, *, asynchronous: bool) -> Known:
    """Return what is known of a client; no I/O.

    Raises:
        TypeError: It is no client, or it is for the other API.
        ValueError: It reads from replicas, or is on a Unix socket.
    """
    kind, for_asyncio = _kind_of(client)
    if for_asyncio is not asynchronous:
        given, wanted, other = ("redis.asyncio", "redis", "connect_async()")
        if asynchronous:
            given, wanted, other = wanted, given, "connect()"
        raise TypeError(f"this client is of {given}: give it to {other}, or give a client of {wanted} here")
    if kind == "cluster":
        manager = client.nodes_manager
        options = client.connection_kwargs if for_asyncio else manager.connection_kwargs
        encrypted = _encrypts(options.get("connection_class")) or bool(options.get("ssl"))
        nodes = {**manager.nodes_cache, **manager.startup_nodes}.values()
        addresses = [(node.host, int(node.port)) for node in nodes]
        remap = getattr(manager, "address_remap", None)  # not before redis-py 5.1
        return _known(kind, addresses, options, encrypted=encrypted, remap=remap)
    pool = client.connection_pool
    options, encrypted = pool.connection_kwargs, _encrypts(pool.connection_class)
    if not hasattr(pool, "sentinel_manager"):
        if "path" in options:
            raise ValueError("this client is on a Unix socket; connect by host and port")
        address = options.get("host") or "localhost", int(options.get("port") or 6379)
        return _known("", [address], options, encrypted=encrypted)
    if not pool.is_master:
        raise ValueError(
            "this client reads from replicas, where nothing is locked: use Sentinel.master_for()"
        )
    sentinels = [one.connection_pool for one in pool.sentinel_manager.sentinels]
    addresses = [(one.connection_kwargs["host"], int(one.connection_kwargs["port"])) for one in sentinels]
    asked = Access.of_client(
        sentinels[0].connection_kwargs, encrypted=_encrypts(sentinels[0].connection_class)
    )
    master = pool.service_name
    return _known("sentinel", addresses, options, encrypted=encrypted, master=master, sentinels=(asked,))


def _kind_of(client: Any) -> tuple[str, bool]:
    """Return which kind of client it is, and whether it is for asyncio."""
    for one in type(client).__mro__:
        package, _, module = one.__module__.partition(".")
        if package == "redis":
            if one.__name__ not in _CLIENTS:
                break
            return _CLIENTS[one.__name__], module.startswith("asyncio")
    raise TypeError(
        f"{type(client).__module__}.{type(client).__qualname__} is no client: give a redis.Redis, or"
        " what Sentinel.master_for() returns, or a RedisCluster"
    )


def _encrypts(connection_class: Any) -> bool:
    return any(one.__name__ == "SSLConnection" for one in getattr(connection_class, "__mro__", ()))


def _known(
    kind: str,
    servers: list[Address],
    options: Mapping[str, Any],
    *,
    encrypted: bool,
    master: str = "",
    sentinels: tuple[Access, ...] = (),
    remap: Remap | None = None,
) -> Known:
    scheme = f"{'rediss' if encrypted else 'redis'}{kind and '+'}{kind}"
    access = Access.of_client(options, encrypted=encrypted)
    return Known(scheme, kind, place_of(kind, servers, master, sentinels, remap), access)
