"""The gateway's JSON: requests written, replies read.

Keys and values are base64, 64 bit numbers are strings, and what is zero or false is
left out.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

__all__ = [
    "Kv",
    "compare_absent",
    "compare_created",
    "compare_modified",
    "compare_present",
    "compare_version",
    "delete",
    "keys",
    "nearest",
    "number",
    "oldest",
    "only_reads",
    "put",
    "put_again",
    "read",
    "reads",
    "revision",
    "span",
    "text",
    "txn",
]

Json = Mapping[str, Any]


class Kv(NamedTuple):
    """A key as it was read."""

    key: bytes
    created: int
    value: bytes
    lease: int
    modified: int
    version: int


def text(raw: bytes) -> str:
    """Return bytes as the gateway wants them."""
    return b2a_base64(raw, newline=False).decode("ascii")


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


def compare_modified(key: bytes, mod_revision: int) -> Json:
    """Return the comparison "this key was last put at this revision"."""
    return {"key": text(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(mod_revision)}


def compare_present(key: bytes, before: int | None = None) -> list[Json]:
    """Return the comparisons "this key is there", and "it was created before this revision"."""
    there = {"key": text(key), "target": "CREATE", "result": "GREATER", "create_revision": "0"}
    earlier = {"key": text(key), "target": "CREATE", "result": "LESS", "create_revision": str(before)}
    return [there] if before is None else [there, earlier]


def compare_version(key: bytes, version: int) -> Json:
    """Return the comparison "this key was put so many times since it was created"."""
    return {"key": text(key), "target": "VERSION", "result": "EQUAL", "version": str(version)}


def compare_absent(key: bytes, end: bytes | None = None) -> Json:
    """Return the comparison "no such key", or "no key from ``key`` up to ``end``"."""
    absent = {"key": text(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
    return absent if end is None else {**absent, "range_end": text(end)}


def put(key: bytes, value: bytes, lease: int) -> Json:
    """Return the operation that writes a key bound to a lease."""
    return {"request_put": {"key": text(key), "value": text(value), "lease": str(lease)}}


def put_again(key: bytes, value: bytes, lease: int) -> Json:
    """Return the same operation, whose reply has the key as it was before."""
    return {"request_put": {**put(key, value, lease)["request_put"], "prev_kv": True}}


def delete(key: bytes, end: bytes | None = None) -> Json:
    """Return the operation that deletes one key, or a range."""
    return {"request_delete_range": span(key, end)}


def read(key: bytes, end: bytes | None = None, limit: int = 0) -> Json:
    """Return the operation that reads one key, or a range in no order."""
    return {"request_range": span(key, end, limit)}


def span(key: bytes, end: bytes | None = None, limit: int = 0) -> Json:
    """Return the body of a call that reads one key, or a range in no order."""
    request: dict[str, Any] = {"key": text(key)}
    if end is not None:
        request["range_end"] = text(end)
    if limit:
        request["limit"] = str(limit)
    return request


def oldest(key: bytes, end: bytes, limit: int) -> Json:
    """Return the body of a call that reads the first created keys of a range."""
    return {**span(key, end, limit), "sort_order": "ASCEND", "sort_target": "CREATE"}


def nearest(key: bytes, end: bytes, *, before: int | None, limit: int) -> Json:
    """Return the body of a call that reads the latest created keys of a range, created before a revision."""
    request = {
        "key": text(key),
        "range_end": text(end),
        "sort_order": "DESCEND",
        "sort_target": "CREATE",
        "limit": str(limit),
    }
    if before is not None:
        request["max_create_revision"] = str(before - 1)
    return request


def only_reads(path: str, body: Any) -> bool:
    """Whether a call changes nothing, however late it arrives."""
    if path.endswith("/kv/range"):
        return True
    if not path.endswith("/kv/txn"):
        return False
    return all("request_range" in entry for part in ("success", "failure") for entry in body.get(part, ()))


def keys(found: Json) -> list[Kv]:
    """Return the keys of the reply to a read."""
    return [
        Kv(
            a2b_base64(kv["key"]),
            number(kv.get("create_revision")),
            a2b_base64(kv.get("value", "")),
            number(kv.get("lease")),
            number(kv.get("mod_revision")),
            number(kv.get("version")),
        )
        for kv in found.get("kvs", ())
    ]


def reads(reply: Json) -> list[Json]:
    """Return the replies to the reads in a transaction."""
    return [found["response_range"] for found in reply.get("responses", ()) if "response_range" in found]
