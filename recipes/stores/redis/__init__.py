"""Redis, and servers that speak its protocol, through redis-py: one server, Sentinel, or a cluster."""

from __future__ import annotations

import importlib.util
import re
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from recipes._contract.backend import Backend
from recipes._contract.deadline import duration
from recipes.guarantees import STORES
from recipes.stores import credentials, tls
from recipes.stores.urls import hosts_of, root_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from recipes._contract.connection import AsyncConnection, Connection, OnEnd
    from recipes.stores.redis.access import Access
    from recipes.stores.redis.places import Place
    from recipes.stores.redis.protocol import RedisProtocol

__all__ = [
    "Given",
    "RedisBackend",
    "backend",
    "backend_of_client",
    "check_grace",
    "check_installed",
    "of_path",
]

GRACE_S = 20.0
PREFIX = "lock:"
_OPTIONS = {"prefix", "restart_grace", "replicas"}
_EXAMPLES = {
    "": "{}://host:6379/0/app",
    "sentinel": "{}://host1:26379,host2:26379,host3:26379/mymaster/0/app",
    "cluster": "{}://host1:6379,host2:6379,host3:6379/app",
}
_WITHOUT_GRACE = (
    "the death of any client; a restart, a failover, FLUSHALL or eviction may let a second holder in,"
    " with a larger token"
)
_WITH_REPLICAS = (
    "the death of any client, a restart and a failover, after which nothing is granted for"
    " restart_grace; not FLUSHALL or eviction"
)


def backend(parts: SplitResult, options: dict[str, Any]) -> tuple[RedisBackend, set[str]]:
    """Return the backend for a URL and options, and which options there are.

    Raises:
        ValueError: The URL or an option does not fit.
        TypeError: An option is of the wrong type.
        ImportError: redis-py is not installed.
    """
    check_installed(parts.scheme)
    from recipes.stores.redis.access import Access
    from recipes.stores.redis.places import place_of

    kind = parts.scheme.partition("+")[2]
    example = _EXAMPLES[kind].format(parts.scheme)
    hosts = hosts_of(parts, 26379 if kind == "sentinel" else 6379, example)
    if not kind and len(hosts) > 1:
        other = " or ".join(f"{parts.scheme}+{one}://" for one in ("sentinel", "cluster"))
        raise ValueError(f"{parts.scheme}:// names one server; for several use {other}")
    master, db, root = of_path(parts, kind, example)
    settings = Given.of(options, kind=kind, root=root)
    context = tls.context_for(parts.scheme, options)
    known = credentials.Credentials.given(parts.scheme, options, nameless="default")
    place = place_of(
        kind, hosts, master, [Access(context=context), Access(context=context, credentials=known)]
    )
    made = RedisBackend(parts.scheme, place, Access(db, context, known), settings)
    return made, {*_OPTIONS, *tls.NAMES, *credentials.NAMES}


def backend_of_client(
    client: Any, options: dict[str, Any], asynchronous: bool
) -> tuple[RedisBackend, set[str]]:
    """Return the backend for the server of the user's own client, and which options there are.

    Raises:
        ValueError: An option does not fit, or the client reads from replicas.
        TypeError: It is no client, or not one for this API.
    """
    from recipes.stores.redis.clients import known_client

    known = known_client(client, asynchronous=asynchronous)
    settings = Given.of(options, kind=known.kind)
    return RedisBackend(known.scheme, known.place, known.access, settings), set(_OPTIONS)


def check_installed(scheme: str) -> None:
    """Refuse a scheme that needs redis-py where that is missing."""
    if importlib.util.find_spec("redis") is None:
        raise ImportError(
            f"{scheme}:// needs redis-py: pip install 'coordination-recipes[redis]'", name="redis"
        )


def of_path(parts: SplitResult, kind: str, example: str) -> tuple[str, int, str]:
    """Return the master's name, the number of the database, and what the prefix is made of."""
    root = root_of(parts)
    if kind == "cluster":  # which has one database
        return "", 0, root
    master, _, root = root.partition("/") if kind else ("", "", root)
    db, _, root = root.partition("/")
    if kind and not master:
        raise ValueError(f"{parts.scheme}:// misses the name of the master; write for example {example}")
    if db and not (db.isascii() and db.isdecimal()):
        raise ValueError(
            f"{db!r} stands where the number of the database belongs; write for example {example}"
        )
    return master, int(db or 0), root


