from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import recipes
from recipes._contract import operations as ops
from recipes._contract.connection import Request
from recipes._contract.operations import Entry, Snapshot, Ticket
from recipes._contract.protocol import RequestContext
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes._rules.readwrite import SHARED
from recipes.errors import SessionLost
from recipes.stores.memory import (
    AsyncMemoryConnection,
    MemoryBackend,
    MemoryConnection,
    MemoryProtocol,
    MemoryServer,
)
from tests.programs.test_keep import Mailbox


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


class Client:
    """One session, asked by hand."""

    def __init__(self, server: MemoryServer, ttl_s: float = 15.0) -> None:
        self.connection = MemoryConnection(server)
        self.protocol = MemoryProtocol()
        self.mailbox = Mailbox()
        self.numbers = iter(range(1, 100))
        self.opened = self.ask(ops.Open(ttl_s))

    def ask(self, op: Any, *, again: bool = False) -> Any:
        steps = self.protocol.start(op, RequestContext(self.mailbox, again))
        reply: Any = None
        try:
            while True:
                reply = self.connection.ask(steps.send(reply), 5.0)
        except StopIteration as stop:
            return stop.value

    def ticket(self, kind: str = "lock") -> Ticket:
        return Ticket("q", kind, f"{self.protocol.session_id}-{next(self.numbers)}")

    def join(self, rule: Rule = EXCLUSIVE) -> Snapshot:
        found: Snapshot = self.ask(ops.Enqueue(self.ticket(rule.kind), rule))
        return found

    def entry(self, rule: Rule = EXCLUSIVE) -> Entry:
        mine = self.join(rule).mine
        assert mine is not None
        return mine


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> MemoryServer:
    return MemoryServer(now=clock)


def test_order_and_token_only_rise(server: MemoryServer) -> None:
    a, b = Client(server), Client(server)
    first, second = a.entry(), b.join()
    assert second.mine.token > first.token
    assert [c.ref for c in second.ahead] == [first.ref]
    assert second.ahead[0].session == a.opened.id
    assert (second.complete, second.position) == (True, 1)


def test_enqueue_again_is_the_same_contender(server: MemoryServer) -> None:
    client = Client(server)
    op = ops.Enqueue(client.ticket(), EXCLUSIVE)
    first = client.ask(op)
    assert first.as_of == first.mine.token, "what comes later sees it hold, if it does"
    assert client.ask(op, again=True) == replace(first, as_of=0), "others may have come in between"
    assert len(server.contenders()) == 1


def test_a_withdrawn_attempt_never_lands(server: MemoryServer) -> None:
    client = Client(server)
    ticket = client.ticket()
    assert client.ask(ops.Withdraw(ticket)) is False
    with pytest.raises(SessionLost, match="withdrawn"):
        client.ask(ops.Enqueue(ticket, EXCLUSIVE))
    assert server.buried
    client.ask(ops.End())
    assert not server.buried, "tombstones go with their session"


def test_withdraw(server: MemoryServer) -> None:
    client = Client(server)
    mine = client.entry()
    assert client.ask(ops.Withdraw(mine.ticket, mine)) is True
    assert client.ask(ops.Withdraw(mine.ticket, mine)) is False
    assert client.ask(ops.Withdraw(mine.ticket, mine), again=True) is True, "it was I who deleted it"
    assert client.ask(ops.Withdraw(Ticket("never", "lock", "x"), None)) is False


def test_probe_writes_only_what_is_granted(server: MemoryServer) -> None:
    a, b = Client(server), Client(server)
    ticket = a.ticket()
    assert a.ask(ops.Probe(ticket, EXCLUSIVE)).ahead == ()
    assert a.ask(ops.Probe(ticket, EXCLUSIVE), again=True).mine is not None
    assert b.ask(ops.Probe(b.ticket(), EXCLUSIVE)) is None
    assert len(server.contenders()) == 1


def test_readers_stand_beside_readers(server: MemoryServer) -> None:
    a, b, c = (Client(server) for _ in range(3))
    a.join(SHARED)
    assert b.join(SHARED).ahead == ()
    writer = c.join()
    assert [contender.kind for contender in writer.ahead] == ["R", "R"]
    assert a.ask(ops.Probe(a.ticket("R"), SHARED)) is None, "a writer waits"
    assert a.join(SHARED).ahead[0].kind == "W"


