"""What isolation means at the gate of PostgreSQL: nobody stale passes, at any level."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row

from integration import servers
from integration.fencing.doors import PsycopgDoor, place_on
from recipes import StaleToken
from recipes.fencing import SqlGate

gate = SqlGate()
LEVELS = [
    psycopg.IsolationLevel.READ_COMMITTED,
    psycopg.IsolationLevel.REPEATABLE_READ,
    psycopg.IsolationLevel.SERIALIZABLE,
]


@pytest.fixture
def place(postgres: servers.Postgres) -> str:
    """Return an address of a schema with the table of the gate, and nothing seen."""
    return place_on(postgres, PsycopgDoor)


@pytest.fixture
def first(place: str) -> Iterator[psycopg.Connection]:
    """Yield a connection."""
    with psycopg.connect(place) as connection:
        yield connection


@pytest.fixture
def second(place: str) -> Iterator[psycopg.Connection]:
    """Yield another."""
    with psycopg.connect(place) as connection:
        yield connection


class Behind:
    """A call of the gate in another thread, which waits for the row that somebody holds."""

    def __init__(self, connection: psycopg.Connection, token: int) -> None:
        self.outcome: object = None
        self._connection = connection
        self._thread = threading.Thread(target=self._run, args=[token])
        self._thread.start()

    def _run(self, token: int) -> None:
        try:
            gate.admit(self._connection, "x", token)
            self.outcome = "passed"
        except (StaleToken, psycopg.Error) as refused:
            self.outcome = type(refused)

    def wait_until_it_waits(self, operator: psycopg.Connection) -> None:
        pid = self._connection.info.backend_pid
        blocked = "SELECT cardinality(pg_blocking_pids(%s)) > 0"
        assert servers.eventually(lambda: operator.execute(blocked, [pid]).fetchone() == (True,), 10)

    def end(self) -> object:
        self._thread.join(10)
        return self.outcome


@pytest.mark.parametrize("known", [True, False], ids=["known", "first-use"])
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name.lower())
def test_who_waited_is_judged_by_what_was_committed(
    first: psycopg.Connection,
    second: psycopg.Connection,
    place: str,
    level: psycopg.IsolationLevel,
    *,
    known: bool,
) -> None:
    if known:
        gate.admit(first, "x", 1)
        first.commit()
    second.isolation_level = level
    second.execute("SELECT count(*) FROM stock")  # a snapshot, if the level has one
    gate.admit(first, "x", 7)
    late = Behind(second, 6)
    with psycopg.connect(place, autocommit=True) as operator:
        late.wait_until_it_waits(operator)
    first.commit()
    snapshot = level is not psycopg.IsolationLevel.READ_COMMITTED
    assert late.end() is (psycopg.errors.SerializationFailure if snapshot else StaleToken)
    second.rollback()
    with pytest.raises(StaleToken):
        gate.admit(second, "x", 6)


@pytest.mark.parametrize("known", [True, False], ids=["known", "first-use"])
def test_who_waited_for_one_that_rolled_back_passes(
    first: psycopg.Connection, second: psycopg.Connection, place: str, *, known: bool
) -> None:
    if known:
        gate.admit(first, "x", 1)
        first.commit()
    gate.admit(first, "x", 7)
    other = Behind(second, 6)
    with psycopg.connect(place, autocommit=True) as operator:
        other.wait_until_it_waits(operator)
    first.rollback()
    assert other.end() == "passed"


@pytest.mark.parametrize("level", LEVELS[1:], ids=lambda level: level.name.lower())
def test_a_snapshot_from_before_a_later_holder_commits_nothing(
    first: psycopg.Connection, second: psycopg.Connection, level: psycopg.IsolationLevel
) -> None:
    gate.admit(first, "x", 5)
    first.commit()
    second.isolation_level = level
    assert second.execute("SELECT newest FROM fences").fetchone() == (5,)
    gate.admit(first, "x", 7)
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        gate.admit(second, "x", 6)


def test_other_resources_do_not_wait(first: psycopg.Connection, second: psycopg.Connection) -> None:
    for resource in ("x", "y"):
        gate.admit(first, resource, 1)
    first.commit()
    gate.admit(first, "x", 7)
    second.execute("SET LOCAL lock_timeout = '5s'")
    gate.admit(second, "y", 7)


def test_autocommit_is_refused_but_for_a_block(place: str) -> None:
    with psycopg.connect(place, autocommit=True) as connection:
        with pytest.raises(ValueError, match="commits each statement by itself"):
            gate.admit(connection, "x", 5)
        with connection.transaction():
            gate.admit(connection, "x", 5)
        with pytest.raises(StaleToken), connection.transaction():
            gate.admit(connection.cursor(), "x", 4)


@pytest.mark.parametrize("rows", [dict_row, namedtuple_row])
def test_any_kind_of_row_does(place: str, rows: object) -> None:
    with psycopg.connect(place, row_factory=rows) as connection:  # type: ignore[call-overload]
        gate.admit(connection, "x", 5)
        with pytest.raises(StaleToken):
            gate.admit(connection, "x", 4)


def test_a_missing_table_is_the_databases_error(first: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable):
        SqlGate("no_such").admit(first, "x", 5)
