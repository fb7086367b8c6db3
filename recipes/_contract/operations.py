"""The typed operations that programs are written in.

A program is a generator: it yields an operation and is sent the result, or the
failure is thrown in at that point. Operations read as calls::

    snapshot = yield from Enqueue(ticket, rule)

`StoreOp` is what a store does (each store's protocol has one method for each), the
others are done by the driver, without I/O. The union is closed: the
interpreter ends in ``assert_never``.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from recipes._record import record

if TYPE_CHECKING:
    from recipes._contract.contenders import Ahead, Contender
    from recipes._contract.rule import Rule
    from recipes._contract.wakeups import Event
    from recipes.guarantees import Guarantees


__all__ = [
    "Check",
    "Checked",
    "Confirm",
    "End",
    "Enqueue",
    "Entry",
    "Evict",
    "Guard",
    "List",
    "Listing",
    "Look",
    "Op",
    "Open",
    "Opened",
    "Probe",
    "Program",
    "Queues",
    "Read",
    "Renew",
    "Renewal",
    "Rewrite",
    "Settle",
    "Snapshot",
    "StoreOp",
    "Stored",
    "Ticket",
    "Watch",
    "Withdraw",
    "Write",
    "Written",
]

T = TypeVar("T")


class Op(Generic[T]):
    """One typed step of a program; ``result = yield from op``."""

    __slots__ = ()

    def __iter__(self) -> Generator[Any, Any, T]:
        result: T = yield self
        return result


Program = Generator[Op[Any], Any, T]


@record
class Ticket:
    """An attempt to join a queue, named before the store is asked; see `Contender` for the fields."""

    queue: str
    kind: str
    id: str
    owner: str = ""
    data: bytes = b""
    minds_marks: bool = False  # it has to be notified when a contender ahead is marked


@record
class Entry:
    """A ticket that the store has confirmed: where it stands, and its fencing token."""

    ticket: Ticket
    ref: str
    token: int


@record
class Guard:
    """A contender that has to be there at the moment of a write.

    Attributes:
        entry: Which, as it was created.
        unchanged: It must not have been rewritten since: a writer that downgraded guards no write that
            counts on nobody else.
    """

    entry: Entry
    unchanged: bool = False


@record
class Snapshot:
    """A queue as seen from one place, read no earlier than the operation was asked.

    Attributes:
        mine: The own entry; None if the own contender is not there any more.
        ahead: The nearest contenders ahead, nearest first: all that count, or at least
            ``rule.reach`` of them.
        complete: ``ahead`` shows everybody ahead who counts.
        position: How many are ahead who count for this recipe, as far as it is known.
        as_of: The store's revision at which this was read; 0 where there is none.
        due_s: Look again after so many seconds at the latest, whatever is notified; None: no need to.
        cheap: Looking again costs no more than to find the own entry alone, as has to be
            done after a wake-up anyway.
        by_time: Nobody is notified of what happens in this queue: those that wait look when that is due.
        to_confirm: A grant that follows from this has to be confirmed (`Confirm`).
    """

    mine: Entry | None
    ahead: Ahead
    complete: bool
    position: int
    as_of: int = 0
    cheap: bool = False
    due_s: float | None = None
    by_time: bool = False
    to_confirm: bool = False


@record
class Checked:
    """Which of those asked for are there as they were seen: the own one, and the references of others."""

    mine: bool
    present: frozenset[str]


@record
class Listing:
    """The head of a queue, first come first; everything is known of each contender.

    Attributes:
        contenders: So many as were asked for, or all.
        due_s: List again after so many seconds at the latest, whatever is notified; None: no need to.
    """

    contenders: tuple[Contender, ...]
    due_s: float | None = None


@record
class Stored:
    """A value as the store has it, read no earlier than the operation was asked.

    Attributes:
        data: What was written last; None: there is no value, or it was deleted.
        version: Of the last write. It rises with each, also over deletions; 0 where there is no value.
        due_s: Read again after so many seconds at the latest, whatever is notified; None: no need to.
    """

    data: bytes | None = None
    version: int = 0
    due_s: float | None = None


@record
class Written:
    """What came of a write.

    Attributes:
        done: Whether it was done, by this try or an earlier one. If not, it never will be.
        stored: The value as it is now, as far as the store has said: after a write that was done with its
            version, unless an earlier try did it; None: not known, read it.
        guarded: Whether the contenders that guard it were found to stand; if not, nothing was written.
    """

    done: bool
    stored: Stored | None = None
    guarded: bool = True


@record
class Opened:
    """A session as the store granted it: its id, and for how many seconds.

    Attributes:
        guarantees: What the store turned out to promise, where that is another than was known without I/O.
    """

    id: str
    ttl_s: float
    sent_at: float = 0.0  # stamped by the driver
    guarantees: Guarantees | None = None


@record
class Renewal:
    """A renewal that the majority confirmed, and those of the places named that it did not find."""

    ttl_s: float
    missing: tuple[Entry, ...] = ()


class StoreOp(Op[T]):
    """An operation that the store's protocol carries out, on the session of the call."""

    __slots__ = ()


