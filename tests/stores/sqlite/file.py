"""A file of which a test carries out operations one by one, with the time in its hand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recipes._contract.connection import Mailbox
from recipes._contract.operations import Enqueue, Entry, Open, Snapshot, Ticket, Withdraw
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Event, Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores._kit.queue import Command
from recipes.stores.sqlite.schema import connect, transaction
from recipes.stores.sqlite.transactions import Transaction

__all__ = ["BOX", "File"]


class Box:
    def post(self, event: Event) -> None:
        raise AssertionError("a transaction tells nobody")


BOX = Box()


class File:
    """A file, a clock, and processes that live or have died."""

    def __init__(self, path: Path) -> None:
        self.db = connect(str(path), "label", lambda db: False)
        self.now = 100.0
        self.died: set[str] = set()
        self.listening: list[str] = []
        self.work: Transaction | None = None

    def do(self, session: str, op: Any, *, again: bool = False, promised: bool = False) -> Any:
        command = Command(op, session, BOX, again, promised)
        with transaction(self.db):
            self.work = Transaction(command, self.db, self.now, self.dead, self.listen)
            return self.work.carry_out()

    def dead(self, sessions: Iterable[str]) -> list[str]:
        return [session for session in set(sessions) if session in self.died]

    def listen(self, mailbox: Mailbox, ref: str) -> None:
        self.listening.append(ref)

    def start(self, *sessions: str, ttl_s: float = 10.0) -> None:
        for session in sessions:
            self.do(session, Open(ttl_s))

    def join(
        self, session: str, id_: str = "", queue: str = "x", rule: Rule = EXCLUSIVE, again: bool = False
    ) -> Snapshot:
        ticket = Ticket(queue, rule.kind, id_ or f"id-{session}", f"owner-{session}", b"data")
        snapshot: Snapshot = self.do(session, Enqueue(ticket, rule), again=again)
        return snapshot

    def entry(self, session: str, id_: str = "", rule: Rule = EXCLUSIVE, again: bool = False) -> Entry:
        mine = self.join(session, id_, rule=rule, again=again).mine
        assert mine is not None
        return mine

    def leave(self, session: str, mine: Entry) -> bool:
        left: bool = self.do(session, Withdraw(mine.ticket, mine))
        return left

    def news(self, kind: type[Event] = Gone) -> dict[str, list[str]]:
        assert self.work is not None
        news = {
            session: [event.ref for event in events if type(event) is kind]
            for session, events in self.work.news.items()
        }
        return {session: refs for session, refs in news.items() if refs}

    def standing(self) -> list[str]:
        return [s for (s,) in self.db.execute("SELECT session FROM contender ORDER BY token").fetchall()]

    def waiting(self, token: int) -> list[str]:
        """Return the sessions that are notified when a contender goes."""
        rows = self.db.execute("SELECT session FROM watch WHERE token = ? ORDER BY waiter", (token,))
        return [session for (session,) in rows.fetchall()]
