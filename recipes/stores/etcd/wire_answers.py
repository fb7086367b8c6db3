"""What the gateway's answers mean: the document, or the error it stands for; what a failure was."""

from __future__ import annotations

from typing import Any

from recipes.errors import StoreFull, StoreUnavailable, StoreUntrusted
from recipes.stores.etcd import gateway_json
from recipes.stores.etcd.requests import EtcdError
from recipes.stores.sockets import describe
from recipes.stores.tls import refused_by_tls

__all__ = [
    "checked",
    "document",
    "error_in",
    "error_of",
    "failed",
    "glimpse",
    "status_error",
    "unavailable",
    "watch_refused",
]

_CANCELLED, _UNKNOWN, _INVALID, _DEADLINE, _DENIED = 1, 2, 3, 4, 7
_EXHAUSTED, _UNIMPLEMENTED, _INTERNAL, _UNAVAILABLE, _UNAUTHENTICATED = 8, 12, 13, 14, 16

# Some versions put these under codes 2, 9 or 13; they all mean "ask again, perhaps elsewhere".
_PASSING = (
    "request timed out",
    "no leader",
    "leader changed",
    "not leader",
    "server stopped",
    "is not ready",
    "too many requests",
    "context deadline exceeded",
    "proposal dropped",
    "raft: stopped",
    "not supported for learner",  # it is not a voter yet, and from 3.6 on it says so under code 9
    "not capable",
)

_NO_GATEWAY = " (if the gateway of this etcd is switched off, etcd+grpc:// asks without it)"
_REFUSES_NAMES = "CommonName of client sending a request against gateway"
_NAMED_BY_CERTIFICATE = (
    "the gateway of this etcd serves nobody whose certificate carries a common name while there are users; "
    "etcds+grpc:// asks without the gateway, as the user of that name"
)

_PASSING_CODES = (_CANCELLED, _DEADLINE, _INTERNAL, _UNAVAILABLE)
_CODES = range(1, 17)

_PASSING_STATUSES = (408, 429, *range(500, 600))
"""Of HTTP: what a proxy answers if the server cannot be reached, is too slow, or too busy."""

# A watch that is refused says so in words only (``cancel_reason``), and a call without credentials
# is an "invalid argument" to etcd; to a caller it is the same as a token that is not accepted.
_WORDS = (
    ("permission denied", _DENIED),
    ("invalid auth token", _UNAUTHENTICATED),
    ("user name is empty", _UNAUTHENTICATED),
    ("revision of auth store is old", _UNAUTHENTICATED),
)


def document(store: str, text: str | bytes) -> dict[str, Any]:
    """Return the document in a reply of status 200, or raise what it says."""
    try:
        found = gateway_json.read(text)
    except ValueError:
        raise unavailable(store, f"the reply is not JSON: {glimpse(text)}") from None
    return checked(store, found)


def checked(store: str, found: object) -> dict[str, Any]:
    """Return ``found`` if it is a document of etcd, or raise what it says."""
    if not isinstance(found, dict):
        raise unavailable(store, f"the reply is not a JSON object: {glimpse(str(found))}")
    if "error" in found:  # a stream of one (lease/keepalive) has its status inside
        raise error_in(store, found)
    return found


def error_of(store: str, status: str, text: str | bytes) -> Exception:
    """Return the error that a reply of another ``status`` stands for: of HTTP, as in ``502 Bad Gateway``."""
    number = int(status[:3]) if status[:3].isdecimal() else 0
    try:
        found = gateway_json.read(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        if _REFUSES_NAMES in glimpse(text):
            return EtcdError(_UNIMPLEMENTED, _NAMED_BY_CERTIFICATE)
        hint = _NO_GATEWAY if number == 404 else ""
        return unavailable(store, f"HTTP {status}: {glimpse(text)}{hint}")
    if number in _PASSING_STATUSES and _said(found)[0] not in _CODES:  # a proxy's, not etcd's
        return unavailable(store, f"HTTP {status}: {glimpse(text)}")
    return error_in(store, found)


def error_in(store: str, found: dict[str, Any]) -> Exception:
    """Return the error that a document describes."""
    code, message = _said(found)
    return status_error(store, _UNKNOWN if code is None else code, message)


def _said(found: dict[str, Any]) -> tuple[int | None, str]:
    """Return the code, if there is one, and the words of a document, in any of the gateway's spellings."""
    inner = found.get("error")
    if isinstance(inner, dict):  # one document of a stream
        found = inner
    code = found.get("grpc_code", found.get("code"))
    message = found.get("message") or found.get("error") or "no reason given"
    return code if isinstance(code, int) and not isinstance(code, bool) else None, str(message)


def status_error(store: str, code: int, message: str) -> Exception:
    """Return the error for a gRPC status."""
    if code in _PASSING_CODES or any(words in message for words in _PASSING):
        return unavailable(store, message)
    if code == _EXHAUSTED and "space exceeded" in message:
        return StoreFull(store, message)
    return EtcdError(_worded(message) or code if code in (_UNKNOWN, _INVALID) else code, message)


def watch_refused(store: str, reason: str) -> Exception:
    """Return the error for a watch that was cancelled as it was created."""
    code = _worded(reason)
    if code is not None:
        return EtcdError(code, reason)
    return unavailable(store, f"the watch was not created: {reason or 'no reason given'}")


def _worded(message: str) -> int | None:
    return next((code for words, code in _WORDS if words in message), None)


def unavailable(store: str, detail: str) -> StoreUnavailable:
    """Return the error for a store that did not answer."""
    return StoreUnavailable(store, detail)


def failed(store: str, error: Exception, *, unsent: bool = False) -> StoreUnavailable:
    """Return the error for a way to the store that failed like this; ``unsent``: before anything was sent."""
    kind = StoreUntrusted if refused_by_tls(error) else StoreUnavailable
    return kind(store, describe(error), unsent=unsent)


def glimpse(text: str | bytes) -> str:
    """Return the beginning of a body, for a message."""
    shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
    return repr(shown[:120].strip())
