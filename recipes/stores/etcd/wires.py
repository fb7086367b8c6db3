"""What the two ways to speak with etcd have in common: its gateway's JSON, and its own gRPC.

A connection, blocking or of asyncio, has a `Line`, which turns calls into bytes and bytes into replies; the
stream of all watches is a `Channel`. Neither does I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from recipes.stores.addresses import Endpoint

__all__ = [
    "LOGIN",
    "Authorization",
    "Call",
    "Channel",
    "Line",
    "RefusedError",
    "Reply",
    "Speaker",
    "Wire",
    "WireError",
]

Json = Mapping[str, Any]
Call = tuple[str, Any]
"""A path and a document, as `requests.Post` has them."""

Authorization = Callable[[], str | None]
"""Gives the token that the next request bears, or None; neither blocks nor raises."""

LOGIN = "/auth/authenticate"
"""The path of the one call that carries no token: etcd 3.4 refuses a login that comes with an old one."""


class WireError(Exception):
    """What arrived is no complete reply; the sentence says what it was."""


class RefusedError(Exception):
    """The watch request was answered with an HTTP error."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(slots=True)
class Reply:
    """One reply, whole.

    Attributes:
        status: The status code, of HTTP or of gRPC.
        reason: The words with it.
        body: The body, or the message.
    """

    status: int
    reason: str
    body: bytes


class Line(Protocol):
    """One connection's state: calls in, bytes out; bytes in, replies out."""

    @property
    def answered(self) -> bool:
        """Whether the server has said something that it says in this protocol only."""
        ...

    @property
    def usable(self) -> bool:
        """Whether it may carry another call."""
        ...

    @property
    def owes(self) -> bool:
        """Whether a reply is still to come, be it one that may carry no other call."""
        ...

    @property
    def chatty(self) -> bool:
        """Whether the server may say something that is no reply: news while it is idle are no bad sign."""
        ...

    def ask(self, calls: Sequence[Call], token: str | None) -> bytes:
        """Return what to send for ``calls``, back to back."""
        ...

    def feed(self, data: bytes) -> list[Reply]:
        """Return the replies that are complete now, in the order of their calls; ``b""`` is the end.

        Raises:
            WireError: This is no reply, or not all of it; the connection is of no more use.
        """
        ...

    def more(self) -> bytes:
        """Return what else is to be sent now, before what is owed can come."""
        ...


class Channel(Protocol):
    """The messages of watches on one connection; the multiplexer fills ``outbox``, the API sends it.

    Attributes:
        endpoint: The server that the connection goes to.
        outbox: What is still to be sent; the API that sends it takes it out.
        live: False once the multiplexer has no more use for it.
    """

    endpoint: Endpoint
    outbox: bytearray
    live: bool

    def say(self, message: dict[str, Any]) -> None:
        """Queue one message."""
        ...

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the documents in what arrived, each with a ``result`` or an ``error``.

        Raises:
            WireError: The stream is over (``b""`` is the end of the connection) or no stream.
            RefusedError: The reply was an HTTP error.
        """
        ...


class Speaker(Protocol):
    """What is spoken with one server."""

    def line(self) -> Line:
        """Return the state of a new connection."""
        ...

    def meaning(self, path: str, reply: Reply) -> Json:
        """Return the document that ``reply`` has, or raise the error that it stands for."""
        ...


class Wire(Protocol):
    """One of the two ways."""

    def speaker(self, endpoint: Endpoint) -> Speaker:
        """Return what is spoken with a server."""
        ...

    def channel(self, endpoint: Endpoint, token: str | None, only: dict[str, Any] | None = None) -> Channel:
        """Return a new stream of watches: for many messages, or (around a proxy) with ``only`` one."""
        ...
