"""The steps of a program that no store carries out: waiting, the clock, and requests to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recipes._contract.operations import Entry, Op, Ticket
from recipes._record import record

if TYPE_CHECKING:
    from recipes._contract.contenders import Ahead
    from recipes._contract.rule import Rule
    from recipes._contract.wakeups import Event  # noqa: F401 - named in a string below
    from recipes._programs.hold import (
        HeldState,  # noqa: F401 - named in a string below
        StoreSession,  # noqa: F401 - named in a string below
    )
    from recipes.events import Transition


__all__ = ["Abandon", "Admit", "Allow", "Attach", "BehindOwn", "Emit", "Now", "Pause", "Wait"]


@record
class Attach(Op["StoreSession"]):
    """Wait for a live session; the store operations that follow use it."""


@record
class Wait(Op["Event | None"]):
    """Wait for an event, at most so many seconds.

    None: until the next re-read is due, or until ``due_at`` if that is earlier.
    Raises ``SessionLost`` into the program when the session of the call has ended.
    """

    at_most_s: float | None = None
    due_at: float | None = None


@record
class BehindOwn(Op[bool]):
    """Whether some of this very client's contenders have to go before this one is granted.

    Either all that is watched, or one anywhere ahead that blocks it. Then the call is notified when one of
    them goes, and until then a look would show nothing of those ahead that matters; whether its own place is
    still there is for renewals to see.
    """

    mine: Entry
    rule: Rule
    watched: Ahead


@record
class Pause(Op[None]):
    """Wait for a random moment, after so many races that were lost to others: longer the more they are."""

    lost: int


@record
class Now(Op[float]):
    """The boot-time clock, in seconds."""


@record
class Allow(Op[None]):
    """Have the time of the call be over so many seconds from now, whatever was left of it."""

    within_s: float


@record
class Emit(Op[None]):
    """Tell about a transition."""

    transition: Transition


@record
class Abandon(Op[None]):
    """Hand this ticket to the cleaner, at once and without I/O: it withdraws it for certain.

    None hands over the whole session of the call, to be ended.
    """

    ticket: Ticket | None
    entry: Entry | None = None


@record
class Admit(Op["HeldState"]):
    """Record the grant, if the session still proves it (``remaining > 0``); else ``SessionLost``.

    It is lost ``max_hold_s`` after this, or after the last progress, unless that is None. If ``seldom``, its
    contender is looked at once per TTL, and not with each renewal.
    """

    entry: Entry
    labels: dict[str, Any]
    max_hold_s: float | None = None
    seldom: bool = False
