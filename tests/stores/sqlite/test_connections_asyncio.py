"""The asyncio connection: its requests are bounded, it closes, and it looks when it heard too much."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from recipes import StoreUnavailable
from recipes._contract.operations import Renewal
from recipes._contract.wakeups import Gone
from recipes.stores._kit.blocking import QueueConnection
from recipes.stores._kit.tasks import AsyncQueueConnection
from recipes.stores.sqlite import notifications as sockets
from recipes.stores.sqlite.session import FileSession
from recipes.stores.sqlite.transactions import Transaction
from tests.pace import taking
from tests.stores.sqlite.connecting import Box, finish, join, joining, renew, start


def test_a_request_of_a_task_is_bounded_and_given_up(path: str) -> None:
    async def scenario() -> None:
        connection = AsyncQueueConnection(FileSession(path, "label", lambda reason: None))
        await connection.ask(start("a"), 10.0)
        writer = sqlite3.connect(path, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with taking(1), pytest.raises(StoreUnavailable):
            await connection.ask(renew("a"), 0.2)
        cut = asyncio.create_task(connection.ask(renew("a"), 0.5))
        never = asyncio.create_task(connection.ask(finish("a"), 5.0))
        await asyncio.sleep(0.05)
        never.cancel()
        cut.cancel()
        await asyncio.gather(cut, never, return_exceptions=True)
        writer.execute("COMMIT")
        writer.close()
        assert await connection.ask(renew("a"), 10.0) == Renewal(5.0)  # what was given up was not done
        connection.forget(Box())
        await connection.close()
        await connection.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            await connection.ask(renew("a"), 10.0)

    asyncio.run(scenario())


def test_a_task_waits_no_longer_than_it_said_for_a_file_that_hangs(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object) -> None:
        over.wait(20)

    over = threading.Event()

    async def scenario() -> None:
        connection = AsyncQueueConnection(FileSession(path, "label", lambda reason: None))
        await connection.ask(start("a"), 10.0)
        monkeypatch.setattr(Transaction, "carry_out", hang)
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await connection.ask(renew("a"), 0.1)
        assert not over.is_set()  # it hangs still
        over.set()
        await connection.close()

    asyncio.run(scenario())


def test_a_connection_that_was_never_used_closes(path: str) -> None:
    async def scenario() -> None:
        await AsyncQueueConnection(FileSession(path, "label", lambda reason: None)).close()

    asyncio.run(scenario())
    QueueConnection(FileSession(path, "label", lambda reason: None)).close()


def test_hearing_too_much_makes_an_asyncio_client_look(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "TICK_S", 60.0)  # else it looks by itself

    async def scenario() -> None:
        connection = AsyncQueueConnection(FileSession(path, "label", lambda reason: None))
        other = QueueConnection(FileSession(path, "label", lambda reason: None))
        other.ask(start("b"), 10.0)
        token = join(other, "b")
        await connection.ask(start("a"), 10.0)
        box = Box()
        await connection.ask(joining("a", box), 10.0)
        with sqlite3.connect(path) as db:
            db.execute("DELETE FROM contender WHERE token = ?", (token,))
        db.close()
        notifications = other.session.notifications
        assert notifications is not None
        notifications.ring("a")  # says nothing: look
        assert await asyncio.to_thread(box.rang.wait, 10)
        assert box.events == [Gone(f"x/{token}")]
        await connection.close()
        other.close()

    asyncio.run(scenario())
