"""What is said to etcd and what it answers, as documents of bytes and numbers.

Names and shapes are those of etcd's own messages (``rpc.proto``); what is zero or false may be left out of a
reply. How they are spelled on a wire is the business of `gateway_json` and `grpc_messages`.
"""

from __future__ import annotations

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
    "txn",
    "whole",
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


def number(value: Any) -> int:
    """Return a number of a reply, where absent means zero."""
    return 0 if value is None else value


def revision(reply: Json) -> int:
    """Return the store's revision at which a reply was made."""
    return number(reply.get("header", {}).get("revision"))


def txn(compare: Iterable[Json] = (), then: Iterable[Json] = (), otherwise: Iterable[Json] = ()) -> Json:
    """Return the body of a transaction."""
    return {"compare": list(compare), "success": list(then), "failure": list(otherwise)}


def compare_created(key: bytes, create_revision: int) -> Json:
    """Return the comparison "this key was created at this revision"."""
    return {
        "key": key,
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": create_revision,
    }


def compare_modified(key: bytes, mod_revision: int) -> Json:
    """Return the comparison "this key was last put at this revision"."""
    return {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": mod_revision}


def compare_present(key: bytes, before: int | None = None) -> list[Json]:
    """Return the comparisons "this key is there", and "it was created before this revision"."""
    there = {"key": key, "target": "CREATE", "result": "GREATER", "create_revision": 0}
    earlier = {"key": key, "target": "CREATE", "result": "LESS", "create_revision": before}
    return [there] if before is None else [there, earlier]


def compare_version(key: bytes, version: int) -> Json:
    """Return the comparison "this key was put so many times since it was created"."""
    return {"key": key, "target": "VERSION", "result": "EQUAL", "version": version}


def compare_absent(key: bytes, end: bytes | None = None) -> Json:
    """Return the comparison "no such key", or "no key from ``key`` up to ``end``"."""
    absent = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": 0}
    return absent if end is None else {**absent, "range_end": end}


def put(key: bytes, value: bytes, lease: int) -> Json:
    """Return the operation that writes a key bound to a lease."""
    return {"request_put": {"key": key, "value": value, "lease": lease}}


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
    request: dict[str, Any] = {"key": key}
    if end is not None:
        request["range_end"] = end
    if limit:
        request["limit"] = limit
    return request


def oldest(key: bytes, end: bytes, limit: int) -> Json:
    """Return the body of a call that reads the first created keys of a range."""
    return {**span(key, end, limit), "sort_order": "ASCEND", "sort_target": "CREATE"}


def nearest(key: bytes, end: bytes, *, before: int | None, limit: int) -> Json:
    """Return the body of a call that reads the latest created keys of a range, created before a revision."""
    request = {
        "key": key,
        "range_end": end,
        "sort_order": "DESCEND",
        "sort_target": "CREATE",
        "limit": limit,
    }
    if before is not None:
        request["max_create_revision"] = before - 1
    return request


_RESULTS = {
    "request_range": "response_range",
    "request_put": "response_put",
    "request_delete_range": "response_delete_range",
}


def whole(body: Json, reply: Json) -> bool:
    """Whether a reply that is about keys has a revision, and a result for each operation of a transaction."""
    asked = body.get("success" if reply.get("succeeded") else "failure", ())
    found = reply.get("responses", ())
    return (
        revision(reply) > 0
        and len(found) == len(asked)
        and all(_RESULTS[name] in done for one, done in zip(asked, found, strict=True) for name in one)
    )


def only_reads(path: str, body: Any) -> bool:
    """Whether a call changes nothing, however late it arrives."""
    if path.endswith("/kv/range"):
        return True
    if not path.endswith("/kv/txn"):
        return False
    return all("request_range" in entry for part in ("success", "failure") for entry in body.get(part, ()))


def keys(found: Json) -> list[Kv]:
    """Return the keys of the reply to a read."""
    return found.get("kvs", [])  # type: ignore[no-any-return]


def reads(reply: Json) -> list[Json]:
    """Return the replies to the reads in a transaction."""
    return [found["response_range"] for found in reply.get("responses", ()) if "response_range" in found]
