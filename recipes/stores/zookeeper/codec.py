"""Requests and replies as ZooKeeper's wire has them (``zookeeper.jute``): those that are asked often.

kazoo's own would do; these are half as long on the way, and make what is asked for at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from recipes._contract.connection import Request
from recipes.stores.zookeeper.requests import (
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    MultiFailed,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)

__all__ = ["MULTI", "Decode", "Unread", "acl_bytes", "encoded", "unread_names"]

Decode = Callable[[bytes, int], Any]
"""Makes the reply of a message, from an offset on."""


class Unread:
    """A long reply as it came, which takes far less than what is made of it by `read`.

    kazoo's thread takes many replies before those who asked run: a thousand names for each of them
    would be in memory together, and keep it from others for good.
    """

    __slots__ = ("_at", "_decode", "_message")

    def __init__(self, decode: Decode, message: bytes, at: int) -> None:
        self._decode = decode
        self._message = message
        self._at = at

    def read(self) -> Any:
        """Return the reply; raises if it is none of ZooKeeper's."""
        return self._decode(self._message, self._at)


MULTI = 14
_INT = struct.Struct("!i")
_STAT = struct.Struct("!q24xi8xq16x")  # of its eleven numbers: czxid, version, ephemeralOwner
_NOTHING = _INT.pack(-1)
_PART = struct.Struct("!i?i")  # of a multi: kind, whether it was the last, error
_LAST_PART = _PART.pack(-1, True, -1)
_FAILED, _SET = -1, 5
_CREATE, _CREATE_PART = 15, 1  # a server answers a part without a stat, whichever it was asked with
_EPHEMERAL, _SEQUENCE = 1, 2


def acl_bytes(acl: Any) -> bytes:
    """Return an access control list: entries with ``perms``, and ``id`` with ``scheme`` and ``id``."""
    entries = (_INT.pack(one.perms) + _text(one.id.scheme) + _text(one.id.id) for one in acl)
    return _INT.pack(len(acl)) + b"".join(entries)


def encoded(request: Request[Any], acl: bytes) -> tuple[int, bytes, Decode]:
    """Return the kind of a request, its body, and what makes the reply; ``acl`` is for what is made.

    Raises:
        TypeError: The path is no text.
        UnicodeEncodeError: It cannot be sent.
    """
    known: Any = request
    encode = _ENCODERS.get(type(request))
    if encode is None:
        raise AssertionError(f"ZooKeeper should not be asked {type(request).__name__} here")
    if not isinstance(known.path, str):
        raise TypeError(f"a path is text, not {type(known.path).__name__}")
    return encode(known, acl)


def _create(request: Create, acl: bytes) -> tuple[int, bytes, Decode]:
    flags = _EPHEMERAL * request.ephemeral | _SEQUENCE * request.sequence
    body = _text(request.path) + _data(request.data) + acl + _INT.pack(flags)
    return _CREATE, body, _created


def _children(request: Children, _: bytes) -> tuple[int, bytes, Decode]:
    return 8, _watching(request), unread_names


def _get(request: Get, _: bytes) -> tuple[int, bytes, Decode]:
    return 4, _watching(request), _got


def _exists(request: Exists, _: bytes) -> tuple[int, bytes, Decode]:
    return 3, _watching(request), _stat


def _set(request: SetData, _: bytes) -> tuple[int, bytes, Decode]:
    return _SET, _text(request.path) + _data(request.data) + _INT.pack(request.version), _stat


def _delete(request: Delete, _: bytes) -> tuple[int, bytes, Decode]:
    return 2, _text(request.path) + _INT.pack(request.version), _nothing


def _check(request: Check, _: bytes) -> tuple[int, bytes, Decode]:
    return 13, _text(request.path) + _INT.pack(request.version), _nothing


def _multi(request: Multi, acl: bytes) -> tuple[int, bytes, Decode]:
    body = b""
    for part in request.parts:
        kind, inside, _ = encoded(part, acl)
        body += _PART.pack(_CREATE_PART if kind == _CREATE else kind, False, -1) + inside
    return MULTI, body + _LAST_PART, _done


def _sync(request: Sync, _: bytes) -> tuple[int, bytes, Decode]:
    return 9, _text(request.path), _nothing


_ENCODERS: dict[type[Request[Any]], Callable[[Any, bytes], tuple[int, bytes, Decode]]] = {
    Create: _create,
    Children: _children,
    Get: _get,
    Exists: _exists,
    SetData: _set,
    Delete: _delete,
    Check: _check,
    Multi: _multi,
    Sync: _sync,
}


def _watching(request: Children | Get | Exists) -> bytes:
    return _text(request.path) + (b"\0" if request.mailbox is None else b"\1")


def _text(text: str) -> bytes:
    return _data(text.encode()) if text else _NOTHING


def _data(data: bytes | None) -> bytes:
    return _NOTHING if data is None else _INT.pack(len(data)) + data


def _created(message: bytes, at: int) -> tuple[str, Stat]:
    (length,) = _INT.unpack_from(message, at)
    end = at + 4 + length
    return message[at + 4 : end].decode(), _stat(message, end)


def _got(message: bytes, at: int) -> tuple[bytes | None, Stat]:
    (length,) = _INT.unpack_from(message, at)
    at += 4
    if length < 0:
        return None, _stat(message, at)
    return message[at : at + length], _stat(message, at + length)


def _done(message: bytes, at: int) -> tuple[Any, ...]:
    """Return the replies to the parts of a multi; of one that failed, only which part did.

    The parts before that say 0, and those behind it that they were not reached.
    """
    replies: list[Any] = []
    failed: MultiFailed | None = None
    while True:
        kind, last, _ = _PART.unpack_from(message, at)
        at += _PART.size
        if last:
            return tuple(replies) if failed is None else (failed,)
        if kind == _FAILED:
            (code,) = _INT.unpack_from(message, at)
            at += _INT.size
            if code and failed is None:
                failed = MultiFailed(len(replies), _error(code))
        reply: Any = None
        if kind == _CREATE_PART:
            begin = at + _INT.size
            at = begin + _INT.unpack_from(message, at)[0]
            reply = message[begin:at].decode()
        elif kind == _SET:
            reply = _stat(message, at)
            at += _STAT.size
        replies.append(reply)


def _error(code: int) -> ZooKeeperError:
    error = ZooKeeperError()
    error.code = code
    return error


def unread_names(message: bytes, at: int) -> Unread:
    """Return the reply to `Children`, to be read by who asked."""
    return Unread(_names, message, at)


def _names(message: bytes, at: int) -> tuple[str, ...]:
    (count,) = _INT.unpack_from(message, at)
    at += 4
    names, length_at = [], _INT.unpack_from
    for _ in range(count):
        begin = at + 4
        at = begin + length_at(message, at)[0]
        names.append(message[begin:at].decode())
    return tuple(names)


def _stat(message: bytes, at: int) -> Stat:
    czxid, version, owner = _STAT.unpack_from(message, at)
    return Stat(czxid, owner, version)


def _nothing(_message: bytes, _at: int) -> None:
    return None
