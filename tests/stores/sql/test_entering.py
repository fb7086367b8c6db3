"""What a server says of itself before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from recipes.errors import StoreRefused
from recipes.stores.sql import carrying, entering
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import Tables

OWN = {"server_uuid": "a-b-c", "hostname": "h", "port": "3306", "server_id": "1", "read_only": "OFF"}
SINGLE = "group_replication_single_primary_mode"


class Facts:
    """A connection to a server with these variables."""

    def __init__(self, **facts: str) -> None:
        self.facts = facts

    def execute(self, statement: Any) -> list[tuple[str, str]]:
        return [(name, value) for name, value in self.facts.items() if f"'{name}'" in str(statement)]


@pytest.mark.parametrize("more", [{}, {"wsrep_on": "OFF"}, {SINGLE: "ON"}])
def test_one_that_takes_the_writes_alone_is_used(more: dict[str, str]) -> None:
    given: Any = Facts(**OWN, **more)
    assert entering._mysql(given, "mysql://h/d") == "a-b-c"


@pytest.mark.parametrize(("name", "value"), [("wsrep_on", "ON"), (SINGLE, "OFF")])
def test_one_of_several_that_take_writes_is_refused(name: str, value: str) -> None:
    given: Any = Facts(**OWN, **{name: value})
    with pytest.raises(StoreRefused, match="does not hold on its other servers"):
        entering._mysql(given, "mysql://h/d")


class Failing(Exception):
    """An error of a driver."""

    def __init__(self, state: str) -> None:
        super().__init__(state)
        self.sqlstate = state


class Postgres:
    """A connection to a server; once something fails, its transaction can only be rolled back.

    Attributes:
        fails: What a statement that has this in it raises.
        begun: How many transactions have begun.
        asked: Which statements, in turn.
    """

    STARTED_US = 1_700_000_000_123_456
    ANSWERS = (
        ("pg_is_in_recovery", (False, "off", True)),
        ("pg_walfile_name", ("0000000A00000000000000FF",)),
        ("FROM pg_control_system", (7,)),
        ("pg_postmaster_start_time", (STARTED_US,)),
    )

    def __init__(self, fails: dict[str, str] | None = None) -> None:
        self.info: dict[Any, Any] = {}
        self.fails = fails or {}
        self.begun, self.asked = 0, list[str]()
        self._aborted = False

    @contextlib.contextmanager
    def begin(self) -> Iterator[None]:
        self.begun, self._aborted = self.begun + 1, False
        yield

    def execute(self, statement: Any) -> Any:
        assert not self._aborted, "25P02"
        self.asked.append(str(statement))
        for words, state in self.fails.items():
            if words in str(statement):
                self._aborted = True
                raise DBAPIError(None, None, Failing(state))
        row = next(row for words, row in self.ANSWERS if words in str(statement))
        return SimpleNamespace(one=lambda: row, scalar_one=lambda: row[0])


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is noted of servers, in turn."""
    lives: list[str] = []

    def run(_: Any, enter: Any, __: Any) -> tuple[int, int, str]:
        lives.append(enter.keywords["life"])
        return 0, 0, "here"

    monkeypatch.setattr(entering, "run", run)
    return lives


def enter(connection: Any, dialect: str = "postgresql", *, own: bool = True) -> tuple[int, str]:
    return entering.entered(
        connection, Settings("db", Statements(Tables(), dialect), list, own=own, grace_us=0)
    )


def test_a_postgresql_is_noted_by_its_timeline(noted: list[str]) -> None:
    server = Postgres()
    assert enter(server) == (0, "here")
    assert noted == ["7/0000000A"]
    assert (server.begun, len(server.asked)) == (1, 3)


@pytest.mark.parametrize("asked", ["pg_walfile_name", "FROM pg_control_system"])
@pytest.mark.parametrize("state", ["55000", "0A000", "42501"])
def test_one_that_does_not_say_its_timeline_is_noted_by_its_start(
    noted: list[str], asked: str, state: str
) -> None:
    """As Aurora's, or where this role may not ask: no call worked there."""
    assert enter(Postgres({asked: state})) == (0, "here")
    assert noted == [f"0/{Postgres.STARTED_US}"]


def test_another_error_is_raised_as_it_is(noted: list[str]) -> None:
    server = Postgres({"pg_walfile_name": "57P01"})
    with pytest.raises(DBAPIError):
        enter(server)
    assert (server.begun, noted) == (1, [])


# It may lock the row that all others look at: a process that was stopped there kept them all waiting.


@pytest.mark.parametrize("tells", [True, False])
def test_what_notes_a_postgresql_begins_with_the_limits_of_an_act(noted: list[str], tells: bool) -> None:
    server = Postgres({} if tells else {"pg_walfile_name": "55000"})
    enter(server)
    first, *_, last = server.asked if tells else server.asked[2:]
    for limit in ("'lock_timeout', '2s'", "'idle_in_transaction_session_timeout', '5s'"):
        assert f"set_config({limit}, true)" in first
        assert limit not in last
    assert len(noted) == 1


class MySql(Facts):
    """A connection to one that takes the writes alone; `asked` is what it was sent, in turn."""

    closed = invalidated = False

    def __init__(self) -> None:
        super().__init__(**OWN)
        self.info: dict[Any, Any] = {}
        self.asked: list[str] = []

    @contextlib.contextmanager
    def begin(self) -> Iterator[None]:
        yield
        self.asked.append("COMMIT")

    def execute(self, statement: Any) -> list[tuple[str, str]]:
        self.asked.append("the server")
        return super().execute(statement)

    def exec_driver_sql(self, text: str) -> None:
        self.asked.append(text)


@pytest.mark.parametrize("own", [True, False])
def test_what_notes_a_mysql_on_the_engine_of_a_user_is_bounded(
    noted: list[str], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = MySql()
    monkeypatch.setattr(carrying, "said", lambda _, one: server.asked.append(one.text))
    enter(server, "mysql", own=own)
    bound, as_before = ([], []) if own else ([carrying._BOUND, *carrying._BEGIN], [carrying._AS_BEFORE])
    assert server.asked == [*bound, "the server", "COMMIT", *as_before]
    assert noted == ["a-b-c"]
