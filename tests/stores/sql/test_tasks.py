"""What the asyncio connection does when a driver does not answer, or its caller leaves."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.util import await_only, greenlet_spawn

from recipes._contract.wakeups import Changed, Disturbed
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.sql import tasks
from recipes.stores.sql.ears import ears_of
from recipes.stores.sql.hearing import DEAF_S, DEAF_TIMES, Hearing
from recipes.stores.sql.requests import Listen, Transact
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import Tables
from recipes.stores.sql.tasks import AsyncSqlConnection
from tests.pace import taking

GENEROUS_S = 20.0
SOON_S = 0.05
STEPS = ["connecting", "acting", "committing", "leaving"]
JOIN, RELEASE, RENEW, OPEN = (
    Transact(lambda work: None, **more)  # type: ignore[arg-type, return-value]
    for more in ({"joins": True}, {}, {"session": True}, {"session": True, "channel": "recipes_me"})
)


class Raw:
    """A connection of a driver, as asyncpg's."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.heard: Callable[..., None] | None = None
        self.lost: Callable[..., None] = lambda _: None

    def terminate(self) -> None:
        self.ended.set()
        self.lost(self)

    def add_termination_listener(self, lost: Callable[..., None]) -> None:
        self.lost = lost

    def remove_termination_listener(self, lost: Callable[..., None]) -> None:
        assert lost == self.lost

    async def add_listener(self, channel: str, heard: Callable[..., None]) -> None:
        assert channel == "recipes_me"
        self.heard = heard


class Database:
    """An engine, its connections, and what carries out requests on them; each can hang at a step.

    Attributes:
        hangs: The steps that wait for what never comes.
        deaf: What hangs does not find that its connection was ended: only cancelling it helps.
        reached: The steps that were reached.
    """

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.deaf = False
        self.reached: list[str] = []
        self.raws: list[Raw] = []
        self.hearing = Hearing()

    async def step(self, name: str, raw: Raw | None = None) -> None:
        self.reached.append(name)
        if name in self.hangs:
            if raw is None or self.deaf:
                await asyncio.Event().wait()
            assert raw is not None
            await raw.ended.wait()
            raise OSError("the connection was ended")

    # As an AsyncEngine.

    def execution_options(self, **_: object) -> Database:
        return self

    async def connect(self) -> Lent:
        await self.step("connecting")
        self.raws.append(Raw())
        return Lent(self, self.raws[-1])

    # As a Wire.

    def options(self, request: Transact) -> dict[str, Any]:
        del request
        return {}

    def late(self, progress: Any, *, unsent: bool) -> StoreUnavailable:
        del progress
        return StoreUnavailable("postgresql://host/app", "no answer in time", unsent=unsent)

    def transact(self, connection: Lent, request: Transact, progress: Any, *_: Any) -> str:
        await_only(self.step("acting", connection.raw))
        progress.ending()
        await_only(self.step("committing", connection.raw))
        return "renewed" if request.session else "done"


class Lent:
    """A connection of the pool."""

    def __init__(self, database: Database, raw: Raw) -> None:
        self._database, self.raw = database, raw
        self.connection = SimpleNamespace(driver_connection=raw)

    async def run_sync(self, what: Callable[..., Any], *values: Any) -> Any:
        return await greenlet_spawn(what, self, *values)

    def detach(self) -> None:
        """Leave the pool."""

    async def close(self) -> None:
        await self._database.step("leaving", self.raw)


Case = Callable[[AsyncSqlConnection, Database], Coroutine[Any, Any, None]]


def run(case: Case, *, listens: bool = False) -> None:
    """Run a case; nothing may be left over that somebody has to be told of."""
    complaints: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, said: complaints.append(said))
        database = Database()
        settings = Settings(
            "sql://here",
            Statements(Tables(), "postgresql"),
            lambda: database,
            own=False,
            grace_us=0,
            theirs=database,
            listens=listens,
        )
        connection = AsyncSqlConnection(settings, lambda reason: None)
        connection._wire = database  # type: ignore[assignment]
        await asyncio.wait_for(case(connection, database), GENEROUS_S)
        await asyncio.wait_for(connection.close(), GENEROUS_S)
        await over(connection)

    asyncio.run(main())
    gc.collect()
    assert complaints == []


async def over(connection: AsyncSqlConnection) -> None:
    """Wait until nothing is under way, without asking for its end."""
    while connection._under_way:
        done, _ = await asyncio.wait(list(connection._under_way), timeout=GENEROUS_S)
        assert done, f"still under way: {connection._under_way}"
        await asyncio.sleep(0)


async def until(so: Callable[[], bool]) -> None:
    """Let other tasks go on until it is so."""
    while not so():  # noqa: ASYNC110 - what goes on needs no time
        await asyncio.sleep(0)


def test_a_request_is_answered() -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        assert await connection.ask(RELEASE, GENEROUS_S) == "done"
        assert database.reached == STEPS
        assert not database.raws[0].ended.is_set()

    run(case)


