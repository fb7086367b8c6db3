"""The connections of the kit, over a store that nothing notifies: the JSON file of "How to add a store"."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes import StoreUnavailable
from recipes._contract.operations import End, Enqueue, Entry, List, Open, Renew, Rewrite, Ticket, Withdraw
from recipes._contract.wakeups import Changed, Disturbed, Event, Gone
from recipes._rules.exclusive import EXCLUSIVE
from recipes.stores._kit.blocking import QueueConnection
from recipes.stores._kit.cell import Drop, Keep, Take
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY, Session
from recipes.stores._kit.tasks import AsyncQueueConnection
from tests.pace import taking
from tests.stores.json_file import JsonSession, kept
from tests.stores.stepping import MAILBOX
from tests.threads import refuse


class Box:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.rang = threading.Event()

    def post(self, event: Event) -> None:
        self.events.append(event)
        self.rang.set()


class Ending(Box):
    """Where the thread that delivers an event is ended."""

    def post(self, event: Event) -> None:
        raise SystemExit


class Hanging(JsonSession):
    """A session whose requests have no answer until `over`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.hangs, self.over = threading.Event(), threading.Event()
        self.tried: list[str] = []

    def try_once(self, command: Command, until: float) -> Any:
        self.tried.append(getattr(command.op, "queue", ""))
        self.hangs.set()
        self.over.wait(5)


class Silent(JsonSession):
    """A session with a store that answers no take until `over`, and all else at once with its name."""

    parallel = True

    def __init__(self, path: str) -> None:
        super().__init__(path, "label", lambda _: None)
        self.hangs, self.over, self.closed = threading.Event(), threading.Event(), threading.Event()
        self.threads: set[threading.Thread] = set()

    def try_once(self, command: Command, until: float) -> Any:
        self.threads.add(threading.current_thread())
        if isinstance(command.op, Take):
            self.hangs.set()
            self.over.wait(10)
        return type(command.op).__name__

    def close(self, within_s: float) -> None:
        self.closed.set()

    def all_over(self) -> bool:
        """Whether the threads that carried out something have ended; waits for them."""
        for thread in self.threads:
            thread.join(10)
        return not any(thread.is_alive() for thread in self.threads)


class Serial(Silent):
    parallel = False


TAKE = Command(Take("x", "a/1", 3.0), "a", MAILBOX)
RELEASE = Command(Drop((("y", "a/2"),)), "a", MAILBOX)
OF_THE_SESSION = [
    Command(op, "a", MAILBOX)
    for op in (Open(3.0), Renew((), 3.0), Keep((), 3.0), Drop((("y", "a/2"),), of_session=True))
]
ENDINGS = [RELEASE, Command(End(), "a", MAILBOX)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "locks.json")


@pytest.fixture
def connection(path: str) -> Iterator[Callable[[str], QueueConnection]]:
    connections: list[QueueConnection] = []

    def started(session: str) -> QueueConnection:
        connections.append(QueueConnection(JsonSession(path, "label", ended.append)))
        connections[-1].ask(Command(Open(5.0), session, MAILBOX), 5.0)
        return connections[-1]

    ended: list[str] = []
    started.ended = ended  # type: ignore[attr-defined]
    yield started
    for one in connections:
        one.close()


def join(connection: QueueConnection, session: str, box: Any = MAILBOX, queue: str = "x") -> Entry:
    ticket = Ticket(queue, "lock", f"id-{session}")
    entry: Entry = connection.ask(Command(Enqueue(ticket, EXCLUSIVE), session, box), 5.0).mine
    return entry