def test_watches_tell_once(server: MemoryServer) -> None:
    a, b = Client(server), Client(server)
    mine, snapshot = a.entry(), b.join()
    assert b.ask(ops.Watch(snapshot.mine, snapshot.ahead)) is True
    a.ask(ops.Withdraw(mine.ticket, mine))
    assert b.mailbox.events == [Gone(mine.ref)]
    assert b.ask(ops.Watch(snapshot.mine, snapshot.ahead)) is False, "it is gone"
    assert not server.watches


def test_look_arms_and_reads(server: MemoryServer) -> None:
    a, b = Client(server), Client(server)
    mine, snapshot = a.entry(), b.join()
    assert b.ask(ops.Look(snapshot.mine, EXCLUSIVE, snapshot.ahead)) == replace(snapshot, as_of=0)
    server.remove(mine.ref)
    assert b.mailbox.events == [Gone(mine.ref)]
    assert b.ask(ops.Look(snapshot.mine, EXCLUSIVE, ())).ahead == ()
    server.remove(snapshot.mine.ref)
    assert b.ask(ops.Look(snapshot.mine, EXCLUSIVE, ())).mine is None


def test_check_arms_unless_there_is_evidence(server: MemoryServer) -> None:
    a, b = Client(server), Client(server)
    mine, snapshot = a.entry(), b.join()
    checked = b.ask(ops.Check(snapshot.mine, snapshot.ahead, Gone(mine.ref)))
    assert checked == ops.Checked(True, frozenset({mine.ref}))
    assert not server.watches
    b.ask(ops.Check(snapshot.mine, snapshot.ahead))
    server.remove(mine.ref)
    assert b.mailbox.events == [Gone(mine.ref)]


def test_forgotten_mailboxes_are_told_nothing(server: MemoryServer) -> None:
    a, b, c = (Client(server) for _ in range(3))
    mine, snapshot = a.entry(), b.join()
    b.ask(ops.Watch(snapshot.mine, snapshot.ahead))
    c.ask(ops.Watch(c.entry(), snapshot.ahead))
    b.connection.forget(b.mailbox)
    a.ask(ops.Withdraw(mine.ticket, mine))
    assert (b.mailbox.events, c.mailbox.events) == ([], [Gone(mine.ref)])
    c.connection.forget(c.mailbox)
    assert not server.watches


def test_sessions_expire_and_take_their_contenders_along(server: MemoryServer, clock: Clock) -> None:
    a, b = Client(server, ttl_s=10.0), Client(server, ttl_s=100.0)
    mine, snapshot = a.entry(), b.join()
    b.ask(ops.Watch(snapshot.mine, snapshot.ahead))
    clock.time += 9.9
    assert len(server.contenders()) == 2
    clock.time += 0.1
    assert [c.session for c in server.contenders()] == [b.opened.id]
    assert b.mailbox.events == [Gone(mine.ref)]
    with pytest.raises(SessionLost, match="has ended on the store"):
        a.ask(ops.Check(mine))
    a.ask(ops.End())


def test_renewals_keep_a_session_and_report_what_is_missing(server: MemoryServer, clock: Clock) -> None:
    a = Client(server, ttl_s=10.0)
    kept, lost = a.entry(), a.entry()
    server.remove(lost.ref)
    clock.time += 9.0
    assert a.ask(ops.Renew((kept, lost), 1.0)) == ops.Renewal(10.0, (lost,))
    clock.time += 9.0
    assert len(server.contenders()) == 1


def test_the_asyncio_connection_is_the_same() -> None:
    backend = MemoryBackend(MemoryServer())
    connection = backend.async_connection(lambda reason: None)
    assert isinstance(connection, AsyncMemoryConnection)

    async def main() -> Any:
        steps = backend.protocol().open(ops.Open(15.0), RequestContext(Mailbox()))
        opened = await connection.ask(steps.send(None), 5.0)
        connection.forget(Mailbox())
        await connection.close()
        return opened

    assert asyncio.run(main()).ttl_s == 15.0


def test_only_commands_should_come() -> None:
    with pytest.raises(AssertionError, match="should be a Command"):
        MemoryConnection(MemoryServer()).ask(Request(), 5.0)


def test_nothing_stays_of_a_lock_that_nobody_wants() -> None:
    with recipes.connect("memory://") as client:
        client.open()
        server = client._runtime.backend.server  # type: ignore[attr-defined]
        for number in range(3):
            client.lock(f"order {number}").acquire().release()
        with client.lock("held"):
            assert len(server.queues) == 1
