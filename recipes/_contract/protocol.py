"""The protocol of a store: one method for each store operation, each a pure generator.

A method yields requests of its backend (and `Batch`) and is sent their replies. It
decides what a lost reply, an owner, an order or a tombstone means. One instance serves
one session, from `open` on.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from recipes._contract.connection import Mailbox, Request
from recipes._contract.operations import (
    Check,
    Checked,
    Confirm,
    End,
    Enqueue,
    Evict,
    List,
    Listing,
    Look,
    Open,
    Opened,
    Probe,
    Queues,
    Read,
    Renew,
    Renewal,
    Rewrite,
    Settle,
    Snapshot,
    Stored,
    StoreOp,
    Watch,
    Withdraw,
    Write,
    Written,
)
from recipes._record import record

__all__ = ["MOST_TOLD", "Notices", "RequestContext", "Steps", "StoreProtocol"]

T = TypeVar("T")
Steps = Generator[Request[Any], Any, T]
MOST_TOLD = 1000  # what others put among contenders has no end


@record
class RequestContext:
    """The circumstances of an operation.

    Attributes:
        mailbox: Where the events of watches go.
        again: The operation was tried before, and it is not known what came of it.
    """

    mailbox: Mailbox
    again: bool = False


class Notices:
    """What an operator should know of, each thing once; safe from any thread."""

    def __init__(self) -> None:
        self._known: set[object] = set()
        self._new: deque[str] = deque()

    def add(self, what: object, said: str) -> None:
        """Note what is ``said``, unless that was done for ``what`` before."""
        if what not in self._known and len(self._known) < MOST_TOLD:
            self._known.add(what)
            self._new.append(said)

    def take(self) -> list[str]:
        """Return what is new, and forget it."""
        told = []
        with contextlib.suppress(IndexError):  # several threads may ask at once
            while True:
                told.append(self._new.popleft())
        return told


class StoreProtocol(ABC):
    """What every store can do; results and meaning as the operations say.

    Any method may raise ``StoreUnavailable`` (ask again), ``SessionLost`` (the session has
    ended on the store), and other ``StoreError``.

    Attributes:
        renewals_per_ttl: How many renewals are due within one TTL.
        renewal_lag: By what share of the TTL the store may be behind (see `SessionClock`).
        renews_on_a_beat: It costs less to renew the sessions of many clients at once than one by one.
        hands_on: A contender that was released need not be gone before the client's own next one holds:
            its place in the queue is all that it needs.
        ended_is_no: That the session has ended says of a request that it was not carried out; else it may
            have been.
        settles_elsewhere: What settles a write may be asked on the connection of the client's next session:
            each request says whose write it is.
        session_id: The session's id as contenders show it; empty before `open`.
        lives_on: The session was ended here, and may live on for its time: the store has not confirmed it.
    """

    renewals_per_ttl: ClassVar[int] = 3
    renewal_lag: ClassVar[float] = 0.0
    renews_on_a_beat: ClassVar[bool] = False
    hands_on: ClassVar[bool] = False
    ended_is_no: ClassVar[bool] = True
    settles_elsewhere: ClassVar[bool] = False
    session_id: str = ""
    lives_on: bool = False

    def start(self, op: StoreOp[T], context: RequestContext) -> Steps[Any]:  # noqa: PLR0911, PLR0912 - one for each operation
        """Return the generator that carries out ``op``."""
        known: Any = op
        match known:
            case Enqueue():
                return self.enqueue(known, context)
            case Look():
                return self.look(known, context)
            case Withdraw():
                return self.withdraw(known, context)
            case Watch():
                return self.watch(known, context)
            case Check():
                return self.check(known, context)
            case Probe():
                return self.probe(known, context)
            case Renew():
                return self.renew(known, context)
            case Rewrite():
                return self.rewrite(known, context)
            case Write():
                return self.write(known, context)
            case Read():
                return self.read(known, context)
            case Settle():
                return self.settle(known, context)
            case Confirm():
                return self.confirm(known, context)
            case Open():
                return self.open(known, context)
            case List():
                return self.listing(known, context)
            case Evict():
                return self.evict(known, context)
            case Queues():
                return self.queues(known, context)
            case End():
                return self.end(known, context)
            case _:
                raise AssertionError(f"{op!r} should be an operation of a store")

    def noticed(self) -> Iterable[str]:
        """Return what stands among contenders and an operator should know of; each is reported once."""
        return self._notices.take()

    @cached_property
    def _notices(self) -> Notices:
        """Where a protocol notes it."""
        return Notices()

    @abstractmethod
    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Start a session."""

    @abstractmethod
    def renew(self, op: Renew, context: RequestContext) -> Steps[Renewal]:
        """Renew it, with the majority's word, and look after the held entries."""

    @abstractmethod
    def end(self, op: End, context: RequestContext) -> Steps[None]:
        """End it on the store."""

    @abstractmethod
    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Join the queue, once."""

    @abstractmethod
    def probe(self, op: Probe, context: RequestContext) -> Steps[Snapshot | None]:
        """Join only if that grants at once."""

    @abstractmethod
    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Watch contenders, and say whether all are there as they were seen."""

    @abstractmethod
    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Watch, and read the queue no earlier."""

    @abstractmethod
    def check(self, op: Check, context: RequestContext) -> Steps[Checked]:
        """Read the own contender and a few others."""

    def confirm(self, op: Confirm, context: RequestContext) -> Steps[Snapshot]:
        """Have a grant outlast the server that gave it: nothing to do, unless another may not know of it."""
        del context
        yield from ()
        return Snapshot(op.mine, (), complete=True, position=0)

    @abstractmethod
    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Delete the own contender; leave nothing that could land late."""

    @abstractmethod
    def rewrite(self, op: Rewrite, context: RequestContext) -> Steps[int | None]:
        """Write the own contender's mark and data, in place; None if it is gone or not as expected."""

    @abstractmethod
    def evict(self, op: Evict, context: RequestContext) -> Steps[bool]:
        """Delete another's contender, guarded by its token."""

    @abstractmethod
    def listing(self, op: List, context: RequestContext) -> Steps[Listing]:
        """Read a queue from its head on, and watch it if asked to."""

    @abstractmethod
    def read(self, op: Read, context: RequestContext) -> Steps[Stored]:
        """Read a value, and watch it if asked to."""

    @abstractmethod
    def write(self, op: Write, context: RequestContext) -> Steps[Written]:
        """Write a value, once."""

    @abstractmethod
    def settle(self, op: Settle, context: RequestContext) -> Steps[bool]:
        """See to it that a write that was given up does not land later; whether it had landed."""

    @abstractmethod
    def queues(self, op: Queues, context: RequestContext) -> Steps[tuple[str, ...]]:
        """Read the names of queues in which anybody stands."""
