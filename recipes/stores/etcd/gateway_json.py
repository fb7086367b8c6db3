"""The documents of `codec` as the gateway spells them: keys and values in base64, 64 bit numbers as strings.

Numbers are written as numbers, which the mapping of protocol buffers to JSON allows, and read as strings.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from typing import Any

from recipes.stores.etcd.codec import Kv

__all__ = ["read", "write"]

_NUMBERS = frozenset(("ID", "TTL", "compact_revision", "count", "deleted", "revision", "version", "watch_id"))


def _text(raw: Any) -> str:
    if not isinstance(raw, bytes):
        raise TypeError(f"{type(raw).__name__} has no place in a document for etcd")
    return b2a_base64(raw, newline=False).decode("ascii")


def _native(found: dict[str, Any]) -> Any:
    """Return an object as `codec` has it: a key as ``Kv``, and numbers as numbers."""
    if "mod_revision" in found:
        return Kv(
            a2b_base64(found["key"]),
            int(found.get("create_revision", 0)),
            a2b_base64(found.get("value", "")),
            int(found.get("lease", 0)),
            int(found["mod_revision"]),
            int(found.get("version", 0)),
        )
    for name in _NUMBERS.intersection(found):
        found[name] = int(found[name])
    return found


# ``json.dumps`` and ``json.loads`` would make these anew for each document (25 us).
_encode = json.JSONEncoder(separators=(",", ":"), default=_text).encode
_decode = json.JSONDecoder(object_hook=_native).decode


def write(body: Any) -> bytes:
    """Return a document as JSON without spaces."""
    return _encode(body).encode()


def read(text: str | bytes) -> Any:
    """Return what JSON says; ValueError for what is none, or has numbers and keys of another kind."""
    try:
        return _decode(text if isinstance(text, str) else text.decode())
    except (LookupError, RecursionError, TypeError) as error:
        raise ValueError(f"not as etcd writes: {error}") from None
