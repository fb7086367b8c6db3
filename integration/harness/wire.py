"""What passes through the proxy, taken apart: which bytes are which request, and which reply answers it.

A ``Wire`` reads along on one connection. It gives back the very bytes it was given, cut
where a message ends, so that a proxy can pass everything on and still withhold exactly
one reply. It never holds back what it cannot yet read, except a part of a frame of
ZooKeeper or HTTP/2, of which no reader could make anything anyway.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

__all__ = ["Match", "Raw", "Request", "Wire", "matching"]


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """One thing a client asked.

    ``label`` is what counters count by and what ``matching`` compares: the path of an HTTP
    request (of a call by gRPC, the one that the gateway has for it), that path and `` chunk``
    for a message on its stream, the name of a ZooKeeper operation. ``path`` is the path of
    the URL or of the node, ``body`` the body or the whole frame.
    """

    label: str
    path: str
    body: bytes


Match = Callable[[Request], bool]


def matching(label: str, containing: str | bytes = b"") -> Match:
    """Return a judge of requests: the label ends so (``kv/txn``), and the body has that in it."""
    needle = containing.encode() if isinstance(containing, str) else containing
    return lambda request: request.label.endswith(label) and needle in request.body


class Wire(ABC):
    """Reads along on one connection."""

    @abstractmethod
    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        """Take what the client sent; yield it in pieces, each with the requests that are complete in it."""

    @abstractmethod
    def received(self, data: bytes) -> Iterator[tuple[bytes, list[Request | None]]]:
        """Take what the server sent; yield it in pieces, each with what it begins to answer.

        None stands for a message nobody asked for: an event.
        """

    def tells(self, piece: bytes, answered: list[Request | None]) -> bool:
        """Whether a piece from the server is an event of a watch, and nothing else."""
        return answered == [None]


class Raw(Wire):
    """No messages, only bytes: each read from the client is a request, and what comes next its reply."""

    def __init__(self) -> None:
        self._last: Request | None = None

    def sent(self, data: bytes) -> Iterator[tuple[bytes, list[Request]]]:
        self._last = Request("bytes", "", data)
        yield data, [self._last]

    def received(self, data: bytes) -> Iterator[tuple[bytes, list[Request | None]]]:
        answered, self._last = self._last, None
        yield data, [answered]
