"""Receipts: how a session knows whether a write was done, though its answer was lost.

Beside each value that a session writes, the store keeps a *receipt*: one for each session and value, which
goes with the session. Every write replaces the receipt in the same step in which it writes the value, and
compares the receipt's version with the last that this session knows. So of several copies of a request one
is done at most: the others find another version, however late they arrive.

A receipt lists the numbers of the writes that were done and whose callers may not know it yet. A write
whose comparison fails reads it: its own number is there, and it was done; or it is not, and no copy that
compared an older version will ever be done.

What was given up is settled by writing the receipt alone: its version rises, and no copy lands from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from recipes._contract.operations import Stored, Write, Written
from recipes._contract.protocol import Steps
from recipes._record import record
from recipes.errors import StoreError

__all__ = ["Exchange", "Exchanged", "Receipts", "settle_once", "write_once"]


@record
class Exchange:
    """A write with its receipt, to be done in one step if all is as expected.

    Attributes:
        write: What to write; the value is left as it is if this ``settles``.
        expected: The version that the receipt must have; 0: there must be none.
        receipt: What to write into it.
        settles: It is the receipt alone that is written, whatever the value is.
    """

    write: Write
    expected: int
    receipt: bytes
    settles: bool = False


@record
class Exchanged:
    """What came of it.

    Attributes:
        done: Whether both were written.
        version: The version of the receipt now; 0: there is none.
        receipt: What it says now.
        stored: The value now, as far as the answer says so.
        guarded: Whether all guards stood.
    """

    done: bool
    version: int
    receipt: bytes
    stored: Stored | None = None
    guarded: bool = True


@record
class Receipt:
    """What a session knows of the receipt of one value.

    Attributes:
        version: As the store counts it; 0: there is none.
        done: The numbers that it lists.
    """

    version: int = 0
    done: frozenset[int] = frozenset()

    @property
    def text(self) -> bytes:
        """What it says."""
        return _listed(self.done)


NONE = Receipt()
MOST_KEPT = 1000
"""So many receipts of a session a store keeps that may delete the others."""
MOST_KNOWN = 10_000
"""Of so many values a session remembers the receipt; what it has forgotten it finds out by one try more."""


class Receipts:
    """The receipts of one session; several threads may share them without a lock.

    Each step is one operation on a dict. Of what two threads note at the same time the older may stay:
    the comparison on the store finds out.
    """

    def __init__(self) -> None:
        self._known: dict[str, Receipt] = {}
        self._asking: dict[tuple[str, int], None] = {}

    def begin(self, write: Write) -> None:
        """A write is under way, until `end`: that it was done is not forgotten."""
        self._asking[write.key, write.number] = None

    def end(self, write: Write) -> None:
        """The write was answered, or settled: nobody asks any more whether it was done."""
        self._asking.pop((write.key, write.number), None)

    def known(self, key: str) -> Receipt:
        """Return the receipt of a value as this session knows it."""
        return self._known.get(key, NONE)

    def asked(self) -> list[str]:
        """Return the values of which a write is under way; there may be no receipt yet."""
        return list(dict.fromkeys(key for key, _ in self._asking.copy()))

    def settled(self) -> list[str]:
        """Return the values whose receipts are known, and none of whose writes is under way."""
        asked = set(self.asked())
        return [key for key in self._known.copy() if key not in asked]

    def surplus(self, at_once: int = 2) -> tuple[tuple[str, int], ...]:
        """Forget the oldest once there are so many more than `MOST_KEPT`; returns which, and their versions.

        For a store on which no copy of a settled write can arrive: it may delete these, if they have that
        version. What is written there next finds out by one try more.
        """
        if len(self._known) < MOST_KEPT + at_once:
            return ()
        asked, taken = set(self.asked()), []
        for key in list(self._known)[:at_once]:
            known = NONE if key in asked else self._known.pop(key, NONE)
            if known.version:
                taken.append((key, known.version))
        return tuple(taken)

    def exchange(self, write: Write, known: Receipt, *, settles: bool = False) -> Exchange:
        """Return what to ask, in place of a receipt as it is ``known``."""
        asking = self._asking
        done = {one for one in known.done if (write.key, one) in asking}
        if not settles:
            done.add(write.number)
        return Exchange(write, known.version, _listed(done), settles)

    def note(self, key: str, found: Exchanged) -> Receipt:
        """Note the receipt as it is in the store, and return it."""
        done = frozenset(map(int, found.receipt.split()))
        self._known.pop(key, None)
        self._known[key] = now = Receipt(found.version, done) if found.version else NONE
        if len(self._known) > MOST_KNOWN:
            for oldest in list(self._known)[: MOST_KNOWN // 10]:
                self._known.pop(oldest, None)
        return now


def _listed(numbers: Iterable[int]) -> bytes:
    return b" ".join(b"%d" % one for one in sorted(numbers))


def write_once(
    receipts: Receipts,
    write: Write,
    ask: Callable[[Exchange], Steps[Exchanged]],
    *,
    again: bool,
    copies: bool = True,
) -> Steps[Written]:
    """Carry out a write.

    Args:
        receipts: Those of the session.
        write: What to write.
        ask: Carries out an `Exchange`.
        again: It was asked before, and it is not known what came of it.
        copies: The way there may deliver a request a second time, when it was answered.
    """
    # Of all versions only this one comes back: a copy would be done when the value is gone.
    open_later = copies and write.if_version == 0
    receipts.begin(write)
    known = receipts.known(write.key)
    while write.number not in known.done:  # by an earlier try, it may be; another write has read it then
        before = known
        try:
            found = yield from ask(receipts.exchange(write, known))
        except StoreError as error:
            if not again and getattr(error, "unsent", True):  # nothing of it was done, or will be
                receipts.end(write)
            raise
        known = receipts.note(write.key, found)
        if found.done:
            receipts.end(write)
            return Written(done=True, stored=found.stored)
        if known != before:
            continue  # another write of this session was quicker, or an earlier try
        may_land = again or open_later  # an earlier try, or a copy
        if may_land and (yield from settle_once(receipts, write, ask)):
            break
        receipts.end(write)
        return Written(done=False, stored=found.stored, guarded=found.guarded)
    receipts.end(write)
    return Written(done=True)


def settle_once(receipts: Receipts, write: Write, ask: Callable[[Exchange], Steps[Exchanged]]) -> Steps[bool]:
    """See to it that no copy of a write lands from here on; whether one has landed."""
    known = receipts.known(write.key)
    while write.number not in known.done:  # else the others cannot land: the version has risen
        found = yield from ask(receipts.exchange(write, known, settles=True))
        known = receipts.note(write.key, found)
        if found.done:
            break
    receipts.end(write)
    return write.number in known.done
