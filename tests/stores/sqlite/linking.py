"""What tests of the links share: somebody who listens, and a way to join."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from recipes import events
from recipes._contract.wakeups import Event
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores.sqlite.blocking import SqliteLink
from recipes.stores.sqlite.requests import Join

__all__ = ["Box", "join", "queued"]


class Box:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.rang = threading.Event()

    def post(self, event: Event) -> None:
        self.events.append(event)
        self.rang.set()


def join(link: SqliteLink, session: str, box: Box | None = None) -> int:
    token: int = link.ask(Join(session, "x", "W", f"id-{session}", EXCLUSIVE, mailbox=box), 1.0).own
    return token


@contextmanager
def queued() -> Iterator[None]:
    """Go on only when somebody, started within, has queued up."""
    seen = threading.Event()
    stop = events.subscribe(lambda told: seen.set() if told.event == "lock.queued" else None)
    try:
        yield
        assert seen.wait(5), "somebody should have queued"
    finally:
        stop()
