"""The blocking connection: a request that nobody waits for, and one that meets its end."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.sql import blocking
from recipes.stores.sql.blocking import SqlConnection
from recipes.stores.sql.engines import WORKERS
from recipes.stores.sql.requests import Transact
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import Tables
from tests.pace import taking
from tests.threads import refuse

GENEROUS_S = 20.0


def nothing(work: object) -> Iterator[tuple[()]]:
    del work
    return
    yield ()


BEHIND, RELEASE = Transact(nothing, behind_s=GENEROUS_S), Transact(nothing)  # type: ignore[arg-type]
JOIN = Transact(nothing, joins=True)  # type: ignore[arg-type]


class Database:
    """An engine, and what carries out requests: one that nobody waits for hangs until its connection ends.

    Attributes:
        joins_hang: One that joins does so too.
        hanging: The connections of these, once they are used.
        answers: While this is not set, one that connects waits for it.
    """

    joins_hang = False

    def __init__(self) -> None:
        self.hanging: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self.answers = threading.Event()
        self.answers.set()
        self.connecting = threading.Semaphore(0)

    @contextlib.contextmanager
    def connect(self) -> Iterator[Any]:
        self.connecting.release()
        assert self.answers.wait(3 * GENEROUS_S)
        yield SimpleNamespace(connection=SimpleNamespace(driver_connection=threading.Event()))

    def transact(self, connection: Any, request: Transact, *_: Any) -> str:
        ended: threading.Event = connection.connection.driver_connection
        if request.behind_s or (request.joins and self.joins_hang):
            self.hanging.put(ended)
            assert ended.wait(GENEROUS_S)
            raise OSError("the connection was ended")
        return "done"


def connected(database: Any) -> SqlConnection:
    statements = Statements(Tables(), "postgresql")
    connection = SqlConnection(
        Settings("sql://here", statements, lambda: database, own=False, grace_us=0, theirs=database),
        lambda reason: None,
    )
    connection._wire.transact = database.transact  # type: ignore[method-assign]
    return connection


@pytest.mark.parametrize("used", [False, True])
def test_what_is_asked_as_the_connection_is_closed_is_answered_at_once(used: bool) -> None:
    """As by a signal handler that strikes amid the call: there is no worker left to find it."""
    connection = connected(Database())
    if used:
        assert connection.ask(RELEASE, GENEROUS_S) == "done"
    lane = connection._others
    put = lane.put

    def closed_first(job: Any) -> None:
        connection.close()
        put(job)

    lane.put = closed_first  # type: ignore[method-assign]
    with taking(1.0), pytest.raises(StoreUnavailable, match="closed") as refused:
        connection.ask(RELEASE, GENEROUS_S)
    assert refused.value.unsent


def test_without_a_thread_for_it_a_request_is_not_sent_and_the_next_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = connected(Database())
    with monkeypatch.context() as patch:
        refuse(patch, "recipes-sql")
        with pytest.raises(StoreUnavailable, match="can't start new thread") as refused:
            connection.ask(RELEASE, GENEROUS_S)
        assert refused.value.unsent
        assert connection.ask(BEHIND, GENEROUS_S) is None
    assert connection.ask(RELEASE, GENEROUS_S) == "done"
    connection.close()


def test_where_no_other_worker_can_be_started_the_one_there_is_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Database()
    connection = connected(database)
    database.answers.clear()
    asking = threading.Thread(target=connection.ask, args=(RELEASE, GENEROUS_S))
    asking.start()
    assert database.connecting.acquire(timeout=GENEROUS_S)
    refuse(monkeypatch, "recipes-sql")
    threading.Timer(0.1, database.answers.set).start()
    assert connection.ask(RELEASE, GENEROUS_S) == "done"
    asking.join()
    connection.close()


def test_what_nobody_waits_for_is_ended_if_it_still_hangs_when_the_next_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking, "hang_up", threading.Event.set)
    database = Database()
    connection = connected(database)
    assert connection.ask(BEHIND, GENEROUS_S) is None
    first = database.hanging.get(timeout=GENEROUS_S)
    assert connection.ask(RELEASE, GENEROUS_S) == "done"
    assert not first.is_set()
    assert connection.ask(BEHIND, GENEROUS_S) is None
    assert first.is_set()
    second = database.hanging.get(timeout=GENEROUS_S)
    with taking(1.0):
        connection.close()
    assert second.is_set()
    with pytest.raises(StoreUnavailable, match="closed"):
        connection.ask(BEHIND, GENEROUS_S)


def test_a_renewal_that_is_stuck_as_it_connects_keeps_no_later_one_waiting() -> None:
    """Nobody can hang up on it: the network was back, and the session was lost for all that."""
    database = Database()
    connection = connected(database)
    database.answers.clear()
    renewal = Transact(nothing, session=True)  # type: ignore[arg-type]
    asking = [threading.Thread(target=connection.ask, args=(renewal, GENEROUS_S)) for _ in range(2)]
    for one in asking:
        one.start()
    connect = [database.connecting.acquire(timeout=GENEROUS_S / 4) for _ in asking]
    database.answers.set()
    for one in asking:
        one.join()
    connection.close()
    assert connect == [True, True]


def interrupted_joins(
    database: Database, connection: Any, monkeypatch: pytest.MonkeyPatch, *, times: int, timeout_s: float
) -> list[threading.Event]:
    """Have an interrupt strike so many joins that hang; return what is set as each is hung up on."""
    monkeypatch.setattr(blocking, "hang_up", threading.Event.set)
    database.joins_hang = True
    hanging: list[threading.Event] = []

    def interrupted(*_: object) -> bool:
        hanging.append(database.hanging.get(timeout=GENEROUS_S))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(blocking, "acquire", interrupted)
        for _ in range(times):
            with pytest.raises(KeyboardInterrupt):
                connection.ask(JOIN, timeout_s)
    database.joins_hang = False
    return hanging


def test_what_an_interrupt_left_keeps_no_worker_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PyMySQL waits for ever for a server that is silent: four interrupts were as many workers."""
    database = Database()
    connection = connected(database)
    hanging = interrupted_joins(database, connection, monkeypatch, times=WORKERS[1], timeout_s=0.0)
    assert connection.ask(JOIN, GENEROUS_S / 2) == "done"
    assert all(one.is_set() for one in hanging)
    connection.close()


