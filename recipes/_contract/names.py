"""Names, and how they become a part of a path or key.

A name is opaque text. It is encoded to ``[A-Za-z0-9_.-]`` and ``%XX`` (one for each
byte of its UTF-8), so that different names never meet, none holds a separator, and
no store's own rules about paths apply. ``~`` is not in that alphabet: what begins with it is
the place of a recipe whose names are its own.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

__all__ = ["LOCKS", "MAX_ENCODED_BYTES", "decode", "encode", "parts_of", "queue_of"]

MAX_ENCODED_BYTES = 1024
LOCKS = frozenset(("lock", "rlock", "rwlock"))
"""The recipes that share the queue of a name: they exclude each other."""

_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_OTHER = re.compile(rb"[^A-Za-z0-9_.-]")


def queue_of(recipe: str, name: str) -> str:
    """Return where the contenders of a recipe of this name queue, or its value is: a path below the root.

    Raises:
        TypeError, ValueError: As `encode`.
    """
    assert recipe != "session", "the sessions of a store without a root should have this place alone"
    return encode(name) if recipe in LOCKS else f"~{recipe}/{encode(name)}"


def parts_of(queue: str) -> tuple[str, str]:
    """Return the recipe ("lock" for all that share that queue) and the name of what `queue_of` has made."""
    recipe, _, encoded = queue.removeprefix("~").rpartition("/")
    return recipe or "lock", unquote(encoded)


def encode(name: str) -> str:
    """Return ``name`` as one path component; different names give different components.

    Raises:
        TypeError: The name is no ``str``.
        ValueError: It is empty, has a lone surrogate, or is longer than 1 024 bytes
            once encoded.
    """
    if not isinstance(name, str):
        raise TypeError(f"a name is a str, not {type(name).__name__}")
    if not name:
        raise ValueError("a name must have at least one character")
    encoded = name if _PLAIN.fullmatch(name) else _escape(name)
    if len(encoded) > MAX_ENCODED_BYTES:
        raise ValueError(
            f"the name has {len(encoded)} bytes once encoded, and {MAX_ENCODED_BYTES} "
            f"at most are allowed: {name[:40]!r}..."
        )
    # A component that is only dots means a directory to some stores.
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def _escape(name: str) -> str:
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"the name {name[:40]!r} has a lone surrogate at {error.start} and is no text"
        ) from None
    return _OTHER.sub(lambda match: b"%%%02X" % match[0][0], raw).decode("ascii")


def decode(encoded: str) -> str | None:
    """Return the name that was encoded as this component; None if none is."""
    try:
        name = unquote(encoded, errors="strict")
        return name if encode(name) == encoded else None
    except ValueError:  # UnicodeDecodeError is one
        return None
