"""The cleaner: withdraws, for certain, what interrupted calls left behind.

A call that is cancelled leaves at once; its ticket comes here. A job is done when the
store has confirmed it, or when the session it belongs to has ended on the store: then
nothing of it is left to withdraw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recipes._contract.deadline import Expired
from recipes._contract.operations import End, Entry, Program, Settle, Ticket, Withdraw, Write
from recipes._contract.wakeups import Disturbed
from recipes._programs.steps import Emit, Now, Wait
from recipes._record import record
from recipes.errors import SessionLost, StoreError
from recipes.events import Transition

if TYPE_CHECKING:
    from recipes._programs.hold import StoreSession

__all__ = ["Job", "clean", "rest"]

REFUSED_PAUSE_S = 1.0
"""After so long what was refused is tried again, all of it; other jobs do not wait for that."""


@record
class Job:
    """One thing to settle.

    Attributes:
        session: The session it belongs to.
        ticket: What to withdraw.
        entry: Where the ticket stands, if the store has said so.
        within_s: How long to try to end a session; None: as long as it may live.
        write: What was given up, and may land later. Without it and a ticket the session is to be ended.
    """

    session: StoreSession
    ticket: Ticket | None
    entry: Entry | None = None
    within_s: float | None = None
    write: Write | None = None

    @property
    def ends_session(self) -> bool:
        """Whether it is the whole session that is to be ended."""
        return self.ticket is None and self.write is None


def clean(job: Job) -> Program[bool]:
    """Do one job; returns whether it is done, or was refused, and has to be tried again later.

    A ticket or a write has no deadline: it is settled, or its session ends. To end a session there
    is as much time as it is long: after that it has ended by itself, since nobody
    renews it.
    """
    try:
        if job.write is not None:
            yield from Settle(job.write)
            job.session.doubts.pop(job.write.number, None)
        elif job.ticket is None:
            yield from End()
            if job.session.id:  # else it never began, as far as the store has said
                yield from Emit(Transition("session.closed", session=job.session.id))
        else:
            yield from Withdraw(job.ticket, job.entry)
    except Expired:
        job.session.protocol.lives_on |= job.ends_session  # as far as anybody knows
        return True
    except SessionLost:
        return True
    except StoreError:
        # Refused, for now or for good; a contender that stands blocks others, so ask on.
        job.session.protocol.lives_on |= job.ends_session
        return job.ends_session
    return True


def rest(refused_at: float) -> Program[bool]:
    """Wait until it is time to try again what was refused, or a session ends; False: do another job first.

    Another job is announced by `Disturbed`.
    """
    now = yield from Now()
    event = yield from Wait(max(refused_at + REFUSED_PAUSE_S - now, 0.0))
    return not isinstance(event, Disturbed)