def test_what_an_interrupt_left_is_done_if_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database()
    connection = connected(database)
    (hanging,) = interrupted_joins(database, connection, monkeypatch, times=1, timeout_s=GENEROUS_S)
    assert connection.ask(RELEASE, GENEROUS_S) == "done"
    assert not hanging.is_set()
    connection.close()


def test_what_a_driver_lacks_to_log_in_is_an_answer() -> None:
    """As the package that PyMySQL needs for MySQL's own way; it counted as a mistake of ours."""
    database = Database()
    connection = connected(database)

    def connect() -> Any:
        raise RuntimeError("'cryptography' package is required")

    database.connect = connect  # type: ignore[method-assign]
    with pytest.raises(StoreRefused, match="'cryptography' package is required"):
        connection.ask(RELEASE, GENEROUS_S)
    connection.close()


@pytest.mark.parametrize(("rest_s", "again_s"), [(0.0, 1.0), (120.0, 120.0)])
def test_what_hears_nothing_again_and_again_listens_seldom(rest_s: float, again_s: float) -> None:
    waited: list[float] = []
    over: Any = SimpleNamespace(is_set=lambda: bool(waited), wait=waited.append)
    wire: Any = SimpleNamespace(hearing=SimpleNamespace(rest_s=rest_s, lost=list))

    def connect() -> None:
        raise OSError

    blocking._Listener(SimpleNamespace(raw_connection=connect), wire, over).run()
    assert waited == [again_s]