@pytest.mark.parametrize("deaf", [False, True], ids=["ends", "deaf"])
@pytest.mark.parametrize("step", STEPS)
def test_an_answer_that_does_not_come_is_waited_for_until_the_deadline(step: str, deaf: bool) -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs, database.deaf = {step}, deaf
        with pytest.raises(StoreUnavailable, match="no answer in time") as caught:
            await connection.ask(RELEASE, SOON_S)
        assert caught.value.unsent is (step in STEPS[:2])
        assert all(raw.ended.is_set() for raw in database.raws)
        await over(connection)

    run(case)


@pytest.mark.parametrize("deaf", [False, True], ids=["ends", "deaf"])
@pytest.mark.parametrize("step", STEPS)
def test_a_caller_that_is_cancelled_leaves_at_once_and_what_it_asked_ends(step: str, deaf: bool) -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs, database.deaf = {step}, deaf
        asking = asyncio.create_task(connection.ask(RELEASE, GENEROUS_S))
        await until(lambda: step in database.reached)
        asking.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert asking.cancelled()
        assert all(raw.ended.is_set() for raw in database.raws)
        await over(connection)
        database.hangs = set()
        assert await connection.ask(RELEASE, GENEROUS_S) == "done"

    run(case)


def test_what_fails_behind_a_caller_that_left_is_reported_to_nobody() -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs = {"acting"}  # which then fails: see `Database.step`
        with pytest.raises(StoreUnavailable):
            await connection.ask(JOIN, SOON_S)

    run(case)


@pytest.mark.parametrize("step", STEPS)
def test_an_error_of_the_driver_says_whether_anything_was_sent(step: str) -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        async def failing(name: str, raw: Raw | None = None) -> None:
            del raw
            if name == step:
                raise ConnectionResetError(104, "reset by peer")

        database.step = failing  # type: ignore[method-assign]
        with pytest.raises(StoreUnavailable, match="reset") as caught:
            await connection.ask(RELEASE, GENEROUS_S)
        assert caught.value.unsent is (step in STEPS[:2])

    run(case)


def test_what_a_driver_lacks_to_log_in_is_an_answer() -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        async def failing(name: str, raw: Raw | None = None) -> None:
            del name, raw
            raise RuntimeError("'cryptography' package is required")

        database.step = failing  # type: ignore[method-assign]
        with pytest.raises(StoreRefused, match="'cryptography' package is required"):
            await connection.ask(RELEASE, GENEROUS_S)

    run(case)


def test_neither_releases_nor_renewals_wait_behind_those_that_join() -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs = {"acting"}
        joining = [asyncio.create_task(connection.ask(JOIN, GENEROUS_S)) for _ in range(9)]
        await until(lambda: database.reached.count("acting") == 4)
        assert len(database.raws) == 4
        with pytest.raises(StoreUnavailable, match="earlier requests take too long") as caught:
            await connection.ask(JOIN, SOON_S)
        assert caught.value.unsent
        database.hangs = set()
        assert await connection.ask(RELEASE, GENEROUS_S) == "done"
        assert await connection.ask(RENEW, GENEROUS_S) == "renewed"
        for raw in database.raws[:4]:
            raw.terminate()
        ends = await asyncio.gather(*joining, return_exceptions=True)
        assert [type(end) for end in ends] == [StoreUnavailable] * 4 + [str] * 5

    run(case)


@pytest.mark.parametrize("deaf", [False, True], ids=["ends", "deaf"])
@pytest.mark.parametrize("step", STEPS)
def test_closing_ends_what_is_under_way_within_a_second(step: str, deaf: bool) -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs, database.deaf = {step}, deaf
        asking = asyncio.create_task(connection.ask(RELEASE, GENEROUS_S))
        await until(lambda: step in database.reached)
        with taking(1.0):
            await connection.close()
        with pytest.raises(StoreUnavailable) as caught:
            await asking
        assert caught.value.unsent is (step in STEPS[:2])
        with pytest.raises(StoreUnavailable, match="closed") as caught:
            await connection.ask(RELEASE, GENEROUS_S)
        assert caught.value.unsent

    run(case)


@pytest.mark.parametrize("deaf", [False, True], ids=["ends", "deaf"])
def test_what_nobody_waits_for_ends_when_its_time_is_over(deaf: bool) -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs, database.deaf = {"acting"}, deaf
        behind = replace(RELEASE, behind_s=SOON_S)
        assert await connection.ask(behind, GENEROUS_S) is None
        assert database.reached == []
        await over(connection)
        assert database.reached[:2] == STEPS[:2]
        assert database.raws[0].ended.is_set()

    run(case)


def test_closing_ends_what_nobody_waits_for() -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        database.hangs = {"acting"}
        behind = replace(RELEASE, behind_s=GENEROUS_S)
        assert await connection.ask(behind, GENEROUS_S) is None
        await until(lambda: "acting" in database.reached)
        with taking(1.0):
            await connection.close()
        assert not connection._under_way
        with pytest.raises(StoreUnavailable, match="closed"):
            await connection.ask(behind, GENEROUS_S)

    run(case)


