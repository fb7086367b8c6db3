"""Memcached 1.6.13 or newer, one server: a lock is one item, which names its holder."""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING, Any

from recipes._contract.backend import Backend
from recipes._contract.deadline import duration
from recipes.guarantees import STORES
from recipes.stores._kit.cell import CellProtocol
from recipes.stores.urls import hosts_of, root_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from recipes._contract.connection import AsyncConnection, Connection, OnEnd

__all__ = ["MemcachedBackend", "backend"]

GRACE_S = 20.0
PREFIX = "lock:"
LONGEST_PREFIX = 100
LONGEST_SESSION_S = 30 * 86_400 - 10  # Memcached takes a longer one of an item for a date


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[MemcachedBackend, set[str]]:
    """Return the backend for a URL and options, and which options there are.

    Raises:
        ValueError: The URL or an option does not fit.
        TypeError: An option is of the wrong type.
    """
    example = "memcached://host:11211/app"
    hosts = hosts_of(parts, 11211, example)
    if len(hosts) > 1:
        raise ValueError(f"memcached:// names one server, which has all locks; write for example {example}")
    grace_s = duration("restart_grace", options.get("restart_grace"))
    prefix = _prefix(options, root_of(parts))
    made = MemcachedBackend(*hosts[0], prefix, GRACE_S if grace_s is None else grace_s)
    return made, {"prefix", "restart_grace"}


def _prefix(options: Mapping[str, Any], root: str) -> str:
    prefix = options.get("prefix")
    if prefix is None:
        prefix = f"{root}:" if root else PREFIX
    elif not isinstance(prefix, str):
        raise TypeError(f"prefix= is text, not {type(prefix).__name__}")
    elif root:
        raise ValueError(f"prefix={prefix!r} and the URL's path {root!r} both say what keys begin with")
    if len(prefix) > LONGEST_PREFIX or not (prefix.isascii() and prefix.isprintable()) or " " in prefix:
        raise ValueError(
            f"prefix={prefix!r}: keys begin with at most {LONGEST_PREFIX} characters of ASCII, without spaces"
        )
    return prefix


class MemcachedBackend(Backend):
    """One Memcached."""

    guarantees = STORES["memcached"]

    def __init__(self, host: str, port: int, prefix: str, grace_s: float) -> None:
        from recipes.stores.addresses import Endpoint

        self._endpoint, self._prefix, self._grace_s = Endpoint(host, port), prefix, grace_s
        self.label = f"memcached://{self._endpoint.store}/{prefix.removesuffix(':')}"

    def check_session(self, session_timeout_s: float) -> None:
        """Refuse a session that could outlive the time in which nothing is granted, or that no item can."""
        if session_timeout_s > LONGEST_SESSION_S:
            raise ValueError(
                f"session_timeout={session_timeout_s:g} is longer than Memcached keeps an item: 30 days"
            )
        if 0 < self._grace_s < session_timeout_s:
            raise ValueError(
                f"session_timeout={session_timeout_s:g} is longer than restart_grace={self._grace_s:g}: after"
                " a restart a second holder would be granted before the first one's session is over. Give"
                " every client a restart_grace= of at least the longest session_timeout"
            )

    def protocol(self) -> CellProtocol:
        """Return the protocol for one session, with an id of its own."""
        return CellProtocol(secrets.token_hex(8), random.random)

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        from recipes.stores._kit.blocking import QueueConnection

        return QueueConnection(self._session(on_end))

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        from recipes.stores._kit.tasks import AsyncQueueConnection

        return AsyncQueueConnection(self._session(on_end))

    def _session(self, on_end: OnEnd) -> Any:
        from recipes.stores.memcached.acts import Acts
        from recipes.stores.memcached.session import MemcachedSession

        return MemcachedSession(
            self.label, self._endpoint, Acts(self.label, self._prefix, self._grace_s), on_end
        )
