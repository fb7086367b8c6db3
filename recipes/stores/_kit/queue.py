"""The protocol of queue stores: those that carry out an operation on a whole queue in one step.

The step is a transaction, a script, or what a lock in memory guards. Nothing is translated: the operation
is the request, and the store answers with what the operation returns. It does three things besides:

* `Enqueue` also watches, in the same step, those that `watched_on_joining` names. So the `Watch` that
  follows, and the `Look` of a contender that moves up, have nothing to write.
* A write is a `Put`, with a receipt: see `recipes.stores.receipts`.
* What an operation watches is noted before the step ends: no change comes in between.
"""

from __future__ import annotations

from typing import Any, ClassVar

from recipes._contract.connection import Mailbox, Request
from recipes._contract.contenders import Ahead
from recipes._contract.operations import (
    Enqueue,
    Evict,
    Look,
    Op,
    Open,
    Opened,
    Settle,
    Snapshot,
    Ticket,
    Watch,
    Withdraw,
    Write,
    Written,
)
from recipes._contract.protocol import RequestContext, Steps, StoreProtocol
from recipes._contract.rule import Rule
from recipes._record import record
from recipes.stores.receipts import Exchange, Exchanged, Receipts, settle_once, write_once

__all__ = [
    "ENDED",
    "Command",
    "Put",
    "QueueProtocol",
    "is_queue",
    "kind_of",
    "ref_of",
    "target_of",
    "watched_on_joining",
]

ENDED = "the session has ended on the store"


@record
class Command(Request[Any]):
    """An operation as it is, carried out whole or not at all.

    The reply is what the operation returns; ``SessionLost`` is raised if the session has ended.

    Attributes:
        op: The operation.
        session: The id of the session that asks. For `Open` the id that was chosen for it; empty if
            the store chooses.
        mailbox: Where the events of watches go.
        again: It was asked before, and it is not known what came of it.
        promised: The session is notified of the targets in any case: nothing has to be written.
    """

    op: Op[Any]
    session: str
    mailbox: Mailbox
    again: bool = False
    promised: bool = False


@record
class Put(Op[Exchanged]):
    """Write a value and its receipt in one step; that of the session which asks.

    Attributes:
        exchange: What to write.
        spent: Receipts of the session to delete, each by its key and the version that it must have.
    """

    exchange: Exchange
    spent: tuple[tuple[str, int], ...] = ()

    def fits(self, receipt: int, version: int, *, guarded: bool) -> bool:
        """Whether all is as expected: the versions of receipt and value, and that the guards stand."""
        put = self.exchange
        return receipt == put.expected and (
            put.settles or (guarded and put.write.if_version in (None, version))
        )


def kind_of(ticket: Ticket) -> str:
    """Return the kind that a store notes: a plain lock excludes as a writer does."""
    return "W" if ticket.kind == "lock" else ticket.kind


def ref_of(queue: str, token: int) -> str:
    """Return the reference of a contender; that of a queue is its name."""
    return f"{queue}/{token}"


def target_of(ref: str) -> tuple[str, int]:
    """Return the queue and the token of the contender that a reference names."""
    queue, _, token = ref.rpartition("/")
    return queue, int(token)


def is_queue(ref: str) -> bool:
    """Whether a reference names a queue: names of recipes' queues have one slash, and no other has any."""
    return ref.count("/") == ref.startswith("~")


def watched_on_joining(rule: Rule, ahead: Ahead, session: str) -> tuple[Ahead, Ahead]:
    """Return the contenders that one which joins behind these watches at once, and those it watches next.

    Those of its own session are not among them: the client notifies itself.
    """
    now, later = (
        tuple(contender for contender in some if contender.session != session)
        for some in (rule.targets(ahead), rule.blockers(ahead))
    )
    return now, later


class QueueProtocol(StoreProtocol):
    """One session with a queue store.

    Args:
        session_id: Chosen before the store is asked, so that the session can be ended if the reply is
            lost. Empty: the store chooses it.
    """

    hands_on: ClassVar[bool] = True

    def __init__(self, session_id: str = "") -> None:
        self.session_id = session_id
        self._armed: dict[str, frozenset[str]] = {}  # by the contender's id: what joining watched,
        self._promised: dict[str, frozenset[str]] = {}  # and that with what it watches next
        self._receipts = Receipts()

    def open(self, op: Open, context: RequestContext) -> Steps[Opened]:
        """Start a session."""
        opened: Opened = yield from self._pass_on(op, context)
        self.session_id = opened.id
        return opened

    def enqueue(self, op: Enqueue, context: RequestContext) -> Steps[Snapshot]:
        """Join the queue, once, and watch what blocks."""
        snapshot: Snapshot = yield from self._pass_on(op, context)
        now, later = watched_on_joining(op.rule, snapshot.ahead, self.session_id)
        armed = frozenset(contender.ref for contender in now)
        self._armed[op.ticket.id] = armed
        self._promised[op.ticket.id] = armed.union(contender.ref for contender in later)
        return snapshot

    def watch(self, op: Watch, context: RequestContext) -> Steps[bool]:
        """Watch, unless joining has done so; once, for a watch notifies once."""
        armed = self._armed.pop(op.mine.ticket.id, frozenset())
        if all(target.ref in armed for target in op.targets):
            return True
        return (yield from self._pass_on(op, context))  # type: ignore[no-any-return]

    def look(self, op: Look, context: RequestContext) -> Steps[Snapshot]:
        """Watch and read in one step."""
        self._armed.pop(op.mine.ticket.id, None)
        promised = self._promised.pop(op.mine.ticket.id, frozenset())
        known = all(target.ref in promised for target in op.targets)
        return (yield from self._pass_on(op, context, promised=known))  # type: ignore[no-any-return]

    def withdraw(self, op: Withdraw, context: RequestContext) -> Steps[bool]:
        """Delete the own contender; asked again, the first try may have done it."""
        self._armed.pop(op.ticket.id, None)
        self._promised.pop(op.ticket.id, None)
        removed: bool = yield from self._pass_on(op, context)
        return removed or context.again

    def evict(self, op: Evict, context: RequestContext) -> Steps[bool]:
        """Delete another's contender; asked again, the first try may have done it."""
        removed: bool = yield from self._pass_on(op, context)
        return removed or context.again

    def write(self, op: Write, context: RequestContext) -> Steps[Written]:
        """Write with a receipt; a copy of it may arrive late."""
        again = context.again
        written = yield from write_once(self._receipts, op, lambda put: self._put(put, context), again=again)
        return written

    def settle(self, op: Settle, context: RequestContext) -> Steps[bool]:
        """Write the receipt alone."""
        return (yield from settle_once(self._receipts, op.write, lambda put: self._put(put, context)))

    def _put(self, exchange: Exchange, context: RequestContext) -> Steps[Exchanged]:
        return (yield from self._pass_on(Put(exchange, self._receipts.surplus()), context))  # type: ignore[no-any-return]

    def _pass_on(self, op: Op[Any], context: RequestContext, *, promised: bool = False) -> Steps[Any]:
        return (yield Command(op, self.session_id, context.mailbox, context.again, promised))

    renew = end = probe = check = rewrite = listing = queues = read = _pass_on
