"""The documents of `codec` as etcd's own messages: protocol buffers, by tables of their fields.

The numbers are those of etcd's ``rpc.proto`` and ``kv.proto``. A cycle has thirty fields up and as many
down, and a queue has many keys: headers and keys are matched as a whole, and long numbers that were seen
before are known. protobuf's own library saves a few microseconds a call and costs 40 ms at import.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from recipes.stores.etcd.codec import Kv

__all__ = ["METHODS", "MessageError", "Method", "read", "write"]


class MessageError(ValueError):
    """These bytes are no such message."""


Message = dict[str, tuple[int, Any]]
"""Fields by name: the number, and the kind (one of these, str, names of an enum, another message)."""
INT, BYTES, BOOL = object(), object(), object()
_HEADER, _KV = object(), object()


class _Many(NamedTuple):
    """A field that may occur many times."""

    kind: Any


_ORDER = {"NONE": 0, "ASCEND": 1, "DESCEND": 2}
_BY = {"KEY": 0, "VERSION": 1, "CREATE": 2, "MOD": 3, "VALUE": 4}
_TARGET = {"VERSION": 0, "CREATE": 1, "MOD": 2, "VALUE": 3, "LEASE": 4}
_RESULT = {"EQUAL": 0, "GREATER": 1, "LESS": 2, "NOT_EQUAL": 3}
_RANGE: Message = {
    "key": (1, BYTES),
    "range_end": (2, BYTES),
    "limit": (3, INT),
    "sort_order": (5, _ORDER),
    "sort_target": (6, _BY),
    "max_create_revision": (13, INT),
}
_PUT: Message = {"key": (1, BYTES), "value": (2, BYTES), "lease": (3, INT), "prev_kv": (4, BOOL)}
_DELETE: Message = {"key": (1, BYTES), "range_end": (2, BYTES)}
_COMPARE: Message = {
    "result": (1, _RESULT),
    "target": (2, _TARGET),
    "key": (3, BYTES),
    "version": (4, INT),
    "create_revision": (5, INT),
    "mod_revision": (6, INT),
    "range_end": (64, BYTES),
}
_OPERATION: Message = {
    "request_range": (1, _RANGE),
    "request_put": (2, _PUT),
    "request_delete_range": (3, _DELETE),
}
_TXN: Message = {
    "compare": (1, _Many(_COMPARE)),
    "success": (2, _Many(_OPERATION)),
    "failure": (3, _Many(_OPERATION)),
}
_GRANT: Message = {"TTL": (1, INT), "ID": (2, INT)}
_LEASE: Message = {"ID": (1, INT)}
_LOGIN: Message = {"name": (1, str), "password": (2, str)}
_WATCH: Message = {
    "create_request": (
        1,
        {
            "key": (1, BYTES),
            "range_end": (2, BYTES),
            "filters": (5, _Many({"NOPUT": 0, "NODELETE": 1})),
            "watch_id": (7, INT),
        },
    ),
    "cancel_request": (2, {"watch_id": (1, INT)}),
    "progress_request": (3, {}),
}

_FOUND: Message = {"header": (1, _HEADER), "kvs": (2, _Many(_KV)), "count": (4, INT)}
_DELETED: Message = {"header": (1, _HEADER), "deleted": (2, INT)}
_RESPONSE: Message = {  # each has a header as well, of the same revision as the transaction's
    "response_range": (1, {"kvs": _FOUND["kvs"], "count": _FOUND["count"]}),
    "response_put": (2, {"prev_kv": (2, _KV)}),
    "response_delete_range": (3, {"deleted": _DELETED["deleted"]}),
}
_TXN_DONE: Message = {"header": (1, _HEADER), "succeeded": (2, BOOL), "responses": (3, _Many(_RESPONSE))}
_GRANTED: Message = {"header": (1, _HEADER), "ID": (2, INT), "TTL": (3, INT)}
_REVOKED: Message = {"header": (1, _HEADER)}
_LOGGED_IN: Message = {"header": (1, _HEADER), "token": (2, str)}
_EVENT: Message = {"type": (1, {"PUT": 0, "DELETE": 1})}
_WATCHED: Message = {
    "header": (1, _HEADER),
    "watch_id": (2, INT),
    "created": (3, BOOL),
    "canceled": (4, BOOL),
    "compact_revision": (5, INT),
    "cancel_reason": (6, str),
    "events": (11, _Many(_EVENT)),
}


class Method(NamedTuple):
    """A call of etcd: its name, and what is said and answered."""

    name: str
    asks: Message
    answers: Message


METHODS = {
    "/kv/range": Method("/etcdserverpb.KV/Range", _RANGE, _FOUND),
    "/kv/txn": Method("/etcdserverpb.KV/Txn", _TXN, _TXN_DONE),
    "/kv/deleterange": Method("/etcdserverpb.KV/DeleteRange", _DELETE, _DELETED),
    "/lease/grant": Method("/etcdserverpb.Lease/LeaseGrant", _GRANT, _GRANTED),
    "/lease/keepalive": Method("/etcdserverpb.Lease/LeaseKeepAlive", _LEASE, _GRANTED),
    "/lease/revoke": Method("/etcdserverpb.Lease/LeaseRevoke", _LEASE, _REVOKED),
    "/auth/authenticate": Method("/etcdserverpb.Auth/Authenticate", _LOGIN, _LOGGED_IN),
    "/watch": Method("/etcdserverpb.Watch/Watch", _WATCH, _WATCHED),
}
"""The calls, by the paths that the gateway has for them; a keepalive is a stream, of one message each way."""


# Each table is made into functions when it is first used.

_KEPT = 256
_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


@lru_cache(maxsize=_KEPT)
def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_Writer = Callable[[Any], bytes]
_writes: dict[int, dict[str, _Writer]] = {}


def write(kind: Message, document: Any) -> bytes:
    """Return a document as a message; KeyError for a field that it has not."""
    return _written(_writers(kind), document)


def _writers(kind: Message) -> dict[str, _Writer]:
    """Return what writes the fields of a message, by their names."""
    found = _writes.get(id(kind))
    if found is None:
        found = _writes[id(kind)] = {name: _writer(number, what) for name, (number, what) in kind.items()}
    return found


def _written(writers: dict[str, _Writer], document: Any) -> bytes:
    out = b""
    for name, value in document.items():
        out += writers[name](value)
    return out


def _writer(number: int, what: Any) -> _Writer:
    if isinstance(what, _Many):
        return _writer_of_many(_writer(number, what.kind))
    if _is_enum(what):
        return {word: _varint(number << 3) + _varint(value) for word, value in what.items()}.__getitem__
    if what is INT or what is BOOL:
        return _writer_of_numbers(_varint(number << 3))
    head = _varint(number << 3 | 2)
    if what is BYTES:
        return _writer_of_bytes(head)
    if what is str:
        write_encoded = _writer_of_bytes(head)
        return lambda value: write_encoded(value.encode())
    writers, write_raw = _writers(what), _writer_of_bytes(head)
    return lambda document: write_raw(_written(writers, document))


def _writer_of_many(write_one: _Writer) -> _Writer:
    def write(values: Any) -> bytes:
        out = b""
        for value in values:
            out += write_one(value)
        return out

    return write


def _writer_of_numbers(head: bytes) -> _Writer:
    def write(value: int) -> bytes:
        return head + (_ONE_BYTE[value] if 0 <= value < 0x80 else _varint(value))

    return write


def _writer_of_bytes(head: bytes) -> _Writer:
    def write(raw: bytes) -> bytes:
        size = len(raw)
        return head + (_ONE_BYTE[size] if size < 0x80 else _varint(size)) + raw

    return write


def _is_enum(what: Any) -> bool:
    return isinstance(what, dict) and bool(what) and all(isinstance(value, int) for value in what.values())


_Reader = Callable[[bytes, int, int], Any]


class _Field(NamedTuple):
    """A field, as it is read: how its value is turned into ours, and whether it may occur many times."""

    name: str
    many: bool
    number: Callable[[int], Any] | None
    within: _Reader | None


_reads: dict[int, dict[int, _Field]] = {}


def _fields(kind: Message) -> dict[int, _Field]:
    """Return the fields of a message by what they begin with: the number and the kind."""
    found = _reads.get(id(kind))
    if found is None:
        fields = {number: _field(name, what) for name, (number, what) in kind.items()}
        found = _reads[id(kind)] = {
            number << 3 | (0 if field.within is None else 2): field for number, field in fields.items()
        }
    return found


def _field(name: str, what: Any) -> _Field:
    many = isinstance(what, _Many)
    kind = what.kind if many else what
    if kind is INT or kind is BOOL:
        return _Field(name, many, None if kind is INT else bool, None)
    if _is_enum(kind):
        words = {number: word for word, number in kind.items()}
        return _Field(name, many, lambda number: words.get(number, number), None)
    plain: dict[Any, _Reader] = {BYTES: _bytes, str: _words, _HEADER: _header, _KV: _kv}
    within = partial(_read, _fields(kind)) if isinstance(kind, dict) else plain[kind]
    return _Field(name, many, None, within)


def read(kind: Message, data: bytes) -> dict[str, Any]:
    """Return what a message says; MessageError if it is none. What it does not say is left out."""
    try:
        return _read(_fields(kind), data, 0, len(data))
    except IndexError:
        raise MessageError("a message is cut short") from None


_VARINT = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_match_number = re.compile(_VARINT).match


@lru_cache(maxsize=_KEPT)
def _value(varint: bytes) -> int:
    value = 0
    for byte in reversed(varint):
        value = value << 7 | byte & 0x7F
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    found = _match_number(data, at)
    if found is None:
        raise MessageError("a number has no end")
    return _value(found[0]), found.end()


def _skipped(data: bytes, at: int, tag: int, known: dict[int, _Field]) -> int:
    """Return the place behind a field that nobody reads."""
    kind, number = tag & 7, tag >> 3
    if number << 3 in known or number << 3 | 2 in known:
        raise MessageError(f"field {number} is of another kind")
    if kind == 0:
        return _number(data, at)[1]
    if kind == 2:
        size, at = _number(data, at)
        if size < 0:
            raise MessageError(f"a field of {size} bytes")
        return at + size
    if kind in (1, 5):
        return at + (8 if kind == 1 else 4)
    raise MessageError(f"a field of kind {kind}")


def _read(fields: dict[int, _Field], data: bytes, at: int, end: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while at < end:
        tag, at = data[at], at + 1  # most numbers are of one byte
        if tag > 0x7F:
            tag, at = _number(data, at - 1)
        field = fields.get(tag)
        if field is None:
            at = _skipped(data, at, tag, fields)
            continue
        name, many, number, within = field
        value: Any
        value, at = data[at], at + 1
        if value > 0x7F:
            value, at = _number(data, at - 1)
        if within is not None:
            start, at = at, at + value
            if not start <= at <= end:
                raise MessageError(f"{name} is cut short")
            value = within(data, start, at)
        elif number is not None:
            value = number(value)
        if many:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    if at > end:
        raise MessageError("a message is cut short")
    return found


def _bytes(data: bytes, at: int, end: int) -> bytes:
    return data[at:end]


def _words(data: bytes, at: int, end: int) -> str:
    return data[at:end].decode("utf-8", "replace")


# What is as servers write it is matched as a whole; the tables read whatever else it may be.

_match_header = re.compile(rb"(?:\x08%b)?(?:\x10%b)?(?:\x18(%b))?(?:\x20%b)?" % ((_VARINT,) * 4)).fullmatch
_OF_HEADER: Message = {"revision": (3, INT)}


def _header(data: bytes, at: int, end: int) -> dict[str, Any]:
    """Return a header: who answers, and at which revision, which alone is read."""
    usual = _match_header(data, at, end)
    if usual is None:
        return _read(_fields(_OF_HEADER), data, at, end)
    revision = usual[1]
    return {} if revision is None else {"revision": _value(revision)}


_match_kv = re.compile(
    rb"\x0a([\x00-\x7f])([^\x10]*)\x10(%b)\x18(%b)\x20(%b)(?:\x2a([\x00-\x7f])(.*?))?\x30(%b)"
    % ((_VARINT,) * 4),
    re.DOTALL,
).fullmatch
_OF_KV: Message = {
    "key": (1, BYTES),
    "created": (2, INT),
    "value": (5, BYTES),
    "lease": (6, INT),
    "modified": (3, INT),
    "version": (4, INT),
}
_NO_KV = Kv(b"", 0, b"", 0, 0, 0)


def _kv(data: bytes, at: int, end: int) -> Kv:
    """Return a key; one that has no lease, or a long name or value, is nothing that a queue has many of."""
    if usual := _match_kv(data, at, end):
        key_size, key, created, modified, version, value_size, value, lease = usual.groups(b"")
        if len(key) == key_size[0] and len(value) == (value_size[0] if value_size else 0):
            return Kv(key, _value(created), value, _value(lease), _value(modified), _value(version))
    return _NO_KV._replace(**_read(_fields(_OF_KV), data, at, end))
