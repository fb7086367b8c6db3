"""The gateway's JSON: requests written, replies read.

Keys and values are base64, 64 bit numbers are strings, and what is zero or false is
left out.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = [
    "Kv",
    "compare_absent",
    "compare_created",
    "delete",
    "keys",
    "number",
    "put",
    "read",
    "read_nearest",
    "revision",
    "text",
    "txn",
]

Json = Mapping[str, Any]


class Kv(NamedTuple):
    """A key as it was read."""

    key: bytes
    created: int
    value: bytes


def text(raw: bytes) -> str:
    """Return bytes as the gateway wants them."""
    return b64encode(raw).decode("ascii")


def number(value: Any) -> int:
    """Return a number of a reply, where absent means zero."""
    return 0 if value is None else int(value)


def revision(reply: Json) -> int:
    """Return the store's revision at which a reply was made."""
    return number(reply.get("header", {}).get("revision"))


def txn(compare: Iterable[Json] = (), then: Iterable[Json] = (), otherwise: Iterable[Json] = ()) -> Json:
    """Return the body of a transaction."""
    return {"compare": list(compare), "success": list(then), "failure": list(otherwise)}


def compare_created(key: bytes, create_revision: int) -> Json:
    """Return the comparison "this key was created at this revision"."""
    return {
        "key": text(key),
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": str(create_revision),
    }


def compare_absent(key: bytes, end: bytes | None = None) -> Json:
    """Return the comparison "no such key", or "no key from ``key`` up to ``end``"."""
    absent = {"key": text(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
    return absent if end is None else {**absent, "range_end": text(end)}


def put(key: bytes, value: bytes, lease: int) -> Json:
    """Return the operation that writes a key bound to a lease."""
    return {"request_put": {"key": text(key), "value": text(value), "lease": str(lease)}}


def delete(key: bytes) -> Json:
    """Return the operation that deletes one key."""
    return {"request_delete_range": {"key": text(key)}}


def read(key: bytes, end: bytes | None = None, limit: int = 0) -> Json:
    """Return the operation that reads one key, or a range in no order."""
    request: dict[str, Any] = {"key": text(key)}
    if end is not None:
        request["range_end"] = text(end)
    if limit:
        request["limit"] = str(limit)
    return {"request_range": request}


def read_nearest(key: bytes, end: bytes, *, before: int | None, limit: int) -> Json:
    """Return the operation that reads the latest created keys of a range, created before a revision."""
    request = {
        "key": text(key),
        "range_end": text(end),
        "sort_order": "DESCEND",
        "sort_target": "CREATE",
        "limit": str(limit),
    }
    if before is not None:
        request["max_create_revision"] = str(before - 1)
    return {"request_range": request}


def keys(response: Json) -> list[Kv]:
    """Return the keys of one range of a transaction's reply."""
    found = response.get("response_range", {}).get("kvs", ())
    return [
        Kv(b64decode(kv["key"]), number(kv.get("create_revision")), b64decode(kv.get("value", "")))
        for kv in found
    ]
