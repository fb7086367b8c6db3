"""What a transaction is given, and what it leaves to be told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from recipes._contract.connection import Mailbox
from recipes.stores.sqlite.layout import Target, ref_of

__all__ = ["News", "Work"]

News = dict[str, list[str]]
"""Sessions that are to hear of contenders, and the references of these."""


@dataclass(slots=True)
class Work:
    """The circumstances of one transaction, and what has to be told once it is committed.

    Attributes:
        db: The connection, in a transaction.
        now: Boot time, read when the transaction had begun.
        dead: Says which of these sessions' processes are known to have died.
        listen: Notes, before the commit, that a mailbox hears of a contender.
        gone: The sessions that are to hear of it, and the contenders that have gone.
        changed: The same for contenders that have changed.
        ended: The sessions that have ended.
    """

    db: sqlite3.Connection
    now: float
    dead: Callable[[Iterable[str]], list[str]]
    listen: Callable[[Mailbox, Target], None]
    gone: News = field(default_factory=dict)
    changed: News = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def tell(self, queue: str, token: int, news: News) -> None:
        """Note who wants to hear of this contender, the first in the queue first."""
        waiting = "SELECT session FROM watch WHERE token = ? ORDER BY waiter"
        for (session,) in self.db.execute(waiting, (token,)).fetchall():
            news.setdefault(session, []).append(ref_of(queue, token))
