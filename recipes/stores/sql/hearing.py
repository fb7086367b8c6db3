"""What a session receives on its channel of PostgreSQL, and whether it receives at all.

That the server accepts LISTEN proves nothing: behind a proxy that gives each transaction another connection
nothing arrives. So a session notifies itself, from another connection, as it begins and with its renewals.
"""

from __future__ import annotations

from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes._run.clock import boot_time
from recipes.stores._kit.bells import Bells
from recipes.stores.sql.requests import Listen

__all__ = ["Hearing", "event_of"]

PROVE_S = 2.0
"""Prove it again with the first renewal after so long."""
LATE_S = 2.0
"""What was notified and did not arrive for so long will not arrive."""
NEWS_S = 1.0
DEAF_TIMES, DEAF_S = 3, 120.0
"""After so many connections in turn on which nothing arrived, the next one listens so much later."""
_KINDS: dict[str, type[Gone | Changed]] = {"g": Gone, "c": Changed}


def event_of(payload: str) -> Gone | Changed | None:
    """Return what a notification says; None: that it arrived."""
    kind, ref = payload[:1], payload[1:].partition(":")[2]
    if kind == "q":
        return Changed(ref)
    return _KINDS[kind](ref) if kind in _KINDS else None


class Hearing:
    """Which calls listen to what, and whether what the server notifies arrives.

    Attributes:
        bells: Those of the session.
        channel: Of the session; empty: nothing is notified.
    """

    def __init__(self) -> None:
        self.bells = Bells()
        self.channel = ""
        self._connected = False
        self._heard = False  # on this connection
        self._deaf = 0  # connections in turn
        self._asked_at = self._heard_at = self._disturbed_at = -LATE_S

    @property
    def works(self) -> bool:
        """Whether what the server notifies arrives, as far as one can know."""
        return self._connected and self._heard and not self.overdue

    @property
    def overdue(self) -> bool:
        """Whether a notification did not arrive that should have."""
        return self._heard_at < self._asked_at < boot_time() - LATE_S

    @property
    def rest_s(self) -> float:
        """For how long not to listen again: a proxy that lends connections keeps each LISTEN on one."""
        return 0.0 if self._deaf < DEAF_TIMES else DEAF_S

    def to_prove(self) -> bool:
        """Whether to notify oneself; then `asked` once that is committed."""
        return self._connected and boot_time() - max(self._asked_at, self._heard_at) >= PROVE_S

    def asked(self, at: float) -> None:
        """Note that the session has notified itself: at that moment or later.

        If an earlier one has not arrived yet, that one counts: asked again and again, it would never be late.
        """
        if self._heard_at >= self._asked_at:
            self._asked_at = at

    def connected(self) -> None:
        """Note that the server accepts LISTEN."""
        self._heard, self._asked_at = False, self._heard_at
        self._connected = True  # who listened meanwhile looks by time

    def lost(self) -> None:
        """Note that nothing arrives any more; what was notified a moment ago may have been missed."""
        if self._heard:
            self._deaf = 0
        elif self._connected and self.overdue:
            self._deaf += 1
        connected, self._connected, self._heard = self._connected, False, False
        if connected:
            self._disturb()

    def unproved(self) -> None:
        """Note that nothing can be notified now; it works again once that is proved again."""
        heard, self._heard = self._heard, False
        if heard:
            self._disturb()

    def _disturb(self) -> None:
        self._disturbed_at = boot_time()
        self.bells.disturb()

    def hear(self, payload: str) -> None:
        """Notify of what has arrived."""
        self._heard_at = boot_time()
        self._heard = True
        event = event_of(payload)
        if event is not None:
            self.bells.post((event,))

    def listen(self, request: Listen) -> bool:
        """Carry out the request."""
        self.bells.listen(request.mailbox, request.refs, afresh=request.afresh)
        if boot_time() - self._disturbed_at < NEWS_S:  # what was missed may be about these
            request.mailbox.post(Disturbed())
        return self.works
