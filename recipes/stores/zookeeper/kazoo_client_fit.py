"""Whether the installed kazoo is one whose inside this package knows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler

from recipes.events import Log

__all__ = ["fits"]

log = Log("recipes.kazoo")

KNOWN: Mapping[type[Any], Mapping[str, tuple[str, ...]]] = {
    ConnectionHandler: {
        "__init__": ("self", "client", "retry_sleeper", "logger", "sasl_options"),
        "_connect": ("self", "host", "hostip", "port"),
        "_expand_client_hosts": ("self",),
        "_authenticate_with_sasl": ("self", "host", "timeout"),
        "_submit": ("self", "request", "timeout", "xid"),
        "_send_request": ("self", "read_timeout", "connect_timeout"),
        "_read_socket": ("self", "read_timeout"),
        "_read_response": ("self", "header", "buffer", "offset"),
        "_read_watch_event": ("self", "buffer", "offset"),
    },
    KazooClient: {
        "_call": ("self", "request", "async_object"),
        "_session_callback": ("self", "state"),
    },
}
"""What is overridden or called of kazoo's private methods, by class: their parameters, as of kazoo 2.11."""


@cache
def fits() -> bool:
    """Return whether kazoo has these; if not, warn of it once."""
    odd = [f"{kind.__name__}.{name}" for kind, known in KNOWN.items() for name in _odd(kind, known)]
    if odd:
        log.warning(
            "kazoo %s differs from those that this package was made for (%s): requests take kazoo's own way, "
            "which is slower; install a version that this package asks for",
            version("kazoo"),
            ", ".join(odd),
        )
    return not odd


def _odd(kind: type[Any], known: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, parameters in known.items():
        found = getattr(kind, name, None)
        if found is None or tuple(inspect.signature(found).parameters) != parameters:
            yield name
