"""The clock of a session: when it must be renewed, is suspect, and is given up.

The store ends a session ``ttl`` seconds after the last renewal of the client; the client gives
it up earlier, by its own clock, so that no grant is believed that the store may give away. The
rule comes from Gray and Cheriton's leases (1989): count from the moment a renewal was *sent*,
and count only renewals that were confirmed. The clock's readings are passed in.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Literal

__all__ = ["SessionClock", "State"]

SHORTEST_RENEWAL_S = 0.5
"""How long to wait for the answer to a renewal at least, even if a grant reaches its ``max_hold``."""

BEATS = 4
"""How many moments there are within the interval of renewals at which they may be sent together."""

State = Literal["held", "suspect", "lost"]


class SessionClock:
    """When a session must be renewed, is doubted, and is given up; boot time, seconds.

    Args:
        ttl_s: What the store granted.
        sent_at: When the request that started the session was sent.
        per_ttl: How many renewals are due within one ``ttl_s``.
        lag: By what share of ``ttl_s`` the store may be behind: the last confirmed renewal
            that was answered so long before the very last one was sent counts. 0: the last one does.
        beat_at: A moment of the beat on which renewals are sent, up to a quarter of an interval early, so
            that those of all clients of a process take its time at once; None: each is sent when it is due.

    Attributes:
        deadline: From here on the session is given up: 10 % of the TTL, at least half a
            second, before the store may end it. That covers clock rates 10 % apart.
        counted: When the renewal was sent that counts.
        due: When the next renewal should be sent.
        patience_s: How long to wait for its answer at least, even if a grant reaches its ``max_hold``.
        suspect_at: From here on the session is doubted: two renewals went by unanswered.
    """

    __slots__ = (
        "_answered",
        "_beat_at",
        "_per_ttl",
        "counted",
        "deadline",
        "due",
        "lag",
        "patience_s",
        "suspect_at",
        "ttl_s",
    )

    def __init__(
        self, ttl_s: float, sent_at: float, *, per_ttl: int, lag: float = 0.0, beat_at: float | None = None
    ) -> None:
        self.lag = lag
        self._beat_at = beat_at
        self._per_ttl = per_ttl
        self.patience_s = SHORTEST_RENEWAL_S
        self._answered: deque[tuple[float, float]] = deque()  # when each was sent, and when it was answered
        self._count(sent_at, ttl_s, sent_at)  # the start is the store's own act: it is never behind with that

    def _count(self, sent_at: float, ttl_s: float, now: float) -> None:
        self._answered.append((sent_at, now))
        lag_s = self.lag * ttl_s
        while len(self._answered) > 1 and (not lag_s or self._answered[1][1] <= sent_at - lag_s):
            self._answered.popleft()
        self.ttl_s = ttl_s
        self.counted = self._answered[0][0]
        self.deadline = self.counted + ttl_s - max(ttl_s / 10, 0.5)
        # The next renewal but one shows that this one counts.
        earliest = now + lag_s / 2
        self.due = max(self._on_the_beat(sent_at + self.interval_s, earliest), earliest)
        self.suspect_at = min(sent_at + 2.25 * self.interval_s, self.deadline)

    def _on_the_beat(self, due: float, earliest: float) -> float:
        """Return the last beat before a renewal is due; or, if that is too early, when it is due."""
        if self._beat_at is None:
            return due
        beat = due - (due - self._beat_at) % (self.interval_s / BEATS)
        return beat if beat >= earliest else due

    @property
    def interval_s(self) -> float:
        """Seconds from one renewal to the next."""
        return self.ttl_s / self._per_ttl

    def on_renewed(self, sent_at: float, ttl_s: float, now: float) -> bool:
        """Count a renewal that was confirmed; False if it came too late: lost stays lost."""
        if now >= self.deadline:
            return False
        self._count(sent_at, ttl_s, now)
        self.answered_in(now - sent_at)
        return True

    def answered_in(self, took_s: float) -> None:
        """Be patient enough for the next answer to take twice as long."""
        self.patience_s = max(SHORTEST_RENEWAL_S, 2 * took_s)

    def cut_at(self, sent_at: float, wanted_at: float) -> float:
        """Return when to leave a renewal that is sent now, for something else to be done at ``wanted_at``.

        Never, once there would be no time left to wait for another as long as without such a thing.
        """
        at = max(wanted_at, sent_at + self.patience_s)
        return at if at + 1.5 * self.interval_s <= self.deadline else math.inf

    def on_cut(self, now: float) -> None:
        """Ask again at once after a renewal that was left, and then wait longer for its answer."""
        self.patience_s *= 2
        self.due = now

    def on_missed(self, now: float) -> None:
        """Plan the next try after a renewal that was not confirmed."""
        self.due = now + self.interval_s / 4

    def state(self, now: float) -> State:
        """Return "held", "suspect" or "lost"."""
        if now >= self.deadline:
            return "lost"
        return "suspect" if now >= self.suspect_at else "held"
