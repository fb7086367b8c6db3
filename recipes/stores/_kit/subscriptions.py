"""Which calls of a client are notified of which contenders and queues."""

from __future__ import annotations

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Disturbed, Gone, Granted

__all__ = ["Subscriptions"]

MANY = 32
"""With so many references, and each time they have doubled, a mailbox forgets those it was notified of."""


class Subscriptions:
    """The watches of one connection, or of one store in this process; each notifies once.

    Safe from any thread without a lock, which an interrupt could leave taken: each step is one dict
    operation, and `add` looks again after it has written. What a mailbox has subscribed to is noted where it
    subscribes alone, also when it was notified of that.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Mailbox, None]] = {}
        self._of: dict[Mailbox, dict[str, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, ref: str) -> bool:
        return ref in self._waiting

    def add(self, mailbox: Mailbox, ref: str) -> None:
        """Have ``mailbox`` notified of this contender, or this queue; until `forget`."""
        of = self._of.setdefault(mailbox, {})
        if len(of) >= MANY and not len(of) & (len(of) - 1):
            for one in [one for one in of if mailbox not in self._waiting.get(one, ())]:
                of.pop(one, None)
        of[ref] = None
        while True:
            waiting = self._waiting.setdefault(ref, {})
            waiting[mailbox] = None
            if self._waiting.get(ref) is waiting:
                return

    def forget(self, mailbox: Mailbox) -> None:
        """Notify this mailbox no more."""
        for ref in list(self._of.pop(mailbox, ())):
            waiting = self._waiting.get(ref)
            if waiting is None:
                continue
            waiting.pop(mailbox, None)
            if not waiting:
                for other in list(self._waiting.pop(ref, ())):  # those that came in between may miss news
                    other.post(Disturbed())

    def knows(self, mailbox: Mailbox) -> bool:
        """Return whether it has subscribed to anything, and was not forgotten."""
        return mailbox in self._of

    def refs(self) -> tuple[str, ...]:
        """Return what is watched."""
        return tuple(self._waiting)

    def post(self, event: Gone | Changed | Granted) -> None:
        """Notify those that watch what an event is about."""
        for mailbox in list(self._waiting.pop(event.ref, ())):
            mailbox.post(event)

    def disturb(self) -> None:
        """Notify all that events may have been missed."""
        for ref in self.refs():
            for mailbox in list(self._waiting.pop(ref, ())):
                mailbox.post(Disturbed())
