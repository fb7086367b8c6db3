"""What a store has to be: the seam between protocols, transports and drivers.

A store is three parts, and only the last does I/O.

*Requests* are frozen values, one for each thing the backend can be asked. A
*protocol* turns an operation of ``recipes._contract.operations`` into a generator over
requests: it is sent each reply, and decides. A *transport* carries requests out
over *connections*. A connection belongs to one session of one client and asks one request at
a time for each caller, from as many threads (or tasks) as like:

* ``ask`` returns the reply within ``timeout_s`` seconds or raises. It never waits
  longer, whatever the network does.
* No answer (refused, reset, cut, silent) is ``StoreUnavailable``. The request may
  have been carried out, or may yet be: the protocols are made for that.
* An answer that the backend calls an error is the backend's own exception, declared
  beside its requests; a protocol handles those it expects.
* A ``Batch`` is sent back to back, in order. Its reply is a tuple with one reply for
  each part, where an exception stands for the part that failed.
* A request that watches names a mailbox. The connection posts ``Gone`` or ``Changed`` to it
  with the reference that was watched, at most once for each arming, and ``Disturbed``
  whenever events may have been missed (connection lost, watch cancelled, compaction).
  ``forget`` ends whatever that mailbox still watches.
* ``on_end`` is called at most once, from any thread, when the connection knows that the
  store has ended its session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, Protocol, TypeVar

from recipes._contract.wakeups import Event
from recipes._record import record

__all__ = ["AsyncConnection", "Batch", "Connection", "Mailbox", "Request", "parts_of"]

T = TypeVar("T")


class Mailbox(Protocol):
    """Where a call in progress receives events; one a call, made by the driver.

    One with a ``source`` is of a thread that can read for itself as it waits: a connection may set that
    to what waits for an event by reading it (see ``ThreadMailbox`` in ``recipes._run.blocking``).
    """

    def post(self, event: Event) -> None:
        """Deliver ``event``; callable from any thread, never blocks."""

    def clear(self) -> None:
        """Forget what has come so far; called by the one that receives."""


class Request(Generic[T]):
    """One thing asked of a backend; ``reply = yield from request`` in a protocol."""

    __slots__ = ()

    def __iter__(self) -> Generator[Any, Any, T]:
        reply: T = yield self
        return reply


@record
class Batch(Request[tuple[Any, ...]]):
    """Requests sent back to back; an exception stands for a part that failed."""

    parts: tuple[Request[Any], ...]


def parts_of(request: Request[Any]) -> tuple[Request[Any], ...]:
    """Return what a request is as a part of a larger batch; nothing: it has to be asked alone.

    Those that are about one ``path`` of the backend can be sent together. Others are about the session, or
    carry out a whole operation in one step.
    """
    if isinstance(request, Batch):
        return request.parts
    return (request,) if hasattr(request, "path") else ()


class Connection(Protocol):
    """The blocking way to the store, for one session."""

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""

    def close(self) -> None:
        """Let go of the sockets and threads of this connection, within a second; never raises."""


class AsyncConnection(Protocol):
    """The asyncio way to the store: a ``Connection`` whose ``ask`` and ``close`` are awaited."""

    def for_another_loop(self) -> AsyncConnection | None:
        """Return the same way for another loop, if there can be one; when its own is gone."""

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""

    async def close(self) -> None:
        """Let go of the sockets and tasks of this connection, within a second; never raises."""


OnEnd = Callable[[str], None]
