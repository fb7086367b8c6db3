"""Who of a client's calls wants to hear of which contender."""

from __future__ import annotations

from collections.abc import Iterable

from recipes._contract.connection import Mailbox
from recipes._contract.wakeups import Changed, Gone
from recipes.stores.sqlite.layout import Target, ref_of, target_of

__all__ = ["Book"]


class Book:
    """The watches of one link; each tells once.

    Safe from any thread without a lock, which an interrupt could leave taken: each step is one dict
    operation, and `listen` looks again after it has written.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Mailbox, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def listen(self, mailbox: Mailbox, target: Target) -> None:
        """Have ``mailbox`` told of this contender."""
        ref = ref_of(*target)
        while True:
            waiting = self._waiting.setdefault(ref, {})
            waiting[mailbox] = None
            if self._waiting.get(ref) is waiting:
                return

    def forget(self, mailbox: Mailbox) -> None:
        """Tell this mailbox no more."""
        for ref, waiting in list(self._waiting.items()):
            waiting.pop(mailbox, None)
            if not waiting:
                self._waiting.pop(ref, None)

    def targets(self) -> tuple[Target, ...]:
        """Return whom somebody wants to hear of."""
        return tuple(target_of(ref) for ref in list(self._waiting))

    def gone(self, refs: Iterable[str]) -> None:
        """These contenders have gone."""
        for ref in refs:
            for mailbox in list(self._waiting.pop(ref, ())):
                mailbox.post(Gone(ref))

    def changed(self, refs: Iterable[str]) -> None:
        """These contenders have changed."""
        for ref in refs:
            for mailbox in list(self._waiting.pop(ref, ())):
                mailbox.post(Changed(ref))
