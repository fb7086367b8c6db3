"""Names of locks, and how they become a part of a path or key.

A name is opaque text. It is encoded to ``[A-Za-z0-9_.-]`` and ``%XX`` (one for each
byte of its UTF-8), so that different names never meet, none holds a separator, and
no store's own rules about paths apply.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

__all__ = ["MAX_ENCODED_BYTES", "decode", "encode"]

MAX_ENCODED_BYTES = 1024

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_OTHER = re.compile(rb"[^A-Za-z0-9_.-]")


def encode(name: str) -> str:
    """Return ``name`` as one path component; different names give different components.

    Raises:
        TypeError: The name is no ``str``.
        ValueError: It is empty, has a lone surrogate, or is longer than 1 024 bytes
            once encoded.
    """
    if not isinstance(name, str):
        raise TypeError(f"a lock's name is a str, not {type(name).__name__}")
    if not name:
        raise ValueError("a lock's name must have at least one character")
    encoded = name if _PLAIN.fullmatch(name) else _escape(name)
    if len(encoded) > MAX_ENCODED_BYTES:
        raise ValueError(
            f"the lock's name has {len(encoded)} bytes once encoded, and {MAX_ENCODED_BYTES} "
            f"at most are allowed: {name[:40]!r}..."
        )
    # A component that is only dots means a directory to some stores.
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def _escape(name: str) -> str:
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the lock's name {name[:40]!r} has a lone surrogate at {error.start} and is no text"
        ) from None
    return _OTHER.sub(lambda match: b"%%%02X" % match[0][0], raw).decode("ascii")


def decode(encoded: str) -> str | None:
    """Return the name that was encoded as this component; None if none is."""
    try:
        name = unquote(encoded, errors="strict")
    except UnicodeDecodeError:
        return None
    return name if name and encode(name) == encoded else None
