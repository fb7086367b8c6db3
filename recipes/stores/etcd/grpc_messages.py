"""The documents of `codec` as etcd's own messages: protocol buffers, by tables of their fields.

The numbers are those of etcd's ``rpc.proto`` and ``kv.proto``. What costs is the number of fields, not their
tables: protobuf's own library saves a few microseconds a call and costs 40 ms at import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from recipes.stores.etcd.codec import Kv

__all__ = ["METHODS", "MessageError", "Method", "read", "write"]


class MessageError(ValueError):
    """These bytes are no such message."""


Message = dict[str, tuple[int, Any]]
"""Fields by name: the number, and the kind (bytes, str, int, names of an enum, another message)."""
INT, BYTES, BOOL = object(), object(), object()


class _Many(NamedTuple):
    """A field that may occur many times."""

    kind: Any


_HEADER: Message = {"revision": (3, INT)}
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
_LOGIN: Message = {"name": (1, BYTES), "password": (2, BYTES)}
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

_KV = object()
_FOUND: Message = {"header": (1, _HEADER), "kvs": (2, _Many(_KV)), "count": (4, INT)}
_PUT_DONE: Message = {"header": (1, _HEADER), "prev_kv": (2, _KV)}
_DELETED: Message = {"header": (1, _HEADER), "deleted": (2, INT)}
_RESPONSE: Message = {
    "response_range": (1, _FOUND),
    "response_put": (2, _PUT_DONE),
    "response_delete_range": (3, _DELETED),
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


# Each table is made into functions when it is first used: a call has thirty fields, twice a cycle.


_ONE_BYTE = [bytes((value,)) for value in range(0x80)]


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if value < 0:
        value += 1 << 64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write(kind: Message, document: Any) -> bytes:
    """Return a document as a message; KeyError for a field that it has not."""
    parts: list[bytes] = []
    for name, value in document.items():
        _writers(kind)[name](parts, value)
    return b"".join(parts)


_Writer = Callable[[list[bytes], Any], None]
_writes: dict[int, dict[str, _Writer]] = {}


def _writers(kind: Message) -> dict[str, _Writer]:
    """Return what writes the fields of a message, by their names."""
    found = _writes.get(id(kind))
    if found is None:
        found = _writes[id(kind)] = {name: _writer(number, what) for name, (number, what) in kind.items()}
    return found


def _writer(number: int, what: Any) -> _Writer:
    if isinstance(what, _Many):
        return _writer_of_many(_writer(number, what.kind))
    if what is BYTES:
        return _writer_of_bytes(_varint(number << 3 | 2))
    if what is INT or what is BOOL:
        return _writer_of_numbers(_varint(number << 3))
    if _is_enum(what):
        head = _varint(number << 3)
        words = {word: head + _varint(value) for word, value in what.items()}
        return lambda parts, value: parts.append(words[value])
    return _writer_of_messages(_varint(number << 3 | 2), _writers(what))


def _writer_of_many(write_one: _Writer) -> _Writer:
    def write(parts: list[bytes], values: Any) -> None:
        for value in values:
            write_one(parts, value)

    return write


def _writer_of_bytes(head: bytes) -> _Writer:
    def write(parts: list[bytes], value: Any) -> None:
        raw = value.encode() if isinstance(value, str) else value  # a name or a password
        parts += (head, _varint(len(raw)), raw)

    return write


def _writer_of_numbers(head: bytes) -> _Writer:
    def write(parts: list[bytes], value: Any) -> None:
        parts += (head, _varint(value))

    return write


def _writer_of_messages(head: bytes, writers: dict[str, _Writer]) -> _Writer:
    def write(parts: list[bytes], document: Any) -> None:
        within: list[bytes] = []
        for name, value in document.items():
            writers[name](within, value)
        raw = b"".join(within)
        parts += (head, _varint(len(raw)), raw)

    return write


def _is_enum(what: Any) -> bool:
    return bool(what) and all(isinstance(value, int) for value in what.values())


_Reader = Callable[[bytes, int, int], Any]


class _Field(NamedTuple):
    """A field, as it is read: how its value is turned into ours, and whether it may occur many times."""

    name: str
    many: bool
    number: Callable[[int], Any] | None
    within: _Reader | None


_reads: dict[int, dict[int, _Field]] = {}
_OF_KV = {
    0x0A: 0,
    0x10: 1,
    0x2A: 2,
    0x30: 3,
    0x18: 4,
    0x20: 5,
}  # how a key's fields begin: their places in ``Kv``


def _fields(kind: Message) -> dict[int, _Field]:
    """Return the fields of a message by what they begin with: the number and the kind."""
    found = _reads.get(id(kind))
    if found is None:
        fields = {number: _field(name, what) for name, (number, what) in kind.items()}
        found = _reads[id(kind)] = {
            number << 3 | (2 if field.number is None else 0): field for number, field in fields.items()
        }
    return found


def _field(name: str, what: Any) -> _Field:
    many = isinstance(what, _Many)
    kind = what.kind if many else what
    if kind is INT or kind is BOOL:
        return _Field(name, many, _signed if kind is INT else bool, None)
    if kind is _KV:
        return _Field(name, many, None, _kv)
    if kind is str:
        return _Field(name, many, None, _words)
    if _is_enum(kind):
        words = {number: word for word, number in kind.items()}
        return _Field(name, many, lambda number: words.get(number, number), None)
    return _Field(name, many, None, partial(_read, _fields(kind)))


def read(kind: Message, data: bytes) -> dict[str, Any]:
    """Return what a message says; MessageError if it is none. What it does not say is left out."""
    try:
        return _read(_fields(kind), data, 0, len(data))
    except IndexError:
        raise MessageError("a message is cut short") from None


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = data[at]
    at += 1
    if value < 0x80:
        return value, at
    value &= 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise MessageError("a number has no end")


def _skipped(data: bytes, at: int, tag: int, known: Iterable[int]) -> int:
    """Return the place behind a field that nobody reads."""
    kind = tag & 7
    if any(other >> 3 == tag >> 3 for other in known):
        raise MessageError(f"field {tag >> 3} is of another kind")
    if kind == 0:
        while data[at] > 0x7F:
            at += 1
        return at + 1
    if kind == 2:
        size, at = _number(data, at)
        return at + size
    if kind in (1, 5):
        return at + (8 if kind == 1 else 4)
    raise MessageError(f"a field of kind {kind}")


def _signed(value: int) -> int:
    if value < 1 << 63:
        return value
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _words(data: bytes, at: int, end: int) -> str:
    return data[at:end].decode("utf-8", "replace")


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
        if number is not None:
            value = number(value)
        elif within is not None:
            start, at = at, at + value
            if at > end:
                raise MessageError(f"{name} is cut short")
            value = within(data, start, at)
        if many:
            found.setdefault(name, []).append(value)
        else:
            found[name] = value
    if at > end:
        raise MessageError("a message is cut short")
    return found


def _kv(data: bytes, at: int, end: int) -> Kv:
    """Return a key: a queue has many."""
    found: list[Any] = [b"", 0, b"", 0, 0, 0]
    while at < end:
        tag, at = _number(data, at)
        place = _OF_KV.get(tag)
        if place is None:
            at = _skipped(data, at, tag, _OF_KV)
            continue
        value, at = _number(data, at)
        if tag & 2:
            start, at = at, at + value
            found[place] = data[start:at]
        else:
            found[place] = _signed(value)
    if at > end:
        raise MessageError("a key is cut short")
    return Kv(*found)
