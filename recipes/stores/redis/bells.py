"""The bell of a session: what arrives on its channel, and what a server says that tracks keys for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Gone, Granted
from recipes.stores._kit import bells
from recipes.stores._kit.queue import ref_of

__all__ = ["INVALIDATE", "Bells", "events_of"]

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


class Bells(bells.Bells):
    """Those of Redis, which says of tracked keys only that they changed."""

    def __init__(self) -> None:
        super().__init__()
        self._tracked: dict[bytes, dict[str, None]] = {}  # by key: what names its holder

    def track(self, mailbox: Mailbox, key: str, ref: str) -> None:
        """Have ``mailbox`` notified that ``ref`` changed when the server says that the key did."""
        self._waiting.add(mailbox, ref)
        while True:
            refs = self._tracked.setdefault(key.encode(), {})
            refs[ref] = None
            if self._tracked.get(key.encode()) is refs:
                return

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
        self.post(events_of(content))

    def disturb(self) -> None:
        """Notify all that something may have been missed; nothing is tracked any more."""
        self._tracked.clear()
        super().disturb()
