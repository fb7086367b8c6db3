"""The bell of a session: what arrives on its channel, as events for the calls that wait.

An event may arrive before the reply of the step that made the server send it, when no call listens to it
yet; or only another one does. So the last ones are kept, and delivered to each call that begins to listen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Gone, Granted
from recipes.stores._kit.queue import ref_of
from recipes.stores._kit.subscriptions import Subscriptions

__all__ = ["INVALIDATE", "Bells", "events_of"]

MOST_KEPT = 1000
INVALIDATE = b"__redis__:invalidate"
"""The channel on which a server that tracks keys says which of them changed."""
_KINDS: dict[str, type[Gone | Changed | Granted]] = {"h": Granted, "g": Gone, "c": Changed}


def events_of(message: bytes) -> list[Gone | Changed | Granted]:
    """Return what a message of the script says, in its order; nothing of what it would not say."""
    queue, *words = message.decode("utf-8", "replace").split(" ")
    found: list[Gone | Changed | Granted] = []
    for word in words:
        if word == "q":
            found.append(Changed(queue))
        elif word[:1] in _KINDS and word[1:].isdecimal():
            found.append(_KINDS[word[0]](ref_of(queue, int(word[1:]))))
    return found


class Bells:
    """Which calls of one session listen to what; safe from any thread without a lock, as `Subscriptions`."""

    def __init__(self) -> None:
        self._waiting = Subscriptions()
        self._kept: dict[str, Gone | Changed | Granted] = {}  # by reference: the last
        self._tracked: dict[bytes, dict[str, None]] = {}  # by key: what stands for who holds it

    def listen(self, mailbox: Mailbox, refs: Iterable[str], *, afresh: bool = False) -> None:
        """Have ``mailbox`` notified of these, also of what is kept; ``afresh``: they are looked at next."""
        for ref in refs:
            self._waiting.add(mailbox, ref)
            event = None if afresh else self._kept.get(ref)
            if event is not None:
                self._waiting.post(event)

    def track(self, mailbox: Mailbox, key: str, ref: str) -> None:
        """Have ``mailbox`` notified that ``ref`` changed when the server says that the key did."""
        self._waiting.add(mailbox, ref)
        while True:
            refs = self._tracked.setdefault(key.encode(), {})
            refs[ref] = None
            if self._tracked.get(key.encode()) is refs:
                return

    def forget(self, mailbox: Mailbox) -> None:
        """Notify this mailbox no more."""
        self._waiting.forget(mailbox)

    def hear(self, message: Sequence[Any]) -> None:
        """Notify of a message of the server: its kind, its channel, and its content."""
        if message[0] != b"message":  # it confirms, or answers a ping
            return
        _, channel, content = message
        if channel == INVALIDATE:
            for key in list(self._tracked) if content is None else content:
                for ref in list(self._tracked.pop(key, ())):
                    self._waiting.post(Changed(ref))
            return
        for event in events_of(content):
            self._kept.pop(event.ref, None)  # it is the last now
            self._kept[event.ref] = event  # also if a call listens: the reply of another may be on its way
            self._waiting.post(event)
        for ref in list(self._kept)[:-MOST_KEPT]:
            self._kept.pop(ref, None)

    def disturb(self) -> None:
        """Notify all that something may have been missed; what was kept is of no use any more."""
        self._kept.clear()
        self._tracked.clear()
        self._waiting.disturb()
