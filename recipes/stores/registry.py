"""Which stores there are, by the schemes of their URLs, and how a backend is made; no I/O.

It is made of a URL, or of a client of the store that a program has already.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit

from recipes._contract.backend import Backend
from recipes.stores import credentials
from recipes.stores.urls import encrypts

__all__ = ["SCHEMES", "ClientFactory", "Factory", "factory_of", "from_client", "from_url", "liveness_locks"]

Factory = Callable[[SplitResult, dict[str, Any]], tuple[Backend, set[str]]]
"""Makes a backend of a URL and options, and returns the names of the options that it knows, too."""

SCHEMES = {
    "zookeeper": "recipes.stores.zookeeper:backend",
    "zookeepers": "recipes.stores.zookeeper:backend",
    "etcd": "recipes.stores.etcd:backend",
    "etcds": "recipes.stores.etcd:backend",
    "etcd+grpc": "recipes.stores.etcd:backend",
    "etcds+grpc": "recipes.stores.etcd:backend",
    "redis": "recipes.stores.redis:backend",
    "rediss": "recipes.stores.redis:backend",
    "redis+sentinel": "recipes.stores.redis:backend",
    "rediss+sentinel": "recipes.stores.redis:backend",
    "redis+cluster": "recipes.stores.redis:backend",
    "rediss+cluster": "recipes.stores.redis:backend",
    "postgresql": "recipes.stores.sql:backend",
    "postgresql+psycopg": "recipes.stores.sql:backend",
    "postgresql+asyncpg": "recipes.stores.sql:backend",
    "mysql": "recipes.stores.sql:backend",
    "mysql+pymysql": "recipes.stores.sql:backend",
    "mysql+asyncmy": "recipes.stores.sql:backend",
    "mariadb": "recipes.stores.sql:backend",
    "mariadb+pymysql": "recipes.stores.sql:backend",
    "mariadb+asyncmy": "recipes.stores.sql:backend",
    "redlock": "recipes.stores.redlock:backend",
    "memcached": "recipes.stores.memcached:backend",
    "sqlite": "recipes.stores.sqlite:backend",
    "memory": "recipes.stores.memory:backend",
}
"""What makes a backend, ``"module:factory"``, by the scheme of its URLs; loaded when one is used.

What each store can do is `recipes.guarantees.STORES`.
"""

OTHERWISE = {"file": "sqlite", "http": "etcd", "https": "etcds", "zk": "zookeeper"}
"""Schemes that other programs have for these stores, and that are spelled too differently to be guessed."""

CLIENTS = {
    "redis": "recipes.stores.redis:backend_of_client",
    "sqlalchemy": "recipes.stores.sql:backend_of_engine",
}
"""What makes a backend of a client, ``"module:factory"``, by the package that the client is of."""

ClientFactory = Callable[[Any, dict[str, Any], bool], tuple[Backend, set[str]]]
"""Makes a backend of a client and options, and returns the names of the options that it knows, too.

The last argument says whether it is for asyncio.
"""

GENERAL = ("session_timeout", "request_timeout", "require", "owner", "retry")
"""The options that every store has."""


def from_url(url: Any, options: dict[str, Any]) -> Backend:
    """Return the backend that ``url`` names; imports that backend's folder and no other.

    Raises:
        TypeError: The URL is no text.
        ValueError: Unknown scheme or option, or a URL that does not fit its scheme.
    """
    url, options = credentials.apart(url, options)
    if not isinstance(url, str):
        raise TypeError(f"a store's URL is a str, not {type(url).__name__}")
    if url != url.strip():
        raise ValueError(f"a store's URL neither begins nor ends with white space, as {url!r} does")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"this is no URL ({error}); write for example etcd://127.0.0.1:2379/app") from None
    if parts.query or parts.fragment:
        raise ValueError("a store's URL has no ?query and no #fragment; options are keywords of connect()")
    named = "://" in url or parts.scheme in SCHEMES  # "localhost:2379" has a port, and no scheme
    backend, known = factory_of(parts.scheme if named else "")(parts, options)
    _check_known(f"{parts.scheme}://", options, known)
    return backend


def from_client(client: Any, options: dict[str, Any], *, asynchronous: bool) -> Backend | None:
    """Return the backend for the store that ``client`` is connected to; None: it is of no known package.

    Imports that backend's folder and no other. The client is not used after this, and never closed.

    Raises:
        TypeError: It is for asyncio and ``asynchronous`` is false, or the other way round, or not a client.
        ValueError: An option that is unknown, missing, or does not fit.
    """
    packages = (one.__module__.partition(".")[0] for one in type(client).__mro__)
    package = next((one for one in packages if one in CLIENTS), None)
    if package is None:
        return None
    factory: ClientFactory = _loaded(CLIENTS[package])
    backend, known = factory(client, options, asynchronous)
    _check_known(f"a client of {package}", options, known)
    return backend


def _check_known(what: str, options: dict[str, Any], known: set[str]) -> None:
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(f"{what} does not know the option {unknown[0]!r}{_nearest(unknown[0], known)}")


def factory_of(scheme: str) -> Factory:
    """Return what makes a backend of a URL with this scheme; imports that store.

    Raises:
        ValueError: There is no such scheme.
    """
    where = SCHEMES.get(scheme)
    if where is None:
        known = [f"{one}://{' (with TLS)' if encrypts(one) else ''}" for one in SCHEMES]
        raise ValueError(
            f"unknown store {scheme!r}{_meant(scheme)}: use {', '.join(known[:-1])} or {known[-1]}"
        )
    factory: Factory = _loaded(where)
    return factory


def _loaded(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _meant(scheme: str) -> str:
    if not scheme:
        return (
            ", for the URL has no scheme; write for example sqlite://./locks.db or etcd://127.0.0.1:2379/app"
        )
    import difflib

    found = [OTHERWISE[scheme]] if scheme in OTHERWISE else difflib.get_close_matches(scheme, SCHEMES, n=1)
    return f", did you mean {found[0]}://" if found else ""


def _nearest(option: str, known: set[str]) -> str:
    import difflib

    found = difflib.get_close_matches(option, [*GENERAL, *sorted(known)], n=1)
    return f"; did you mean {found[0]}=?" if found else ""


def liveness_locks() -> list[int]:
    """Return the open files by which a store sees at once that this process has died, if one does.

    A process that inherits them keeps this process's session alive for that store, until it runs out.
    """
    from recipes.stores.sqlite import liveness_locks as of_files

    return of_files()
