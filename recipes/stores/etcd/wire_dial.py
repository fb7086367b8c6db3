"""Which server is asked: endpoints, and their order."""

from __future__ import annotations

from collections.abc import Sequence

from recipes._record import record
from recipes.stores.addresses import Endpoint

__all__ = ["DIAL_S", "Attempt", "Endpoints"]

DIAL_S = 3.0
"""How long a connection for watches may take to be made."""


@record
class Attempt:
    """One request to one server: since when, and until when it may take."""

    endpoint: Endpoint
    began: float
    until: float


SHARES = 3
SHORTEST_SHARE_S = 0.25


class Endpoints:
    """The servers of the cluster, one of them current; after a failure the next one is.

    Where there are several, an attempt may wait for one of them only for a share of its time, so
    that a silent server leaves enough of it to ask another. The share follows what answers take:
    where all are slow, nobody is left for being slow.

    Attributes:
        several: Whether there is another one to go to.
    """

    def __init__(self, endpoints: Sequence[tuple[str, int]]) -> None:
        if not endpoints:
            raise ValueError("at least one endpoint (host, port) is needed")
        self.all = tuple(Endpoint(host, port) for host, port in endpoints)
        self.several = len(self.all) > 1
        self._at = 0
        self._slow_s = 0.0
        self._silent_s = self._silent_to = 0.0  # for how long the current one left short calls unanswered

    def current(self) -> Endpoint:
        """Return the server to ask next."""
        return self.all[self._at]

    def attempt(self, now: float, deadline: float) -> Attempt:
        """Return which server to ask, and until when; both instants are of one monotonic clock."""
        if not self.several:
            return Attempt(self.all[0], now, deadline)
        left_s = deadline - now
        left_s = min(left_s, max(left_s / SHARES, SHORTEST_SHARE_S, 2 * self._slow_s))
        return Attempt(self.current(), now, now + left_s)

    def answered(self, attempt: Attempt, now: float) -> None:
        """Take note of how long an answer takes."""
        self._slow_s = max(now - attempt.began, self._slow_s / 2)
        if self._silent_s and attempt.endpoint == self.current():
            self._silent_s = 0.0

    def unanswered(self, attempt: Attempt, now: float) -> None:
        """Leave the server of ``attempt``, unless that and those before it hardly gave it any time."""
        if now >= attempt.until:  # else it is not there, or says itself that it cannot serve
            if attempt.endpoint == self.current():
                self._silent_s += max(0.0, now - max(attempt.began, self._silent_to))
                self._silent_to = now
            if max(now - attempt.began, self._silent_s) < SHORTEST_SHARE_S:
                return
            self._slow_s = max(self._slow_s, attempt.until - attempt.began)
        self.failed(attempt.endpoint)

    def failed(self, endpoint: Endpoint) -> None:
        """Leave ``endpoint`` if it is the current one: many calls may see the same failure.

        Without a lock, which a signal handler could wait for: each caller puts the same one in its place.
        """
        at = self._at
        if self.all[at] == endpoint:
            self._at, self._silent_s = (at + 1) % len(self.all), 0.0
