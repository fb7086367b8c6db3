"""What both clients share: what they were given, checked, and what needs no waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from recipes import guarantees
from recipes._contract.deadline import duration
from recipes._programs.observing import look_at_all
from recipes._run.retries import policy
from recipes._run.runtime import Settings
from recipes.guarantees import Guarantees, Need
from recipes.inspection import checked_limit, described
from recipes.session import Session
from recipes.stores.registry import from_client, from_url

if TYPE_CHECKING:
    from recipes._contract.backend import Backend
    from recipes._contract.operations import Listing, Program
    from recipes._run.runtime import Call
    from recipes.inspection import ContenderInfo

__all__ = ["BaseClient", "StoreClient", "checked"]

SHORTEST_SESSION_S = 2.0
SHORTEST_REQUEST_S = 0.05
LONGEST_OWNER = 200
_OPTIONAL = frozenset(
    (
        *("username", "password", "tls_ca", "tls_cert", "tls_key", "ssl_context", "sasl", "acl"),
        *("prefix", "restart_grace", "replicas", "tables", "create_tables", "root", "layout"),
    )
)
"""The options that are not given where they are None; what nobody knows is refused, None or not."""


class RedisClient(Protocol):
    """A client of redis-py, blocking or asyncio, of one server, of Sentinel or of a cluster."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command; nothing of it is called."""


class Engine(Protocol):
    """An engine of SQLAlchemy, blocking or asyncio."""

    @property
    def dialect(self) -> Any:
        """What the database speaks."""

    def connect(self) -> Any:
        """Return a connection."""


StoreClient = RedisClient | Engine
"""What a program has already, and is connected by."""


def checked(
    url: str | StoreClient,
    *,
    asynchronous: bool = False,
    session_timeout: float = 15,
    request_timeout: float = 5,
    require: Need | Iterable[Need] = (),
    owner: str | None = None,
    retry: Any = None,
    **options: Any,
) -> tuple[Backend, Settings]:
    """Return what a client is made of; the options hold nothing secret any more."""
    given = {name: value for name, value in options.items() if value is not None or name not in _OPTIONAL}
    backend = from_client(url, given, asynchronous=asynchronous) or from_url(url, given)
    needs = guarantees.require(require, backend.guarantees, f"{backend.label.partition(':')[0]}://")
    backend.check_api(asynchronous=asynchronous)
    settings = _settings(session_timeout, request_timeout, owner, needs, retry)
    backend.check_session(settings.session_timeout_s)
    return backend, settings


def _settings(
    session_timeout: float, request_timeout: float, owner: str | None, needs: tuple[Need, ...], retry: Any
) -> Settings:
    session_s = duration("session_timeout", session_timeout, least=SHORTEST_SESSION_S)
    request_s = duration("request_timeout", request_timeout, least=SHORTEST_REQUEST_S)
    if session_s is None or request_s is None:
        raise TypeError("session_timeout and request_timeout are numbers of seconds")
    if owner is not None and not isinstance(owner, str):
        raise TypeError(f"owner is a str or None, not {type(owner).__name__}")
    if owner is not None and not (1 <= len(owner) <= LONGEST_OWNER and owner.isprintable()):
        raise ValueError(f"owner is 1 to {LONGEST_OWNER} printable characters, not {owner[:40]!r}")
    return Settings(session_s, request_s, owner, needs, *policy(retry))


class BaseClient:
    """What both clients share."""

    _runtime: Any

    @property
    def session(self) -> Session:
        """The session with the store."""
        return Session(self._runtime)

    @property
    def guarantees(self) -> Guarantees:
        """What the store promises; no I/O."""
        given: Guarantees = self._runtime.backend.guarantees
        return given

    @property
    def pending_cleanups(self) -> int:
        """How many contenders of interrupted calls are still to be withdrawn, behind the scenes."""
        return len(self._runtime.cleaning)

    def _locks(self, limit: int, contenders: int | None) -> tuple[Program[dict[str, Listing]], Call]:
        runtime = self._runtime
        guarantees.require("fair", self.guarantees, runtime.backend.label)
        within_s = runtime.settings.request_timeout_s
        heads = limit if contenders is None else checked_limit(contenders, "contenders", 0)
        program = look_at_all(checked_limit(limit), heads, within_s)
        return program, runtime.call(None, within_s, fail_fast=True)

    def _described(self, found: dict[str, Listing], heads: int | None) -> dict[str, list[ContenderInfo]]:
        session = self._runtime.state.session
        own = None if session is None else session.id
        seen = {name: described(name, at.contenders, own) for name, at in found.items()}
        return {name: contenders for name, contenders in seen.items() if contenders or heads == 0}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._runtime.backend.label}: session {self.session.state}>"
