"""TLS for the stores on a network: the context that options ask for, and what a failure was, in words."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Mapping
from typing import Any, Self

from recipes.stores.urls import encrypted, encrypts

__all__ = ["CLOSED", "FileContext", "context_for", "given", "refused_by_tls", "tls_text", "tls_words"]

NAMES = frozenset(("ssl_context", "tls_ca", "tls_cert", "tls_key"))
"""The options."""

_logger = logging.getLogger("recipes")

_TEXT = re.compile(r"\[SSL: (\w+)\] (.*?)(?: \(_ssl\.c:\d+\))?$")
CLOSED = "the connection was closed; does this port speak TLS?"
"""What a port that does not, and a server that goes down, do alike."""
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


class FileContext(ssl.SSLContext):
    """A client's context made of files, which may be replaced while it is in use.

    Each new connection uses what the files hold then; while they cannot be used, what they held before.

    Args:
        tls_ca: The CAs to trust, in PEM; by default those of the system.
        tls_cert: The client's own certificate, with what leads to its CA, in PEM.
        tls_key: Its key, if that is in a file of its own.
    """

    def __new__(cls, *, tls_ca: str = "", tls_cert: str = "", tls_key: str = "") -> Self:  # noqa: ARG004
        """Be a context of the kind that clients use, for code that looks at it."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, *, tls_ca: str = "", tls_cert: str = "", tls_key: str = "") -> None:
        if tls_key and not tls_cert:
            raise ValueError("tls_key= needs tls_cert=")
        self._files = (tls_ca, tls_cert, tls_key)
        self._seen = self._state()
        self._loaded = _loaded(*self._files)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Same as of ``ssl.SSLContext``, by what the files hold now."""
        return self._fresh().wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Same as of ``ssl.SSLContext``, by what the files hold now."""
        return self._fresh().wrap_bio(*args, **options)

    def _fresh(self) -> ssl.SSLContext:
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._loaded = _loaded(*self._files)
            except ValueError as error:
                _logger.warning("%s; what was read before is used", error)
        return self._loaded

    def _state(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._files]


def _stamp(path: str) -> tuple[int, ...] | None:
    try:
        stat = os.stat(path)  # noqa: PTH116 - three times for each connection
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _loaded(tls_ca: str, tls_cert: str, tls_key: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls_ca or None)
    except OSError as error:
        raise ValueError(f"tls_ca={tls_ca!r}: {_file_trouble(error, 'no certificates in PEM')}") from None
    if tls_cert:
        try:
            context.load_cert_chain(tls_cert, tls_key or None, password=_no_password)
        except (OSError, _EncryptedError) as error:
            named = f"tls_cert={tls_cert!r}" + (f", tls_key={tls_key!r}" if tls_key else "")
            raise ValueError(
                f"{named}: {_file_trouble(error, 'no certificate with its key in PEM')}"
            ) from None
    return context


class _EncryptedError(Exception):
    """The key is encrypted."""


def _no_password() -> str:
    raise _EncryptedError  # else OpenSSL asks at the terminal


def _file_trouble(error: Exception, otherwise: str) -> str:
    if isinstance(error, _EncryptedError):
        return "the key is encrypted; load it into an ssl_context="
    if isinstance(error, ssl.SSLError) or not isinstance(error, OSError):
        return otherwise
    return error.strerror or otherwise


def refused_by_tls(error: BaseException) -> bool:
    """Whether one side does not accept the other, as opposed to a connection that went away."""
    gone = ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError
    return isinstance(error, ssl.SSLError) and not isinstance(error, gone)


def tls_words(error: ssl.SSLError) -> str:
    """Return what went wrong, for people; no secret is in it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _not_accepted(error.verify_message)
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
