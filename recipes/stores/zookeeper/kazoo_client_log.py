"""What kazoo logs, read: some facts reach the outside only as arguments of its log records."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from recipes.errors import StoreUnavailable, StoreUntrusted
from recipes.events import Log
from recipes.stores.tls import tls_text

__all__ = ["KazooLog"]

_HUNG_UP = (
    "the server closed the connection: it has no quorum, or as many connections from this address as it "
    "takes (maxClientCnxns), or wants TLS (zookeepers://)"
)
log = Log("recipes.kazoo")
log.logger.addHandler(logging.NullHandler())  # a library says nothing unless asked


class KazooLog:
    """The ``logger`` of a ``KazooClient``: cheap, without secrets, and a source of facts.

    kazoo's debug records hold session passwords, credentials and data, so none goes on;
    the others go to the standard logger ``recipes.kazoo``.

    Args:
        on_session: Called with the session's id and the granted timeout in milliseconds
            whenever a server has granted it.
        tls: Whether TLS is spoken.

    Attributes:
        troubles: What was last seen of each server, by ``host:port``.
    """

    def __init__(self, on_session: Callable[[int, int], None], *, tls: bool = False) -> None:
        self._on_session = on_session
        self._hint = {} if tls else {"socket connection broken": _HUNG_UP}
        self._server = ""
        self._untrusted: set[str] = set()
        self.troubles: dict[str, str] = {}

    def trouble(self, store: str) -> str:
        """Return what was seen of the servers, for an error message that names ``store``, which they are."""
        several = "," in store
        return "; ".join(f"{server}: {seen}" if several else seen for server, seen in self.troubles.items())

    def failure(self, store: str, late: str = "") -> StoreUnavailable:
        """Return the error for a store that there is no connection to, and why; ``late`` comes first."""
        seen = self.trouble(store) or "no connection"
        kind = StoreUntrusted if self._untrusted & self.troubles.keys() else StoreUnavailable
        return kind(store, f"{late} ({seen})" if late else seen)

    def log(self, _level: int, message: str, *args: Any) -> None:
        """Hear of a granted session; everything else at these levels is noise."""
        if message.startswith("Session created"):
            self.troubles.clear()
            self._hint = {}
            self._on_session(args[0], args[2])

    def debug(self, message: str, *args: Any) -> None:
        """Drop it: requests and replies, with all they contain."""

    def info(self, message: str, *args: Any) -> None:
        """Note which server is meant by what follows."""
        if message.startswith("Connecting to"):
            self._server = f"{args[0]}:{args[2]}"
        log.info(message, *_without_secrets(args))

    def warning(self, message: str, *args: Any) -> None:
        """Note what went wrong with a server."""
        if message.startswith("Cannot resolve"):
            self.troubles[str(args[0])] = f"cannot be resolved ({args[1]})"
        elif message.startswith(("Connection dropped", "Connection time-out")):
            seen = str(args[0]).removeprefix("socket connection error: ")
            self.troubles[self._server], refused = tls_text(self._hint.get(seen, seen))
            (self._untrusted.add if refused else self._untrusted.discard)(self._server)
        log.warning(message, *_without_secrets(args))

    warn = warning

    def exception(self, message: str, *args: Any) -> None:
        """Pass an error on with its traceback."""
        # ruff sees a logger here and not an except clause; kazoo calls this from one.
        log.exception(message, *_without_secrets(args))  # noqa: LOG004

    def error(self, message: str, *args: Any) -> None:
        """Pass an error on."""
        log.error(message, *_without_secrets(args))


def _without_secrets(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Name requests by their type: kazoo's are named tuples that hold passwords and data."""
    return tuple(type(arg).__name__ if isinstance(arg, tuple) else arg for arg in args)
