"""TLS for the stores on a network: the context that options ask for, and what a failure was, in words.

`ssl` is imported with the first context: without one there is no error of TLS.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from recipes.stores.urls import encrypted, encrypts

if TYPE_CHECKING:
    import ssl

__all__ = [
    "CLOSED",
    "ENDED",
    "UNANSWERED",
    "context_for",
    "given",
    "is_of_tls",
    "of_established",
    "refused_by_tls",
    "tls_text",
    "tls_words",
]

NAMES = frozenset(("ssl_context", "tls_ca", "tls_cert", "tls_key"))
"""The options."""

_TEXT = re.compile(r"\[SSL: (\w+)\] (.*?)(?: \(_ssl\.c:\d+\))?$")
_GONE = ("SSLEOFError", "SSLZeroReturnError", "SSLSyscallError")
CLOSED = "the connection was closed; does this port speak TLS?"
"""What a port that does not, and a server that goes down, do alike."""
UNANSWERED = "the connection was closed before a reply; does this port want TLS?"
ENDED = "the connection was closed by the server"
"""Of a connection that has answered, or shaken hands, so that it is no question of TLS."""
_REASONS = (
    ("WRONG_VERSION_NUMBER", "the server does not speak TLS on this port"),
    ("HTTP_REQUEST", "the server does not speak TLS on this port"),
    ("RECORD_LAYER_FAILURE", "the server does not speak TLS on this port"),
    ("CERTIFICATE_REQUIRED", "the server asks for a certificate of this client (tls_cert=)"),
    (
        "ALERT_BAD_CERTIFICATE",
        "the server does not accept this client's certificate, or misses one (tls_cert=)",
    ),
    ("ALERT_UNKNOWN_CA", "the server does not know the CA of this client's certificate"),
    ("ALERT_CERTIFICATE_EXPIRED", "the certificate of this client has expired"),
    ("ALERT_CERTIFICATE_UNKNOWN", "the server does not accept the certificate of this client"),
    ("ALERT_PROTOCOL_VERSION", "client and server have no version of TLS in common"),
    ("UNSUPPORTED_PROTOCOL", "client and server have no version of TLS in common"),
    (
        "ALERT_HANDSHAKE_FAILURE",
        "client and server have no cipher in common, or the server misses a certificate",
    ),
)


def context_for(scheme: str, options: Mapping[str, Any]) -> ssl.SSLContext | None:
    """Return the context for a scheme, which verifies the server's certificate and name; None without TLS.

    Files are read now, to be refused at once, and again when they have changed.

    Raises:
        ValueError: Options that do not fit each other or the scheme, or files that cannot be used.
        TypeError: No ``SSLContext``, or no path.
    """
    given = {name: options[name] for name in sorted(NAMES) if options.get(name) is not None}
    if not encrypts(scheme):
        if given:
            raise ValueError(
                f"{scheme}:// does not encrypt: {next(iter(given))}= needs {encrypted(scheme)}://"
            )
        return None
    return _context(given)


def given(options: Mapping[str, Any]) -> tuple[ssl.SSLContext | None, dict[str, str]]:
    """Return the context that options ask for, and the files that they name; no context: they say nothing.

    Raises:
        ValueError: Options that do not fit each other, or files that cannot be used.
        TypeError: No ``SSLContext``, or no path.
    """
    said = {name: options[name] for name in sorted(NAMES) if options.get(name) is not None}
    if not said:
        return None, {}
    context = _context(dict(said))
    return context, {name: _path(name, value) for name, value in said.items() if name != "ssl_context"}


def _context(given: dict[str, Any]) -> ssl.SSLContext:
    import ssl  # noqa: PLC0415

    from recipes.stores.tls_files import FileContext  # noqa: PLC0415

    context = given.pop("ssl_context", None)
    if context is None:
        return FileContext(**{name: _path(name, value) for name, value in given.items()})
    if not isinstance(context, ssl.SSLContext):
        raise TypeError(f"ssl_context= is an ssl.SSLContext, not {type(context).__name__}")
    if given:
        raise ValueError(f"ssl_context= says it all already: load what {next(iter(given))}= names into it")
    return context


def _path(name: str, value: Any) -> str:
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}= is the path of a PEM file, not {type(value).__name__}")
    return os.fsdecode(value)


def is_of_tls(error: object) -> TypeGuard[ssl.SSLError]:
    """Whether it is an error of `ssl`."""
    kind = getattr(sys.modules.get("ssl"), "SSLError", None)  # None, too, amid the import in another thread
    return kind is not None and isinstance(error, kind)


def refused_by_tls(error: BaseException) -> bool:
    """Whether one side does not accept the other, as opposed to a connection that went away."""
    return is_of_tls(error) and type(error).__name__ not in _GONE


def of_established(error: Exception) -> Exception:
    """Return what an error means that came after the handshake."""
    return ConnectionResetError(ENDED) if is_of_tls(error) and not refused_by_tls(error) else error


def tls_words(error: ssl.SSLError) -> str:
    """Return what went wrong, for people; no secret is in it."""
    if (why := getattr(error, "verify_message", None)) is not None:
        return _not_accepted(why)
    if not refused_by_tls(error):
        return CLOSED
    reason = getattr(error, "reason", None) or ""
    return _worded(reason) or f"TLS failed ({reason or error})"


def tls_text(text: str) -> tuple[str, bool]:
    """Return the words for an error of which only the text is left, and whether it is a refusal by TLS."""
    found = _TEXT.search(text)
    if found is None:
        return text, False
    if "EOF" in found[1]:
        return CLOSED, False
    if found[1] == "CERTIFICATE_VERIFY_FAILED":
        return _not_accepted(found[2].partition(": ")[2]), True
    return _worded(found[1]) or f"TLS failed ({found[1]})", True


def _not_accepted(why: str) -> str:
    return f"the server's certificate is not accepted: {why.rstrip('.')}"


def _worded(reason: str) -> str | None:
    return next((words for known, words in _REASONS if known in reason), None)