def check_grace(grace_s: float, session_timeout_s: float) -> None:
    """Refuse a session that could outlive the time in which nothing is granted after a restart."""
    if 0 < grace_s < session_timeout_s:
        raise ValueError(
            f"session_timeout={session_timeout_s:g} is longer than restart_grace={grace_s:g}: after a"
            " restart a second holder would be granted before the first one's session is over. Give every"
            " client a restart_grace= of at least the longest session_timeout"
        )


@dataclass(frozen=True, slots=True)
class Given:
    """What is the same for every client of one deployment.

    Attributes:
        prefix: What each key begins with.
        grace_s: For how long nothing is granted after a restart or a failover; 0: off.
        replicas: How many replicas have to acknowledge a renewal, and a grant.
    """

    prefix: str
    grace_s: float
    replicas: int

    @classmethod
    def of(cls, options: Mapping[str, Any], *, kind: str, root: str = "") -> Self:
        """Return what the options and the URL say.

        Raises:
            ValueError: An option is missing or does not fit.
            TypeError: An option is of the wrong type.
        """
        grace_s = duration("restart_grace", options.get("restart_grace"))
        return cls(_prefix(options, root), GRACE_S if grace_s is None else grace_s, _replicas(options, kind))

    @property
    def survives(self) -> str:
        """What may fail without a promise being broken."""
        if not self.grace_s:
            return _WITHOUT_GRACE
        return _WITH_REPLICAS if self.replicas else STORES["redis"].survives


def _prefix(options: Mapping[str, Any], root: str) -> str:
    prefix = options.get("prefix")
    if prefix is None:
        return f"{root}:" if root else PREFIX
    if not isinstance(prefix, str):
        raise TypeError(f"prefix= is text, not {type(prefix).__name__}")
    if root:
        raise ValueError(f"prefix={prefix!r} and the URL's path {root!r} both say what keys begin with")
    if not prefix.isprintable():
        raise ValueError(f"prefix={prefix!r} has characters that cannot be printed")
    if not re.fullmatch(r"[^{}]*(\{[^{}]+\}[^{}]*)?", prefix):
        raise ValueError(f"prefix={prefix!r}: braces are for one hash tag, as in '{{app}}:'")
    return prefix


def _replicas(options: Mapping[str, Any], kind: str) -> int:
    replicas = options.get("replicas")
    if replicas is None:
        if kind:
            which = "each" if kind == "cluster" else "the"
            raise ValueError(
                f"replicas= is missing: how many replicas {which} master has."
                " A renewal counts only if all of them acknowledge it, and so does a grant; else a failover"
                " may let a second holder in. With 0 it may"
            )
        return 0
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise TypeError(f"replicas= is a number of replicas, not {type(replicas).__name__}")
    if replicas < 0:
        raise ValueError(f"replicas={replicas}: it is 0 or more")
    return replicas


class RedisBackend(Backend):
    """Redis at a place: one server, the master that sentinels name, or the nodes of a cluster."""

    def __init__(self, scheme: str, place: Place, access: Access, given: Given) -> None:
        from recipes.stores.redis.wire import Settings

        self._polls = scheme.endswith("+cluster")
        self.servers = len(place.servers)
        db = "" if self._polls else f"{access.db}/"
        self.label = f"{scheme}://{place.label}/{db}{given.prefix.removesuffix(':')}"
        self.guarantees = self._promised = replace(STORES["redis"], survives=given.survives)
        self._settings = Settings(self.label, place, access, given.prefix, given.grace_s, given.replicas)

    def check_session(self, session_timeout_s: float) -> None:
        """Refuse a session that could outlive the time in which nothing is granted."""
        check_grace(self._settings.grace_s, session_timeout_s)

    def protocol(self) -> RedisProtocol:
        """Return the protocol for one session, with an id of its own."""
        from recipes.stores.redis.keys import Keys
        from recipes.stores.redis.protocol import RedisProtocol

        keys = Keys(self._settings.prefix)
        settings, session = self._settings, secrets.token_hex(8)
        return RedisProtocol(
            self.label,
            keys,
            session,
            settings.grace_s,
            polls=self._polls,
            replicas=settings.replicas,
            promised=self._promised,
        )

    def connection(self, on_end: OnEnd) -> Connection:
        """Return a new blocking connection."""
        from recipes.stores.redis.blocking import RedisConnection

        return RedisConnection(self._settings, on_end)

    def async_connection(self, on_end: OnEnd) -> AsyncConnection:
        """Return a new asyncio connection."""
        from recipes.stores.redis.tasks import AsyncRedisConnection

        return AsyncRedisConnection(self._settings, on_end)
