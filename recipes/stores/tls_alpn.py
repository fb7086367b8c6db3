"""A context for TLS that asks for one protocol (ALPN), made of one that other clients may use, too."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Self

from recipes._mutex import new_lock
from recipes._section import section

__all__ = ["AlpnContext"]

_NONE = [] if ssl.OPENSSL_VERSION_INFO >= (3,) else ["http/1.1"]
"""What a context offers afterwards: nothing; older versions of OpenSSL take that for an error."""
_locks: dict[int, threading.Lock] = {}  # one a process: a fork has no thread of its parent's to release it


class AlpnContext(ssl.SSLContext):
    """A client's context whose connections offer one protocol.

    A context has one list of protocols for all of its connections, and cannot be copied. So the list is set
    as each connection is made, and cleared again: the connections of other clients offer nothing.

    Args:
        context: What the connections are made by otherwise.
        protocol: Which protocol.
    """

    def __new__(cls, context: ssl.SSLContext, protocol: str) -> Self:  # noqa: ARG004
        """Be a context of the kind that clients use, for code that looks at it."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, context: ssl.SSLContext, protocol: str) -> None:
        self._context = context
        self._protocol = protocol

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Same as of ``ssl.SSLContext``, but the handshake must not be part of it."""
        with self._offered() as context:
            return context.wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Same as of ``ssl.SSLContext``."""
        with self._offered() as context:
            return context.wrap_bio(*args, **options)

    @contextmanager
    def _offered(self) -> Generator[ssl.SSLContext, None, None]:
        with section.mark, _locks.setdefault(os.getpid(), new_lock()):
            self._context.set_alpn_protocols([self._protocol])
            try:
                yield self._context
            finally:
                self._context.set_alpn_protocols(_NONE)