def test_a_session_for_which_no_thread_can_be_started_is_not_opened(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = QueueConnection(JsonSession(path, "label", lambda _: None))
    with monkeypatch.context() as patched:
        refuse(patched, "recipes-listener")
        with pytest.raises(StoreUnavailable, match="can't start new thread"):
            one.ask(Command(Open(5.0), "a", MAILBOX), 5.0)
    one.close()


def test_a_worker_that_could_not_be_started_is_started_for_the_next_job(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Silent(path)

    async def scenario() -> None:
        connection = AsyncQueueConnection(session)
        take = await hanging(connection, session)
        with monkeypatch.context() as patched:
            refuse(patched, "recipes-store")
            with pytest.raises(StoreUnavailable, match="can't start new thread") as refused:
                await connection.ask(OF_THE_SESSION[1], 5.0)
        assert refused.value.unsent
        assert await connection.ask(OF_THE_SESSION[1], 5.0) == "Renew"
        session.over.set()
        await take
        await connection.close()

    asyncio.run(scenario())
    assert session.all_over()


def test_what_is_watched_is_looked_after(connection: Any) -> None:
    a, b, box = connection("a"), connection("b"), Box()
    first = join(a, "a")
    join(b, "b", box)
    a.ask(Command(Rewrite(first, "downgraded"), "a", MAILBOX), 5.0)
    assert box.rang.wait(5)
    box.rang.clear()
    assert box.events == [Changed(first.ref)]
    again = Box()
    b.ask(Command(Enqueue(Ticket("x", "lock", "id-b"), EXCLUSIVE), "b", again, again=True), 5.0)
    a.ask(Command(Withdraw(first.ticket, first), "a", MAILBOX), 5.0)
    assert again.rang.wait(5)
    assert again.events == [Gone(first.ref)]


def test_a_queue_is_watched_before_anybody_stands_in_it(connection: Any) -> None:
    a, b, box = connection("a"), connection("b"), Box()
    for _ in range(2):
        assert b.ask(Command(List("x", 5, watch=True), "b", box), 5.0).contenders == ()
    join(a, "a")
    assert box.rang.wait(5)
    assert box.events == [Changed("x")]


def test_the_end_of_a_session_is_noticed_while_a_call_waits_and_said_once(connection: Any, path: str) -> None:
    a, b = connection("a"), connection("b")
    join(a, "a")
    join(b, "b", Box())
    a.ask(Command(End(), "b", MAILBOX), 5.0)
    while not connection.ended:
        b.session.tick()
    b.session.tick()
    assert connection.ended == ["the session has ended on the store"]


def test_a_tick_that_finds_no_answer_is_followed_by_another(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        monkeypatch.undo()
        raise StoreUnavailable("label", "it hangs")

    a, b, box = connection("a"), connection("b"), Box()
    first = join(a, "a")
    monkeypatch.setattr(b.session, "try_once", fail)
    b.session.listen(box, first.ref)
    b.session.tick()
    assert box.events == []
    a.ask(Command(Withdraw(first.ticket, first), "a", MAILBOX), 5.0)
    assert box.rang.wait(5)


def test_a_command_waits_for_another_process_and_no_longer_than_it_may(connection: Any, path: str) -> None:
    a = connection("a")
    with kept(path), pytest.raises(StoreUnavailable, match="others were writing all the time") as busy:
        a.ask(Command(List("x", 1), "a", MAILBOX), 0.05)
    assert busy.value.unsent
    a.forget(MAILBOX)
    assert a.ask(Command(List("x", 1), "a", MAILBOX), 5.0).contenders == ()


def test_a_listener_whose_connection_is_closed_as_it_looks_ends(connection: Any) -> None:
    a = connection("a")
    a.session.tick = a._closed.set
    a.session.listen(Box(), "x/1")
    a._listeners["now"].join(5)
    assert not a._listeners["now"].is_alive()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_listener_that_somebody_ends_disturbs_and_is_replaced(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, box, other = connection("a"), connection("b"), Ending(), Box()
    first = join(a, "a")
    ended = b._listeners["now"]
    b.session.listen(other, join(a, "a", queue="y").ref)
    b.session.listen(box, first.ref)
    a.ask(Command(Rewrite(first, "downgraded"), "a", MAILBOX), 5.0)
    ended.join(5)
    assert not ended.is_alive()
    assert other.rang.wait(5)
    assert other.events == [Disturbed()]
    watching = Box()
    with monkeypatch.context() as patched:
        refuse(patched, "recipes-listener")
        join(b, "b", watching)
    b.ask(Command(List("x", 5), "b", MAILBOX), 5.0)
    a.ask(Command(Withdraw(first.ticket, first), "a", MAILBOX), 5.0)
    assert watching.rang.wait(5)
    assert watching.events == [Gone(first.ref)]


def test_of_two_threads_one_listens_and_none_once_it_is_closed(connection: Any) -> None:
    a = connection("a")
    listener = a._listeners["now"]
    a._work()
    assert a._listeners == {"now": listener}
    assert listener.is_alive()
    a.close()
    a._listeners.clear()
    a._work()
    assert a._listeners == {}


def test_a_session_says_by_itself_that_nothing_is_heard(path: str) -> None:
    session: Session = JsonSession(path, "label", lambda reason: None)
    assert (session.socket, session.taken, session.hear(), session.tick_s) == (None, False, False, None)
    session.listen(Box(), "x/1")  # without a connection nothing is woken
    NOBODY.post(Gone("x/1"))


def test_tasks_are_notified_too(path: str) -> None:
    async def scenario() -> None:
        a, b = (AsyncQueueConnection(JsonSession(path, "label", lambda reason: None)) for _ in "ab")
        for session, connection in (("a", a), ("b", b)):
            await connection.ask(Command(Open(5.0), session, MAILBOX), 5.0)
        box = Box()
        await b.ask(Command(List("x", 5, watch=True), "b", box), 5.0)
        await a.ask(Command(Enqueue(Ticket("x", "lock", "id"), EXCLUSIVE), "a", MAILBOX), 5.0)
        assert await asyncio.to_thread(box.rang.wait, 5)
        assert box.events == [Changed("x")]
        assert b.for_another_loop() is None
        b.forget(box)
        for connection in (a, b, b):
            await connection.close()

    asyncio.run(scenario())


def test_what_was_not_begun_when_it_is_closed_is_answered_at_once(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def hang(*_: object) -> str:
        begun.set()
        assert goes_on.wait(10)
        return "done"

    async def close_amid() -> list[Any]:
        connection = AsyncQueueConnection(JsonSession(path, "label", lambda _: None))
        monkeypatch.setattr(connection.session, "try_once", hang)
        command = Command(List("x", 5), "a", MAILBOX)
        asking = [asyncio.ensure_future(connection.ask(command, 60.0)) for _ in range(3)]
        await asyncio.to_thread(begun.wait, 10)
        closing = asyncio.ensure_future(connection.close())
        await asyncio.sleep(0)
        goes_on.set()
        await closing
        async with asyncio.timeout(10):
            return await asyncio.gather(*asking, return_exceptions=True)

    done, *others = asyncio.run(close_amid())
    assert done == "done"
    assert [(str(error), error.unsent) for error in others] == [
        ("no answer from label: the link is closed; check that it runs and can be reached", True)
    ] * 2


def test_an_answer_that_comes_when_the_loop_is_gone_is_dropped(path: str) -> None:
    session = Hanging(path, "label", lambda reason: None)

    async def scenario() -> AsyncQueueConnection:
        connection = AsyncQueueConnection(session)
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await connection.ask(Command(Open(5.0), "a", MAILBOX), 0.05)
        assert session.hangs.wait(5)
        return connection

    connection = asyncio.run(scenario())
    session.over.set()
    asyncio.run(connection.close())


def test_a_task_is_told_whether_what_had_no_answer_was_begun(path: str) -> None:
    session = Hanging(path, "label", lambda reason: None)

    async def scenario() -> None:
        connection = AsyncQueueConnection(session)
        first = asyncio.create_task(connection.ask(Command(List("x", 1), "a", MAILBOX), 0.5))
        assert await asyncio.to_thread(session.hangs.wait, 5)
        with pytest.raises(StoreUnavailable, match="no answer in time") as second:
            await connection.ask(Command(List("y", 1), "a", MAILBOX), 0.05)
        with pytest.raises(StoreUnavailable, match="no answer in time") as begun:
            await first
        session.over.set()
        await connection.close()
        with pytest.raises(StoreUnavailable, match="the link is closed") as closed:
            await connection.ask(Command(List("z", 1), "a", MAILBOX), 0.05)
        assert [error.value.unsent for error in (begun, second, closed)] == [False, True, True]
        assert session.tried == ["x"]  # and it never is

    asyncio.run(scenario())


async def hanging(connection: AsyncQueueConnection, session: Silent) -> asyncio.Task[Any]:
    """Return a take that is under way, and goes on until `over`."""
    task = asyncio.create_task(connection.ask(TAKE, 10.0))
    assert await asyncio.to_thread(session.hangs.wait, 5)
    return task


def test_what_keeps_the_session_does_not_wait_for_a_request_without_an_answer(path: str) -> None:
    session = Silent(path)

    async def scenario() -> None:
        connection = AsyncQueueConnection(session)
        take = await hanging(connection, session)
        for command in OF_THE_SESSION:
            assert await connection.ask(command, 5.0) == type(command.op).__name__
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await connection.ask(RELEASE, 0.05)
        assert not take.done()
        session.over.set()
        assert await take == "Take"
        await connection.close()

    asyncio.run(scenario())
    assert session.all_over()
    assert len(session.threads) == 2
    assert session.closed.is_set()


def test_what_ends_a_session_comes_behind_what_is_under_way(path: str) -> None:
    """Else a take that lands afterwards would stand until its lease is over."""
    session = Silent(path)

    async def scenario() -> None:
        connection = AsyncQueueConnection(session)
        take = await hanging(connection, session)
        endings = [asyncio.create_task(connection.ask(one, 10.0)) for one in ENDINGS]
        assert await connection.ask(OF_THE_SESSION[1], 10.0) == "Renew"
        assert not any(one.done() for one in (take, *endings))
        session.over.set()
        assert [await one for one in (take, *endings)] == ["Take", "Drop", "End"]
        await connection.close()

    asyncio.run(scenario())
    assert session.all_over()


def test_where_commands_wait_for_each_other_one_thread_carries_out_all(path: str) -> None:
    session = Serial(path)

    async def scenario() -> None:
        connection = AsyncQueueConnection(session)
        take = await hanging(connection, session)
        with pytest.raises(StoreUnavailable, match="no answer in time") as late:
            await connection.ask(OF_THE_SESSION[1], 0.05)
        assert late.value.unsent
        session.over.set()
        await take
        await connection.close()

    asyncio.run(scenario())
    assert session.all_over()
    assert len(session.threads) == 1


def test_a_connection_is_closed_in_time_though_a_request_has_no_answer(path: str) -> None:
    session = Silent(path)

    async def scenario() -> None:
        connection = AsyncQueueConnection(session)
        await connection.ask(OF_THE_SESSION[0], 5.0)
        (keeper,) = session.threads
        take = await hanging(connection, session)
        behind = asyncio.create_task(connection.ask(RELEASE, 10.0))
        await asyncio.sleep(0)
        with taking(1):
            await connection.close()
        assert session.closed.is_set()
        await asyncio.to_thread(keeper.join, 10)
        assert not keeper.is_alive()
        assert not take.done()
        session.over.set()
        assert await take == "Take"
        with pytest.raises(StoreUnavailable, match="the link is closed"):
            await behind

    asyncio.run(scenario())
    assert session.all_over()
    assert len(session.threads) == 2
