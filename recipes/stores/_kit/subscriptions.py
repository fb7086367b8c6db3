"""Which calls of a client are notified of which contenders and queues."""

from __future__ import annotations

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Disturbed, Gone, Granted

__all__ = ["Subscriptions"]


class Subscriptions:
    """The watches of one connection, or of one store in this process; each notifies once.

    Safe from any thread without a lock, which an interrupt could leave taken: each step is one dict
    operation, and `add` looks again after it has written.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Mailbox, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __contains__(self, ref: str) -> bool:
        return ref in self._waiting

    def add(self, mailbox: Mailbox, ref: str) -> None:
        """Have ``mailbox`` notified of this contender, or this queue."""
        while True:
            waiting = self._waiting.setdefault(ref, {})
            waiting[mailbox] = None
            if self._waiting.get(ref) is waiting:
                return

    def forget(self, mailbox: Mailbox) -> None:
        """Notify this mailbox no more."""
        for ref, waiting in list(self._waiting.items()):
            waiting.pop(mailbox, None)
            if not waiting:
                for other in list(self._waiting.pop(ref, ())):  # those that came in between may miss news
                    other.post(Disturbed())

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
