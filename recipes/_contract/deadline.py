"""One deadline for each public call, and the checks of durations that users give."""

from __future__ import annotations

from recipes._record import record

__all__ = ["NEVER", "Deadline", "Expired", "duration"]

LONGEST_S = 100 * 365 * 86400.0
CUT_S = 0.05
"""How long before the deadline a request may fail for want of time: its wait may end a little early."""


class Expired(Exception):
    """The deadline of the call has passed; thrown into the program at the operation it waits for.

    Attributes:
        cut: Whether it cut short a request, which might have been answered a moment later.
    """

    cut = False


@record
class Deadline:
    """A point in boot time, or never (None); made once for a call and passed down."""

    at: float | None

    @classmethod
    def after(cls, seconds: float | None, now: float) -> Deadline:
        """Return the deadline ``seconds`` after ``now``; None is never."""
        return cls(None if seconds is None else now + seconds)

    def bound(self, seconds: float | None, now: float) -> float | None:
        """Return the smaller of ``seconds`` and what is left.

        Raises:
            Expired: Nothing is left.
        """
        if self.at is None:
            return seconds
        left = self.at - now
        if left <= 0:
            raise Expired
        return left if seconds is None or left < seconds else seconds

    def cuts(self, now: float) -> bool:
        """Whether a request that failed just now may have failed for want of time."""
        return self.at is not None and self.at - now < CUT_S


NEVER = Deadline(None)


def duration(what: str, seconds: float | None, *, least: float = 0.0) -> float | None:
    """Check a duration that a user gave, in seconds; None passes.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative, not finite, or below ``least``.
    """
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{what} is a number of seconds, not {type(seconds).__name__}")
    if not seconds >= 0:  # which NaN is not either
        raise ValueError(f"{what}={seconds!r}: a duration is 0 or more seconds")
    if seconds > LONGEST_S:
        instead = "; None is for ever" if what == "timeout" else ""
        raise ValueError(f"{what}={seconds!r} is longer than a century{instead}")
    if seconds < least:
        raise ValueError(f"{what}={seconds!r} is too short: at least {least:g} s")
    return float(seconds)