class Mail:
    """A mailbox."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def post(self, event: Any) -> None:
        self.events.append(event)


def test_it_listens_before_it_opens_and_says_so_once_it_has_heard_itself() -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        mail = Mail()
        assert await connection.ask(OPEN, GENEROUS_S) == "renewed"
        listening = database.raws[0]
        assert listening.heard is not None
        database.hearing._disturbed_at = 0.0
        assert not await connection.ask(Listen(("a/1",), mail), GENEROUS_S)
        listening.heard(None, 1, "recipes_me", "")
        assert await connection.ask(Listen(("a/1",), mail), GENEROUS_S)
        listening.heard(None, 1, "recipes_me", "capp:a/1")
        assert mail.events == [Changed("a/1")]

    run(case, listens=True)


def test_a_listening_connection_that_is_lost_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "RETRY_S", 0.0)

    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        await connection.ask(OPEN, GENEROUS_S)
        mail = Mail()
        await connection.ask(Listen(("a/1",), mail), GENEROUS_S)
        mail.events.clear()
        assert database.raws[0].heard is not None
        database.raws[0].heard(None, 1, "recipes_me", "")
        assert database.hearing.works
        database.raws[0].terminate()
        await until(lambda: len(database.raws) == 3 and database.raws[2].heard is not None)
        assert mail.events == [Disturbed()]
        assert not database.hearing.works

    run(case, listens=True)


@pytest.mark.parametrize(("deaf", "again_s"), [(0, 1.0), (DEAF_TIMES, DEAF_S)])
def test_what_hears_nothing_again_and_again_listens_seldom(
    monkeypatch: pytest.MonkeyPatch, deaf: int, again_s: float
) -> None:
    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        slept: list[float] = []

        async def sleep(for_s: float) -> None:
            slept.append(for_s)
            connection._closed = True

        async def connect() -> Lent:
            raise OSError

        database.connect = connect  # type: ignore[method-assign]
        database.hearing._deaf = deaf
        with monkeypatch.context() as patch:
            patch.setattr(asyncio, "sleep", sleep)
            await connection._listen(tasks._Progress(), asyncio.Event())
        assert slept == [again_s]

    run(case, listens=True)


def test_a_session_begins_also_if_it_cannot_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "LISTEN_WITHIN_S", SOON_S)

    async def case(connection: AsyncSqlConnection, database: Database) -> None:
        first = asyncio.Event()

        async def connect(do: Any = database.connect) -> Lent:
            if not first.is_set():
                first.set()
                await asyncio.Event().wait()
            lent: Lent = await do()
            return lent

        database.connect = connect  # type: ignore[method-assign]
        assert await connection.ask(OPEN, GENEROUS_S) == "renewed"
        assert not database.hearing.works

    run(case, listens=True)


class Socket:
    """A connection of psycopg, whose notifications are lines."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.pgconn = self
        self.said: list[str] = []
        self._lines: list[bytes] = []

    def fileno(self) -> int:
        return self.near.fileno()

    def add_notify_handler(self, handler: Callable[[Any], None]) -> None:
        handler(SimpleNamespace(payload="with the answer"))

    async def execute(self, statement: str) -> None:
        self.said.append(statement)

    def consume_input(self) -> None:
        data = self.near.recv(4096)
        if not data:
            raise OSError("the server closed the connection")
        self._lines += data.splitlines()

    def notifies(self) -> Any:
        return SimpleNamespace(extra=self._lines.pop(0)) if self._lines else None


def test_psycopg_is_read_when_something_arrives_until_its_end() -> None:
    async def main() -> None:
        raw, heard, came = Socket(), [], asyncio.Event()

        def hear(payload: str) -> None:
            heard.append(payload)
            came.set()

        with raw.near, raw.far:
            async with ears_of(raw, "recipes_me", hear) as deaf:
                assert raw.said == ['LISTEN "recipes_me"']
                came.clear()
                raw.far.send(b"one\ntwo\n")
                await asyncio.wait_for(came.wait(), GENEROUS_S)
                assert heard == ["with the answer", "one", "two"]
                assert not deaf.done()
                raw.far.close()
                await asyncio.wait_for(deaf, GENEROUS_S)
            assert not asyncio.get_running_loop().remove_reader(raw.near)

    asyncio.run(main())


def test_a_reader_of_what_has_the_descriptor_of_a_lost_connection_by_now_is_left() -> None:
    """The driver closes its socket as it finds its end."""

    class Lost(Socket):
        def consume_input(self) -> None:
            self.near.close()
            raise OSError("the server closed the connection")

    async def main() -> None:
        raw, loop, read = Lost(), asyncio.get_running_loop(), asyncio.Event()
        number = raw.fileno()
        near, far = socket.socketpair()
        with raw.near, raw.far, near, far:
            async with ears_of(raw, "recipes_me", lambda _: None) as deaf:
                raw.far.send(b"one")
                await asyncio.wait_for(deaf, GENEROUS_S)
                os.dup2(near.fileno(), number)
                loop.add_reader(number, read.set)
            far.send(b"two")
            await asyncio.wait_for(read.wait(), GENEROUS_S)
            loop.remove_reader(number)
            os.close(number)

    asyncio.run(main())