@record
class Enqueue(StoreOp[Snapshot]):
    """Join the queue at its tail, once, however often it is asked."""

    ticket: Ticket
    rule: Rule


@record
class Probe(StoreOp["Snapshot | None"]):
    """Join only if that grants at once; None: somebody blocks, and nothing was written or will be.

    A snapshot that does not grant is one to withdraw after; so is one without an entry, for an earlier try
    may land yet. The probe itself withdraws nothing, as it may be asked again.
    """

    ticket: Ticket
    rule: Rule


@record
class Watch(StoreOp[bool]):
    """Watch these contenders, seen at ``as_of``; False if one is not there as it was seen (look again)."""

    mine: Entry
    targets: Ahead
    as_of: int = 0


@record
class Look(StoreOp[Snapshot]):
    """Arm the watches on these contenders and read the queue, in one round trip."""

    mine: Entry
    rule: Rule
    targets: Ahead


@record
class Check(StoreOp[Checked]):
    """Read the own contender and these others, nothing else.

    With ``evidence`` (the event that woke me) a store may answer from it where it is a
    proof. Without, the answer is linearizable and watches are armed again on what is
    there.
    """

    mine: Entry
    targets: Ahead = ()
    evidence: Event | None = None


@record
class Confirm(StoreOp[Snapshot]):
    """See to it that a grant, given by one server, is known to those that may take over.

    Before that, what it follows from (that another's session has ended) may be so on that server alone. The
    queue is read in the same step, by whichever server answers: it is granted if nobody blocks there.
    """

    mine: Entry
    rule: Rule


@record
class Withdraw(StoreOp[bool]):
    """Delete the own contender and no other; True if it was there.

    Without a ``entry`` the create may still be under way: it must not land later.
    """

    ticket: Ticket
    entry: Entry | None = None


@record
class Rewrite(StoreOp["int | None"]):
    """Write the mark and the data of the own contender, in place; name, place in the queue and token stay.

    Returns how often it was rewritten, this time included; None if it is gone, or if that number was
    another than ``version`` before. Without a ``version`` it is safe to ask again. With one, an answer
    that was lost shows as None: list, and see what is there.
    """

    entry: Entry
    mark: str
    data: bytes = b""
    version: int | None = None


@record
class List(StoreOp[Listing]):
    """Read a queue from its head on, so many contenders at most; nothing is written.

    With ``watch``, the first change of any kind after this (a contender that comes, goes, or is rewritten)
    is notified as ``Changed(queue)``, once; a queue that does not exist yet is watched too. Of contenders
    behind those asked for, a rewrite need not be notified.

    With ``kinds_only``, a contender of that queue asks what is ahead of it: reference, id and kind of each
    suffice (with the token where another may come to have that reference), no rewrite need be notified,
    and what is shown may lag as long as none that is ahead is missing. Where names tell that much
    (ZooKeeper) it is one read, and not one more for each contender.
    """

    queue: str
    most: int
    watch: bool = False
    kinds_only: bool = False


@record
class Queues(StoreOp[tuple[str, ...]]):
    """Read the encoded names of the queues in which anybody stands, so many at most."""

    most: int


@record
class Evict(StoreOp[bool]):
    """Delete somebody's contender, if it has still this token, and nobody else's; whether it was there."""

    queue: str
    ref: str
    token: int


@record
class Read(StoreOp[Stored]):
    """Read a value, linearizably.

    With ``watch``, its first change after this (it is written, deleted, or comes to be) is notified as
    ``Changed(key)``, or ``Gone(key)``, once.
    """

    key: str
    watch: bool = False


@record
class Write(StoreOp[Written]):
    """Write a value once, however often it is asked, and however late what was asked arrives.

    Raises ``SessionLost`` only where nothing of it was done, or will be; else `OutcomeUnknown`.

    Attributes:
        key: Where, as `queue_of` names it.
        data: What; None: delete it.
        number: Which write of the session this is: no other to this key has the same.
        if_version: The version that it must have now; 0: there must be none; None: whatever there is.
        guards: What has to be there at the moment of the write.
    """

    key: str
    data: bytes | None
    number: int
    if_version: int | None = None
    guards: tuple[Guard, ...] = ()


@record
class Settle(StoreOp[bool]):
    """See to it that a write that was given up is not done from here on; whether it was done before."""

    write: Write


@record
class Open(StoreOp[Opened]):
    """Start a session of this length (seconds)."""

    ttl_s: float


@record
class Renew(StoreOp[Renewal]):
    """Renew the session, with the majority's word, and look after the held entries.

    A store that leases each contender by itself renews those in ``waiting`` too, and those in ``resting``,
    which are held and not due to be looked at; one that notifies nobody looks after the former. Others leave
    these alone. Asked once, not again: the session's clock plans the next try.
    """

    entries: tuple[Entry, ...]
    within_s: float
    waiting: tuple[Entry, ...] = ()
    resting: tuple[Entry, ...] = ()


@record
class End(StoreOp[None]):
    """End the session on the store; its contenders go with it."""
