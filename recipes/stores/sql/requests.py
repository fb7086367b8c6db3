"""What a database is asked: acts, each one transaction of statements; and to listen."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from recipes._contract.connection import Mailbox, Request
from recipes._contract.wakeups import Changed, Gone
from recipes._record import record

__all__ = ["Act", "Ask", "Listen", "Transact", "Work"]

T = TypeVar("T")


@record
class Ask:
    """One statement of an act, with its values; the reply is its rows, or how many it changed.

    Attributes:
        statement: As SQLAlchemy has it.
        values: By the names of its parameters.
    """

    statement: Any
    values: dict[str, Any]


@dataclass(slots=True)
class Work:
    """One run of an act.

    Attributes:
        starting_until_us: Until when, by the server's clock, nothing is granted.
        server: Which server that was found out of; None: any.
        grace_us: How long that is at most.
        news: What the calls of this very session are notified of once it is committed.
        undo: It is not committed, but rolled back.
        started: It has seen that the server grants again.
    """

    starting_until_us: int = 0
    server: str | None = None
    grace_us: int = 0
    news: list[Gone | Changed] = field(default_factory=list)
    undo: bool = False
    started: bool = False


Act = Callable[[Work], Generator[tuple[Ask, ...], list[Any], T]]
"""Begins a run: a pure generator that yields statements to carry out together, and is sent the replies.

It is begun again if the database says that the transaction was not done.
"""


@record
class Transact(Request[Any]):
    """Carry out an act in one transaction, which is READ COMMITTED; the reply is what the act returns.

    Attributes:
        act: What to do.
        reads: Its statements only read, and each may see more than the one before: no transaction is needed.
        joins: It may wait for others: what renews and releases does not wait behind it.
        session: It is about the session: it waits behind nothing else.
        channel: What the session is notified on, from its beginning on; only with what begins it.
        quick: The same in one step, to try first where the server can be sent a whole act; it reads what
            the last of its statements finds, whole numbers, and returns None if there is more to do.
        behind_s: It has so many seconds, and nobody waits for it: the reply is None at once, whatever comes
            of it. 0: it is waited for.
    """

    act: Act[Any]
    reads: bool = False
    joins: bool = False
    session: bool = False
    channel: str = ""
    quick: Act[Any] | None = None
    behind_s: float = 0.0


@record
class Listen(Request[bool]):
    """Have ``mailbox`` notified of ``refs`` from here on, also of what arrived a moment ago.

    Nothing is sent. The reply says whether the server notifies this session; if not, look again in time.

    Attributes:
        refs: Contenders, or the queue.
        mailbox: Which is notified.
        afresh: They are looked at after this: what arrived earlier does not count.
    """

    refs: tuple[str, ...]
    mailbox: Mailbox
    afresh: bool = False
