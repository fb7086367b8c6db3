"""The wake-ups: what a waiting call is notified of; but for `Granted` and `HandedOn` a hint to look again."""

from __future__ import annotations

from recipes._record import record

__all__ = ["Changed", "Disturbed", "Event", "Gone", "Granted", "HandedOn", "LocallyGone"]


@record
class Event:
    """Something that may concern a waiting call."""


@record
class Gone(Event):
    """The store reported, on this session, that the watched node or key was deleted."""

    ref: str


@record
class LocallyGone(Gone):
    """A contender of this very session was withdrawn; unlike `Gone`, no word of the store."""


@record
class HandedOn(Event):
    """A contender of this very session was released while it was held, and its deletion is under way.

    It is a proof, of the client's own: the contender holds nothing any more, and never will. One that
    excluded all others was granted with none ahead of it that still counted, so none of those counts either.
    """

    ref: str


@record
class Changed(Event):
    """The store reported that what is watched has other data, or that anything in the queue changed."""

    ref: str


@record
class Granted(Event):
    """The store itself says that this contender holds now: its call takes that for the grant, without a look.

    It may be late: it does not count once a renewal has answered that the contender is missing.
    """

    ref: str


@record
class Disturbed(Event):
    """Watches were dropped or may have missed something: look, and arm them again."""
