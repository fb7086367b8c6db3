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
SHOWN = 80

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
            reply, end = _reply(self._data, 0)
        except EOFError:
            return INCOMPLETE
        except (ValueError, RecursionError):
            said = f"the server does not speak RESP2: {bytes(self._data[:SHOWN])!r}"
            raise InvalidResponse(said) from None
        del self._data[:end]
        return reply


def _reply(data: bytearray, start: int) -> tuple[Any, int]:
    """Return the reply that begins there, and where it ends; EOFError if it does not."""
    line = data.find(b"\r\n", start)
    if line < 0:
        raise EOFError
    kind, said, end = data[start], data[start + 1 : line], line + 2
    if kind == 58:
        return int(said), end
    if kind == 36:
        stop = end + int(said)
        if stop < end:
            return None, end
        if len(data) < stop + 2:
            raise EOFError
        return bytes(data[end:stop]), stop + 2
    if kind == 42:
        count = int(said)
        found: list[Any] = []
        for _ in range(count):
            one, end = _reply(data, end)
            found.append(one)
        return found if count >= 0 else None, end
    if kind == 43:
        return bytes(said), end
    if kind != 45:
        raise ValueError("no reply begins so")
    error = _error_of(said.decode("utf-8", "replace"))
    if not isinstance(error, ResponseError):
        raise error
    return error, end
