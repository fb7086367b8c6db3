"""A context for TLS that follows the files that it is made of."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable
from typing import Any, Self

from recipes.events import log

__all__ = ["FileContext"]


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
        self._alpn: list[str] = []

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Same as of ``ssl.SSLContext``, whatever the files hold later."""
        self._alpn = list(alpn_protocols)
        self._loaded.set_alpn_protocols(self._alpn)

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
                loaded = _loaded(*self._files)
                if self._alpn:
                    loaded.set_alpn_protocols(self._alpn)
                self._loaded = loaded
            except ValueError as error:
                log.warning("%s; what was read before is used", error)
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
