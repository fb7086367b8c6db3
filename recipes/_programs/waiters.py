"""The client's own contenders: what waits behind one of them needs no watch on the store."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from recipes._contract.contenders import Contender
from recipes._contract.wakeups import Changed, Disturbed, HandedOn, LocallyGone

if TYPE_CHECKING:
    from recipes._contract.connection import Mailbox
    from recipes._contract.contenders import Ahead
    from recipes._contract.operations import Entry, Ticket

__all__ = ["InProcessWaiters"]


class InProcessWaiters:
    """The contenders of this session in its queues, and which calls wait for one of them to go.

    Safe from any thread without a lock: each step is one dict operation, and `listen`
    looks again after it has written.
    """

    def __init__(self) -> None:
        self._standing: dict[str, dict[Mailbox, str]] = {}
        self._marks: dict[str, str] = {}
        self._waiting: dict[str, tuple[Entry, Mailbox]] = {}
        self._missing: set[str] = set()
        self._freed: dict[str, Entry] = {}
        self._given_up: dict[str, Ticket] = {}

    def stand(self, contender_id: str) -> None:
        """Note a contender before it is made."""
        self._standing.setdefault(contender_id, {})

    def gone(self, contender_id: str) -> None:
        """Tell that a contender was withdrawn, as the store confirmed."""
        listening = self._standing.get(contender_id, {})
        try:
            self._standing.pop(contender_id, None)
            self._tell_gone(contender_id, listening)
        except BaseException:  # what does not stand any more is withdrawn by nobody again
            self._tell_gone(contender_id, listening)
            raise

    def _tell_gone(self, contender_id: str, listening: dict[Mailbox, str]) -> None:
        self._marks.pop(contender_id, None)
        self._waiting.pop(contender_id, None)
        self._missing.discard(contender_id)
        self._freed.pop(contender_id, None)
        self._given_up.pop(contender_id, None)
        for mailbox, ref in list(listening.items()):
            mailbox.post(LocallyGone(ref))
            listening.pop(mailbox, None)

    def freed(self, entry: Entry) -> None:
        """Tell that a contender was released while it was held, whatever the store still shows."""
        contender_id = entry.ticket.id
        self._freed[contender_id] = entry
        if contender_id not in self._standing:  # another thread was quicker to withdraw it
            self._freed.pop(contender_id, None)
        for mailbox, ref in list(self._standing.get(contender_id, {}).items()):
            mailbox.post(HandedOn(ref))

    def marked(self, contender_id: str, mark: str) -> None:
        """Tell that a contender was marked, or may be: the store knows."""
        self._marks[contender_id] = mark
        if contender_id not in self._standing:  # another thread was quicker to release it
            self._marks.pop(contender_id, None)
        for mailbox, ref in list(self._standing.get(contender_id, {}).items()):
            mailbox.post(Changed(ref))

    def listen(self, target: Contender, mailbox: Mailbox) -> bool:
        """Have ``mailbox`` notified when ``target`` is released, goes, or is marked.

        False if it does not stand here, or was marked since it was seen: then ask the store.
        """
        waiting = self._standing.get(target.id)
        if waiting is None:
            return False
        waiting[mailbox] = target.ref
        if self._marks.get(target.id, target.mark) != target.mark:
            waiting.pop(mailbox, None)
            return False
        if target.id in self._freed:
            mailbox.post(HandedOn(target.ref))
        return target.id in self._standing

    def listens(self, mailbox: Mailbox, targets: Ahead) -> bool:
        """Whether ``mailbox`` is notified of all of these by the client itself; not so of none."""
        return bool(targets) and all(mailbox in self._standing.get(target.id, ()) for target in targets)

    def standing(self, entry: Entry) -> Contender | None:
        """Return an own contender as it stands; None if it was released, or withdrawn."""
        ticket = entry.ticket
        if ticket.id in self._freed or ticket.id not in self._standing:
            return None
        return Contender(entry.ref, ticket.id, ticket.kind, mark=self._marks.get(ticket.id, ""))

    def freed_before(self, entry: Entry) -> Ahead:
        """Return those ahead of a contender that were released, and are not withdrawn yet."""
        return tuple(
            Contender(one.ref, one.ticket.id, mark=self._marks.get(one.ticket.id, ""))
            for one in list(self._freed.values())
            if one.ticket.queue == entry.ticket.queue and one.token < entry.token
        )

    def forget(self, mailbox: Mailbox, contender_ids: Iterable[str]) -> None:
        """Tell this call no more about these contenders."""
        for contender_id in contender_ids:
            self._standing.get(contender_id, {}).pop(mailbox, None)

    def stands(self, contender_id: str) -> bool:
        """Whether it was noted, and not withdrawn since."""
        return contender_id in self._standing

    def waits(self, entry: Entry, mailbox: Mailbox) -> None:
        """Note where a contender is that is not granted yet, and which call waits for that."""
        self._waiting[entry.ticket.id] = (entry, mailbox)

    def waits_no_more(self, contender_id: str) -> None:
        """Note that it was granted, or given up."""
        self._waiting.pop(contender_id, None)

    def give_up(self, ticket: Ticket) -> None:
        """Note that nobody waits for it any more; it may stand, and what makes it may arrive late."""
        self.waits_no_more(ticket.id)
        self._given_up[ticket.id] = ticket
        if ticket.id not in self._standing:  # another thread was quicker to withdraw it
            self._given_up.pop(ticket.id, None)

    @property
    def given_up(self) -> tuple[Ticket, ...]:
        """What was given up and is not known to be gone, whether or not the session has ended since."""
        return tuple(self._given_up.values())

    @property
    def waiting(self) -> tuple[Entry, ...]:
        """The places that are not granted yet."""
        return tuple(entry for entry, _ in list(self._waiting.values()))

    def missed(self, contender_id: str) -> None:
        """Note that a renewal did not find this contender, and have the call that waits for it look."""
        self._missing.add(contender_id)
        if contender_id not in self._standing:  # another thread was quicker to withdraw it
            self._missing.discard(contender_id)
        if (waiting := self._waiting.get(contender_id)) is not None:
            waiting[1].post(Disturbed())

    def is_missing(self, contender_id: str) -> bool:
        """Whether a renewal did not find it; then no grant of it counts, whatever else was notified."""
        return contender_id in self._missing
