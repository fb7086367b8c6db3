"""What a session is notified of, as events for the calls that wait.

An event may arrive before the reply of the step that made the server send it, when no call listens to it
yet; or only another one does. So the last ones are kept, and delivered to each call that begins to listen.
"""

from __future__ import annotations

from collections.abc import Iterable

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Gone, Granted
from recipes.stores._kit.subscriptions import Subscriptions

__all__ = ["MOST_KEPT", "Bells"]

MOST_KEPT = 1000


class Bells:
    """Which calls of one session listen to what; safe from any thread without a lock, as `Subscriptions`."""

    def __init__(self) -> None:
        self._waiting = Subscriptions()
        self._kept: dict[str, Gone | Changed | Granted] = {}  # by reference: the last

    def listen(self, mailbox: Mailbox, refs: Iterable[str], *, afresh: bool = False) -> None:
        """Have ``mailbox`` notified of these, also of what is kept; ``afresh``: they are looked at next."""
        for ref in refs:
            self._waiting.add(mailbox, ref)
            event = None if afresh else self._kept.get(ref)
            if event is not None:
                self._waiting.post(event)

    def forget(self, mailbox: Mailbox) -> None:
        """Notify this mailbox no more."""
        self._waiting.forget(mailbox)

    def post(self, events: Iterable[Gone | Changed | Granted]) -> None:
        """Notify of events, in their order."""
        for event in events:
            self._kept.pop(event.ref, None)  # it is the last now
            self._kept[event.ref] = event  # also if a call listens: the reply of another may be on its way
            self._waiting.post(event)
        if len(self._kept) > MOST_KEPT:
            for ref in list(self._kept)[:-MOST_KEPT]:
                self._kept.pop(ref, None)

    def disturb(self) -> None:
        """Notify all that something may have been missed; what was kept is of no use any more."""
        self._kept.clear()
        self._waiting.disturb()
