"""The protocols of databases, as far as a proxy has to read along: which transaction a commit ends."""

from __future__ import annotations

from collections.abc import Iterator

from integration.harness.wire import Raw, Request

__all__ = ["SqlWire"]

COMMIT = b"COMMIT"


class SqlWire(Raw):
    """What is sent until a commit is a ``statement`` each, and that with the commit is ``commit``.

    The body of a ``commit`` is all that was sent in its transaction. A client of a database waits for the
    reply before it sends more; what the server says unasked, as a notification, is taken for a reply once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said = b""

    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        self._said += data
        if COMMIT in data:
            self._last, self._said = Request("commit", "", self._said), b""
        else:
            self._last = Request("statement", "", data)
        yield data, [self._last]
