"""The program that writes what a held contender says, in place: its mark and its data."""

from __future__ import annotations

from recipes._contract.contenders import Contender
from recipes._contract.deadline import Expired
from recipes._contract.operations import List, Listing, Program, Rewrite
from recipes._programs.hold import REMOVED, HeldState
from recipes._programs.queueing import _unanswered, report_loss
from recipes._programs.steps import Abandon
from recipes.errors import SessionLost

__all__ = ["rewrite"]


def rewrite(hold: HeldState, mark: str | None, data: bytes | None, most: int) -> Program[bool]:
    """Have a held contender say this; False: it is lost, and nothing was written.

    Each write compares how often the contender was written before. So one that was given up without an
    answer can never land behind a later one, which first reads how often that was: either the one that was
    given up had landed by then, or the number that it compares is over once the later one lands.

    Args:
        hold: What is held.
        mark: Its recipe's state; None: as it is, whatever another call writes at the same time.
        data: What its user says; None: as it is.
        most: Among how many, from the head of the queue on, its contender is to be found.
    """
    try:
        while True:
            before, hold.version = hold.version, None
            if before is None:
                own = yield from _own(hold, most)
                if own is None:
                    break
                if _knows(hold, own.version):
                    continue  # another call has noted it, or a later one, since this was read
                before, hold.version, hold.mark, hold.data = own.version, None, own.mark, own.data
            says = hold.mark if mark is None else mark, hold.data if data is None else data
            written = yield from Rewrite(hold.entry, *says, before)
            if written is None:  # gone, or written in between, or the answer was lost
                own = yield from _own(hold, most)
                if own is None:
                    break
                written = own.version
                if written != before + 1 or (own.mark, own.data) != says:
                    if not _knows(hold, written):
                        hold.version, hold.mark, hold.data = written, own.mark, own.data
                    continue
            _note(hold, says, written)
            return True
    except SessionLost:
        return False
    except Expired as expired:
        raise _unanswered(expired) from None
    if hold.lose(REMOVED):
        yield from report_loss(hold)
        yield from Abandon(hold.entry.ticket, hold.entry)
    return False


def _note(hold: HeldState, says: tuple[str, bytes], version: int) -> None:
    """Keep what was written, unless the answer to a later write came before this one."""
    if not _knows(hold, version):
        hold.mark, hold.data = says
        hold.version = version


def _knows(hold: HeldState, version: int) -> bool:
    """Whether what this version says, or a later one, was noted."""
    return hold.version is not None and hold.version >= version


def _own(hold: HeldState, most: int) -> Program[Contender | None]:
    """Return the own contender as the store shows it; None: it is not there."""
    listing: Listing = yield from List(hold.entry.ticket.queue, most)
    mine = hold.entry
    return next((one for one in listing.contenders if (one.ref, one.token) == (mine.ref, mine.token)), None)
