"""Redlock: a lock is one key on each of several independent Redis servers, and a majority grants it."""

from __future__ import annotations

import random
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recipes._contract.backend import Backend
from recipes.guarantees import STORES
from recipes.stores import credentials
from recipes.stores._kit.cell import CellProtocol
from recipes.stores.redis import Given, check_grace, check_installed, of_path
from recipes.stores.urls import hosts_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from urllib.parse import SplitResult

    from recipes._contract.connection import AsyncConnection, Connection, OnEnd
    from recipes.stores.redis.access import Access
    from recipes.stores.redis.places import Address

__all__ = ["RedlockBackend", "backend"]

FEWEST = 3
_EXAMPLE = "redlock://host1:6379,host2:6379,host3:6379/0/app"
_WITHOUT_GRACE = (
    "the death of any client, and the loss of a minority of the servers; the restart of one may let a second"
    " holder in, and tokens go back"
)


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[RedlockBackend, set[str]]:
    """Return the backend for a URL and options, and which options there are.

    Raises:
        ValueError: The URL or an option does not fit.
        TypeError: An option is of the wrong type.
        ImportError: redis-py is not installed.
    """
    check_installed(parts.scheme)
    from recipes.stores.redis.access import Access

    hosts = hosts_of(parts, 6379, _EXAMPLE)
    if len(hosts) < FEWEST:
        raise ValueError(
            f"redlock:// needs at least {FEWEST} independent servers, of which a majority grants; write for"
            f" example {_EXAMPLE}, or use redis:// for one"
        )
    _, db, root = of_path(parts, "", _EXAMPLE)
    given = Given.of(options, kind="", root=root)
    known = credentials.Credentials.given(parts.scheme, options, nameless="default")
    made = RedlockBackend(hosts, Access(db, None, known), given)
    return made, {"prefix", "restart_grace", *credentials.NAMES}


class RedlockBackend(Backend):
    """Several Redis servers that know nothing of each other."""

    def __init__(self, servers: Sequence[Address], access: Access, given: Given) -> None:
        from recipes.stores.redis.places import named

        self._servers, self._access, self._given = servers, access, given
        hosts = ",".join(map(named, servers))
        self.label = f"redlock://{hosts}/{access.db}/{given.prefix.removesuffix(':')}"
        promised = STORES["redlock"]
        self._promised = promised if given.grace_s else replace(promised, survives=_WITHOUT_GRACE)
        self.guarantees = self._promised

    def check_session(self, session_timeout_s: float) -> None:
        """Refuse a session that could outlive the time in which a server grants nothing."""
        check_grace(self._given.grace_s, session_timeout_s)

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
        from recipes.stores.redis.keys import Keys
        from recipes.stores.redlock.acts import Acts
        from recipes.stores.redlock.session import RedlockSession

        given = self._given
        acts = Acts(self.label, Keys(given.prefix), given.grace_s, len(self._servers), self._promised)
        return RedlockSession(self.label, self._servers, self._access, acts, on_end)
