"""Which stores there are, by the schemes of their URLs, and how a backend is made of a URL; no I/O."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from urllib.parse import SplitResult, urlsplit

from recipes._contract.backend import Backend
from recipes.stores import credentials

__all__ = ["SCHEMES", "Factory", "factory_of", "from_url", "liveness_locks"]

Factory = Callable[[SplitResult, dict[str, Any]], tuple[Backend, set[str]]]
"""Makes a backend of a URL and options, and returns the names of the options that it knows, too."""

SCHEMES = {
    "zookeeper": "recipes.stores.zookeeper:backend",
    "zookeepers": "recipes.stores.zookeeper:backend",
    "etcd": "recipes.stores.etcd:backend",
    "etcds": "recipes.stores.etcd:backend",
    "sqlite": "recipes.stores.sqlite:backend",
    "memory": "recipes.stores.memory:backend",
}
"""What makes a backend, ``"module:factory"``, by the scheme of its URLs; loaded when one is used.

What each store can do is `recipes.guarantees.STORES`.
"""

GENERAL = ("session_timeout", "request_timeout", "require", "owner")
"""The options that every store has."""


def from_url(url: str, options: dict[str, Any]) -> Backend:
    """Return the backend that ``url`` names; imports that backend's folder and no other.

    Raises:
        TypeError: The URL is no text.
        ValueError: Unknown scheme or option, or a URL that does not fit its scheme.
    """
    url, options = credentials.apart(url, options)
    if not isinstance(url, str):
        raise TypeError(f"a store's URL is a str, not {type(url).__name__}")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"this is no URL ({error}); write for example etcd://127.0.0.1:2379/app") from None
    if parts.query or parts.fragment:
        raise ValueError("a store's URL has no ?query and no #fragment; options are keywords of connect()")
    backend, known = factory_of(parts.scheme)(parts, options)
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(
            f"{parts.scheme}:// does not know the option {unknown[0]!r}{_nearest(unknown[0], known)}"
        )
    return backend


def factory_of(scheme: str) -> Factory:
    """Return what makes a backend of a URL with this scheme; imports that store.

    Raises:
        ValueError: There is no such scheme.
    """
    where = SCHEMES.get(scheme)
    if where is None:
        secure = {f"{one}s" for one in SCHEMES}
        known = [f"{one}://{' (with TLS)' if one in secure else ''}" for one in SCHEMES]
        raise ValueError(f"unknown store {scheme!r}: use {', '.join(known[:-1])} or {known[-1]}")
    module, _, name = where.partition(":")
    factory: Factory = getattr(import_module(module), name)
    return factory


def _nearest(option: str, known: set[str]) -> str:
    import difflib

    found = difflib.get_close_matches(option, [*GENERAL, *sorted(known)], n=1)
    return f"; did you mean {found[0]}=?" if found else ""


def liveness_locks() -> list[int]:
    """Return the open files by which a store sees at once that this process has died, if one does.

    Who is handed them keeps this process alive for that store, until its session runs out.
    """
    from recipes.stores.sqlite import liveness_locks as of_files

    return of_files()
