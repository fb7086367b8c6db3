"""What tests of the file share: commands by hand, somebody who listens, and a way to join."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recipes import events
from recipes._contract.contenders import Contender
from recipes._contract.operations import Check, End, Enqueue, Entry, Open, Renew, Rewrite, Ticket, Withdraw
from recipes._contract.wakeups import Event
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores._kit.blocking import QueueConnection
from recipes.stores._kit.queue import Command
from tests.stores.stepping import MAILBOX

__all__ = [
    "Box",
    "checking",
    "command",
    "downgrading",
    "entry",
    "finish",
    "join",
    "joining",
    "leaving",
    "queued",
    "renew",
    "start",
]


class Box:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.rang = threading.Event()

    def post(self, event: Event) -> None:
        self.events.append(event)
        self.rang.set()


def command(session: str, op: Any, box: Box | None = None) -> Command:
    return Command(op, session, MAILBOX if box is None else box)


def entry(session: str, token: int, queue: str = "x") -> Entry:
    return Entry(Ticket(queue, "lock", f"id-{session}"), f"{queue}/{token}", token)


def start(session: str, ttl_s: float = 5.0) -> Command:
    return command(session, Open(ttl_s))


def renew(session: str, *tokens: int) -> Command:
    return command(session, Renew(tuple(entry(session, token) for token in tokens), 1.0))


def finish(session: str) -> Command:
    return command(session, End())


def joining(session: str, box: Box | None = None, queue: str = "x") -> Command:
    return command(session, Enqueue(Ticket(queue, "lock", f"id-{session}"), EXCLUSIVE), box)


def checking(session: str, own: int, token: int, box: Box) -> Command:
    return command(session, Check(entry(session, own), (Contender(f"x/{token}"),)), box)


def downgrading(session: str, token: int) -> Command:
    return command(session, Rewrite(entry(session, token), "downgraded"))


def leaving(session: str, token: int) -> Command:
    mine = entry(session, token)
    return command(session, Withdraw(mine.ticket, mine))


def join(connection: QueueConnection, session: str, box: Box | None = None) -> int:
    token: int = connection.ask(joining(session, box), 1.0).mine.token
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
