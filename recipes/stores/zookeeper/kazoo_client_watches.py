"""Which mailbox watches which node: kazoo's own set of watchers cannot forget."""

from __future__ import annotations

from typing import Any

from kazoo.protocol.states import EventType

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes._mutex import new_lock
from recipes._section import section
from recipes.events import Log

__all__ = ["Watches"]

log = Log("recipes.kazoo")


class Watches:
    """The mailboxes that watch, by path.

    kazoo is given one watcher for all of them, ``told``: its set of watchers then holds
    one entry a path, however many waiters come and give up. A mailbox is added before
    its request is sent, so that no event can come between; one that comes even before
    the reply is notified as well, being a hint to look again. One event ends the arming.

    A mailbox may also watch a whole queue, which takes many paths: the first event of any of them is
    told, as ``Changed(queue)``, and ends them all. What the server still watches for it then is used by the
    next listing, and otherwise tells nobody.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        # By identity: a mailbox need not be hashable. The queue is empty where one node is watched by itself.
        self._by_path: dict[str, dict[tuple[int, str], Mailbox]] = {}
        self._paths: dict[int, dict[str, dict[str, None]]] = {}

    def add(self, path: str, mailbox: Mailbox, queue: str = "", *, joins: bool = False) -> None:
        """Have ``mailbox`` notified of the next event of ``path``.

        Args:
            path: The node.
            mailbox: Where to.
            queue: The node is watched as a part of this queue.
            joins: Only if that queue is still watched.
        """
        key = id(mailbox)
        with section.mark, self._lock:
            if not joins or queue in self._paths.get(key, ()):
                self._by_path.setdefault(path, {})[key, queue] = mailbox
                self._paths.setdefault(key, {}).setdefault(queue, {})[path] = None

    def drop(self, path: str, mailbox: Mailbox, queue: str = "") -> None:
        """Undo ``add``."""
        with section.mark, self._lock:
            self._drop(path, id(mailbox), queue)

    def forget(self, mailbox: Mailbox) -> None:
        """Undo every ``add`` of ``mailbox``."""
        with section.mark, self._lock:
            for queue in tuple(self._paths.get(id(mailbox), ())):
                self._drop_all(id(mailbox), queue)

    def told(self, event: Any) -> None:
        """Be kazoo's watcher: runs in the connection thread."""
        if event.type == EventType.NONE:
            self.disturb()
        else:
            kind = Gone if event.type == EventType.DELETED else Changed
            self._tell(event.path, kind(event.path))

    def disturb(self) -> None:
        """Tell everybody that the watches are gone: the server forgets them with the connection."""
        with section.mark, self._lock:
            mailboxes = {key: box for boxes in self._by_path.values() for (key, _), box in boxes.items()}
            self._by_path.clear()
            self._paths.clear()
        for mailbox in mailboxes.values():
            _post(mailbox, Disturbed())

    def __len__(self) -> int:
        return sum(map(len, self._by_path.values()))

    def _tell(self, path: str, event: Event) -> None:
        with section.mark, self._lock:
            mailboxes = dict(self._by_path.get(path, {}))
            for key, queue in mailboxes:
                if queue:
                    self._drop_all(key, queue)
                else:
                    self._drop(path, key, queue)
        for (_, queue), mailbox in mailboxes.items():
            _post(mailbox, Changed(queue) if queue else event)

    def _drop_all(self, key: int, queue: str) -> None:
        for path in tuple(self._paths[key][queue]):
            self._drop(path, key, queue)

    def _drop(self, path: str, key: int, queue: str) -> None:
        boxes = self._by_path.get(path, {})
        if boxes.pop((key, queue), None) is None:
            return
        if not boxes:
            del self._by_path[path]
        queues = self._paths[key]
        del queues[queue][path]
        if not queues[queue]:
            del queues[queue]
            if not queues:
                del self._paths[key]


def _post(mailbox: Mailbox, event: Event) -> None:
    try:
        mailbox.post(event)
    except BaseException:
        log.exception("a mailbox raised")  # kazoo's thread must survive it
