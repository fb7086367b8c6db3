"""Who waits for which node: kazoo's own set of watchers cannot forget."""

from __future__ import annotations

import logging
import threading
from typing import Any

from kazoo.protocol.states import EventType

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes._section import section

__all__ = ["Watches"]

log = logging.getLogger("recipes.kazoo")


class Watches:
    """The mailboxes that watch, by path.

    kazoo is given one watcher for all of them, ``told``: its set of watchers then holds
    one entry a path, however many waiters come and give up. A mailbox is added before
    its request is sent, so that no event can come between; one that comes even before
    the reply is told as well, being a hint to look again. One event ends the arming.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By identity: a mailbox need not be hashable.
        self._by_path: dict[str, dict[int, Mailbox]] = {}
        self._paths: dict[int, tuple[str, ...]] = {}  # one or two each

    def add(self, path: str, mailbox: Mailbox) -> None:
        """Have ``mailbox`` told of the next event of ``path``."""
        with section.mark, self._lock:
            self._by_path.setdefault(path, {})[id(mailbox)] = mailbox
            paths = self._paths.get(id(mailbox), ())
            if path not in paths:
                self._paths[id(mailbox)] = (*paths, path)

    def drop(self, path: str, mailbox: Mailbox) -> None:
        """Undo ``add``."""
        with section.mark, self._lock:
            self._drop(path, id(mailbox))

    def forget(self, mailbox: Mailbox) -> None:
        """Undo every ``add`` of ``mailbox``."""
        with section.mark, self._lock:
            for path in self._paths.get(id(mailbox), ()):
                self._drop(path, id(mailbox))

    def told(self, event: Any) -> None:
        """Be kazoo's watcher: runs in the connection thread."""
        if event.type == EventType.DELETED:
            self._tell(event.path, Gone(event.path))
        elif event.type == EventType.CHANGED:
            self._tell(event.path, Changed(event.path))
        else:
            self.disturb()

    def disturb(self) -> None:
        """Tell everybody that the watches are gone: the server forgets them with the connection."""
        with section.mark, self._lock:
            mailboxes = {key: box for boxes in self._by_path.values() for key, box in boxes.items()}
            self._by_path.clear()
            self._paths.clear()
        for mailbox in mailboxes.values():
            _post(mailbox, Disturbed())

    def __len__(self) -> int:
        return sum(map(len, self._by_path.values()))

    def _tell(self, path: str, event: Event) -> None:
        with section.mark, self._lock:
            mailboxes = tuple(self._by_path.get(path, {}).values())
            for mailbox in mailboxes:
                self._drop(path, id(mailbox))
        for mailbox in mailboxes:
            _post(mailbox, event)

    def _drop(self, path: str, key: int) -> None:
        boxes = self._by_path.get(path)
        if boxes is not None and boxes.pop(key, None) is not None and not boxes:
            del self._by_path[path]
        left = tuple(other for other in self._paths.pop(key, ()) if other != path)
        if left:
            self._paths[key] = left


def _post(mailbox: Mailbox, event: Event) -> None:
    try:
        mailbox.post(event)
    except BaseException:
        log.exception("a mailbox raised")  # kazoo's thread must survive it
