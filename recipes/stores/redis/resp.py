"""The words of Redis (RESP2) as bytes: commands packed, replies read as they arrive; no I/O.

redis-py does both as well, for words of any type and replies that may be streamed: an acquire and release
took twice the time that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from redis._parsers.base import BaseParser
from redis.exceptions import InvalidResponse, ResponseError

from recipes.stores.redis.requests import Word

__all__ = ["CLOSED", "INCOMPLETE", "Replies", "packed"]

CLOSED = "the server closed the connection"
SHOWN, DEEPEST = 80, 64

_error_of: Callable[[str], Exception] = BaseParser.parse_error

INCOMPLETE = object()
"""What stands for a reply of which not all is there."""


def packed(commands: Sequence[Sequence[Word]]) -> bytes:
    """Return commands as they are sent."""
    pieces = []
    for words in commands:
        pieces.append(b"*%d\r\n" % len(words))
        pieces += [
            b"$%d\r\n%b\r\n" % (len(word), word) if isinstance(word, bytes) else _text(word) for word in words
        ]
    return b"".join(pieces)


@lru_cache(2000)
def _text(word: str | int) -> bytes:
    """Return a word as it is sent: most, names of keys for example, are sent again and again."""
    encoded = str(word).encode()
    return b"$%d\r\n%b\r\n" % (len(encoded), encoded)


class Replies:
    """What a server has sent on one connection and nobody has taken."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._at = 0  # up to where it was read
        self._open: list[tuple[list[Any], int]] = []  # arrays of which a part is there, and their lengths

    def __bool__(self) -> bool:
        return bool(self._data)

    def feed(self, data: bytes) -> None:
        """Add what has arrived."""
        self._data += data

    def take(self) -> Any:
        """Return the next reply, an error too, or `INCOMPLETE`.

        Raises:
            redis.RedisError: The server says that it cannot serve, or it does not speak RESP2.
        """
        try:
            return self._read()
        except ValueError:
            shown = bytes(self._data[self._at : self._at + SHOWN])
            raise InvalidResponse(f"the server does not speak RESP2: {shown!r}") from None

    def _read(self) -> Any:  # noqa: PLR0912 - a call for each kind would take longer than what it reads
        data, opened = self._data, self._open
        while (line := data.find(b"\r\n", self._at)) >= 0:
            kind, said, end = data[self._at], data[self._at + 1 : line], line + 2
            one: Any = None
            if kind == 58:
                one = int(said)
            elif kind == 36:
                size = int(said)
                if size >= 0:
                    stop = end + size
                    if len(data) < stop + 2:
                        return INCOMPLETE
                    one, end = bytes(data[end:stop]), stop + 2
            elif kind == 42:
                size = int(said)
                if size > 0:
                    if len(opened) == DEEPEST:
                        raise ValueError("no reply is nested so deep")
                    opened.append(([], size))
                    self._at = end
                    continue
                one = None if size else []
            elif kind == 43:
                one = bytes(said)
            elif kind == 45:
                one = _error_of(said.decode("utf-8", "replace"))
                if not isinstance(one, ResponseError):
                    raise one
            else:
                raise ValueError("no reply begins so")
            self._at = end
            while opened:
                found, size = opened[-1]
                found.append(one)
                if len(found) < size:
                    break
                one = found
                opened.pop()
            else:
                del data[:end]
                self._at = 0
                return one
        return INCOMPLETE
