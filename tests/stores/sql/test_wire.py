"""What a transaction on PostgreSQL begins with, on a connection that notes what it is asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import literal, select
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from recipes._contract.wakeups import Disturbed
from recipes._run.clock import boot_time
from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.sql import carrying
from recipes.stores.sql import wire as module
from recipes.stores.sql.acts import Acts, expect_same
from recipes.stores.sql.requests import Ask, Listen, Transact, Work
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.statements import Statements
from recipes.stores.sql.tables import PREFIX, Tables
from recipes.stores.sql.texts import Said
from recipes.stores.sql.wire import QUICK_FROM, Progress, Wire
from tests.stores.stepping import Box


class Driver:
    """A driver's connection, which commits by itself, and of which a mode cannot be set if it ``refuses``."""

    def __init__(self) -> None:
        self.commits, self.refuses = 0, False
        self._autocommit = True

    def commit(self) -> None:
        self.commits += 1

    def rollback(self) -> None:
        """As it goes back to a pool."""

    @property
    def autocommit(self) -> bool:
        return self._autocommit

    @autocommit.setter
    def autocommit(self, commits: bool) -> None:
        if self.refuses:
            raise RuntimeError("in a transaction")
        self._autocommit = commits


class Noting:
    """A connection; `said` are the settings of each transaction, `texts` what was sent besides.

    Attributes:
        began: The isolation level that each transaction began with, if one was set.
        found: What each statement finds.
        fails: What one that has this in it raises.
    """

    dialect: Any = postgresql.dialect()

    def __init__(self) -> None:
        self.info: dict[Any, Any] = {("recipes", PREFIX, 0): (0, "here")}  # which server it is, is known
        self.began: list[str] = []
        self.said: list[list[bool]] = []
        self.texts: list[str] = []
        self.levels: list[str] = []
        self.found: list[tuple[Any, ...]] = [(7,)]
        self.fails: dict[str, Exception] = {}
        self.invalidated = False
        self.connection = self
        self.driver_connection: Any = object()  # of a driver that prepares by itself
        self.dbapi_connection = Driver()
        self.engine = SimpleNamespace(pool=NullPool(Driver))

    def execution_options(self, *, isolation_level: str) -> Noting:
        self.levels.append(isolation_level)
        return self

    def get_execution_options(self) -> dict[str, str]:
        return {"isolation_level": self.levels[-1]} if self.levels else {}

    def invalidate(self, _: object = None) -> None:
        self.invalidated = True

    @contextlib.contextmanager
    def begin(self) -> Iterator[Any]:
        self.said.append([])
        self.began += self.levels[-1:]
        yield

    def execute(self, statement: Any) -> Any:
        local = {one.clauses.clauses[2].value for one in statement.selected_columns}
        self.said[-1] += local
        return SimpleNamespace(returns_rows=False, rowcount=1)

    def said_by(self, _: object, one: Said) -> Any:
        for words, error in self.fails.items():
            if words in one.text:
                raise DBAPIError(None, None, error)
        self.texts.append(one.text.partition("(")[0])
        return self.found


def nothing(work: object) -> Iterator[tuple[()]]:
    del work
    return
    yield ()


def transacting(*, own: bool, heard: bool) -> Noting:
    """Return the connection after two transactions of a session."""
    wire = Wire(Settings("db", Statements(Tables(), "postgresql"), object, own=own, grace_us=0))
    if heard:
        wire.hearing.connected()
        wire.hearing.hear("open")
    connection: Any = Noting()
    for _ in range(2):
        wire.transact(connection, Transact(nothing), Progress(), boot_time() + 9)  # type: ignore[arg-type]
    found: Noting = connection
    return found


def test_settings_are_said_once_to_a_connection_that_no_proxy_lends() -> None:
    assert transacting(own=True, heard=True).said == [[False], [], []]


@pytest.mark.parametrize(("own", "heard"), [(True, False), (False, True), (False, False)])
def test_settings_are_said_to_each_transaction_else(own: bool, heard: bool) -> None:
    assert transacting(own=own, heard=heard).said == [[True], [True]]


def test_what_enters_by_the_engine_of_a_user_is_read_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else, of two that come first, one would not see what the other has noted of the server."""
    levels: list[str] = []

    def entering(connection: Any, _: object) -> tuple[int, str]:
        levels.extend(connection.levels[-1:])
        return 0, "here"

    monkeypatch.setattr(module, "entered", entering)
    transacting(own=False, heard=False)
    assert levels == ["READ COMMITTED"] * 2


@pytest.mark.parametrize("refuses", [False, True])
def test_a_connection_of_the_user_goes_back_in_the_modes_in_which_it_came(refuses: bool) -> None:
    pool = QueuePool(Driver, pool_size=1)
    for _ in range(2):
        lent = pool.connect()
        driver: Any = lent.dbapi_connection
        given: Any = SimpleNamespace(info=lent.info, connection=lent, engine=SimpleNamespace(pool=pool))
        driver.autocommit, before = True, driver.commits
        for _ in range(2):
            carrying.given_back_as_it_is(given)
        assert driver.commits == before + 1
        driver.autocommit = False
        driver.refuses = refuses
        lent.close()  # type: ignore[no-untyped-call]
        assert driver.autocommit is not refuses
        driver.refuses = False


# In one call.

TAKEN, MADE = "SELECT * FROM pg_temp.", "CREATE OR REPLACE FUNCTION pg_temp."


def short(work: Work) -> Any:
    (found,) = yield (Ask(select(literal(1)), {}),)
    return found[0][0] if found else None


def long(work: Work) -> Any:
    del work
    yield (Ask(select(literal(2)), {}),)
    return "long"


class Failing(Exception):
    """An error of a driver."""

    def __init__(self, state: str) -> None:
        super().__init__()
        self.sqlstate = state


class Calling:
    """Requests with a quick way, on one connection."""

    def __init__(self, patched: pytest.MonkeyPatch, *, own: bool = True) -> None:
        statements = Statements.of(PREFIX, "postgresql")
        self.wire = Wire(Settings("db", statements, object, own=own, grace_us=0))
        self.wire.hearing.connected()
        self.wire.hearing.hear("open")
        self.connection = Noting()
        patched.setattr(carrying, "said", self.connection.said_by)

    def ask(self, times: int = 1) -> Any:
        for _ in range(times):
            self.progress = Progress()
            given: Any = self.connection
            found = self.wire.transact(given, Transact(long, quick=short), self.progress, boot_time() + 9)
        return found


def test_a_connection_that_is_used_again_is_sent_whole_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    assert calling.ask(QUICK_FROM) == "long"
    calling.connection.texts.clear()
    assert calling.ask(2) == 7
    assert [one.startswith(MADE) for one in calling.connection.texts] == [True, False, False]
    assert [one.startswith(TAKEN) for one in calling.connection.texts] == [False, True, True]
    assert calling.progress.sent, "who waits no more must not be told that nothing was done"


def test_a_driver_that_can_is_made_to_prepare_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    driver = calling.connection.driver_connection = SimpleNamespace(prepare_threshold=None)
    calling.ask(QUICK_FROM)
    assert driver.prepare_threshold == 1


def test_what_is_not_done_in_one_call_is_done_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    calling.ask(QUICK_FROM + 1)
    calling.connection.found = []
    assert calling.ask() == "long"
    assert calling.connection.levels[-2:] == ["AUTOCOMMIT", "READ COMMITTED"]


def test_what_is_begun_again_after_a_call_is_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread of the session may find meanwhile that no act can be sent whole any more."""
    calling = Calling(monkeypatch)
    calling.ask(QUICK_FROM + 1)
    calling.connection.fails[TAKEN] = Failing("40P01")

    def pause(_: float) -> None:
        calling.wire._calls = False

    given: Any = calling.connection
    given.began.clear()
    request = Transact(long, quick=short)
    assert calling.wire.transact(given, request, Progress(), boot_time() + 9, pause) == "long"
    assert given.began == ["READ COMMITTED"]


def test_on_the_engine_of_a_user_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch, own=False)
    assert calling.ask(QUICK_FROM + 2) == "long"
    assert set(calling.connection.levels) == {"READ COMMITTED"}


def test_nothing_is_called_while_the_server_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    calling.ask(QUICK_FROM + 1)
    calling.connection.info["recipes", PREFIX, 0] = 1, "here"
    assert calling.ask() == "long"


def test_where_no_function_may_be_made_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    calling.connection.fails[MADE] = Failing("42501")
    assert calling.ask(QUICK_FROM + 2) == "long"
    calling.connection.fails.clear()
    assert calling.ask() == "long"


@pytest.mark.parametrize("state", ["26000", "0A000", "42883"])
def test_what_a_proxy_has_lost_is_not_used_again(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    calling = Calling(monkeypatch)
    calling.ask(QUICK_FROM + 1)
    calling.connection.fails[TAKEN] = Failing(state)
    with pytest.raises(StoreUnavailable, match="a proxy may lend them") as caught:
        calling.ask()
    assert caught.value.unsent
    assert calling.connection.invalidated
    assert calling.ask() == "long"


def test_a_call_whose_answer_is_lost_may_have_been_carried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    calling.ask(QUICK_FROM + 1)
    calling.connection.fails[TAKEN] = ConnectionResetError(104, "reset by peer")
    with pytest.raises(StoreUnavailable, match="reset") as caught:
        calling.ask()
    assert not caught.value.unsent


# Where the server's queue of notifications is full.


class Full(Noting):
    """A connection to a PostgreSQL that commits nothing that notifies, while it is `full`."""

    full = True

    def __init__(self) -> None:
        super().__init__()
        self._rings = False

    @contextlib.contextmanager
    def begin(self) -> Iterator[Any]:
        self._rings = False
        with super().begin() as transaction:
            yield transaction
        if self.full and self._rings:
            raise DBAPIError(None, None, Failing("54000"))

    def said_by(self, _: object, one: Said) -> Any:
        self.texts.append(one.text)
        self._rings = self._rings or ("pg_notify" in one.text and "IN (NULL)" not in one.text)
        return self.found


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> tuple[Wire, Full]:
    """Return a session on such a connection, which has heard itself long ago."""
    wire = Wire(Settings("db", Statements.of(PREFIX, "postgresql"), object, own=True, grace_us=0))
    wire.hearing.channel = "recipes_me"
    wire.hearing.connected()
    wire.hearing.hear("open")
    wire.hearing._heard_at -= 99
    connection = Full()
    monkeypatch.setattr(carrying, "said", connection.said_by)
    return wire, connection


def transacted(wire: Wire, connection: Any, request: Transact) -> Any:
    return wire.transact(connection, request, Progress(), boot_time() + 9, lambda _: None)


def test_a_renewal_is_done_without_its_proof_and_waiters_look_by_time(full: tuple[Wire, Full]) -> None:
    """Each one failed, so every holder lost its session."""
    (wire, connection), mail = full, Box()
    listen = Listen(("x/7",), mail)
    assert wire.hearing.listen(listen)
    renewal = Transact(long, session=True)
    for _ in range(2):
        assert transacted(wire, connection, renewal) == "long"
    assert [("pg_notify" in one) for one in connection.texts] == [False, True, False] * 2
    assert mail.events == [Disturbed()]
    assert not wire.hearing.listen(listen)
    connection.full = False
    assert transacted(wire, connection, renewal) == "long"
    wire.hearing.hear("")
    assert wire.hearing.listen(listen), "it is proved again"


def test_a_session_that_cannot_be_notified_begins_all_the_same(full: tuple[Wire, Full]) -> None:
    wire, connection = full
    acts = Acts(Statements.of(PREFIX, "postgresql"), "app", "recipes_", "me")
    opening = partial(acts.open, ttl_us=1)
    transacted(wire, connection, Transact(opening, session=True, channel=acts.channel))
    assert not wire.hearing.works
    assert not wire.hearing.overdue
    assert wire.hearing.to_prove()


SILENCED: dict[str, Any] = {
    "remove": partial(Acts.remove, queue="x", one="a1", token=7, bury=False),
    "expel": partial(Acts.expel, queue="x", token=7),
}


@pytest.mark.parametrize("name", SILENCED)
def test_what_rings_is_done_without_ringing(full: tuple[Wire, Full], name: str) -> None:
    wire, connection = full
    acts = Acts(Statements.of(PREFIX, "postgresql"), "app", "recipes_", "me")
    connection.found, mail = [(1, 0)], Box()
    wire.hearing.listen(Listen(("x/7",), mail))
    assert transacted(wire, connection, Transact(partial(SILENCED[name], acts))) is True
    assert [one for one in connection.texts if "pg_notify" in one][1].count("IN (NULL)") == 1
    assert mail.events == [Disturbed()]


def test_what_was_sent_whole_is_done_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = Calling(monkeypatch)
    calling.ask(QUICK_FROM + 1)
    calling.connection.fails[TAKEN] = Failing("54000")
    assert calling.ask() == "long"
    assert not calling.wire.hearing.works


def test_a_limit_that_is_met_before_the_commit_is_another_and_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calling = Calling(monkeypatch)
    calling.connection.fails[""] = Failing("54000")
    with pytest.raises(StoreUnavailable):
        calling.ask()
    assert calling.wire.hearing.works


# Tables that are missing.


class Empty(Noting):
    """A connection to a database where a table is missing until all are made."""

    def __init__(self, *, can_be_made: bool) -> None:
        super().__init__()
        self.fails[""] = Failing("42P01")
        self.made: list[str] = []
        self._can_be_made = can_be_made

    def exec_driver_sql(self, text: str) -> None:
        self.made.append(text.partition(" EXISTS ")[2].split()[0])
        if self._can_be_made:
            self.fails.clear()


@pytest.mark.parametrize(("create", "can_be_made"), [(True, True), (True, False), (False, True)])
def test_tables_that_an_act_misses_are_made_once(
    monkeypatch: pytest.MonkeyPatch, create: bool, can_be_made: bool
) -> None:
    """The table that each connection looks at first may be there: made by another client a moment ago."""
    connection = Empty(can_be_made=can_be_made)
    monkeypatch.setattr(carrying, "said", connection.said_by)
    statements = Statements.of(PREFIX, "postgresql")
    wire = Wire(Settings("db", statements, object, own=True, grace_us=0, create_tables=create))
    given: Any = connection
    if create and can_be_made:
        assert wire.transact(given, Transact(long), Progress(), boot_time() + 9) == "long"
    else:
        with pytest.raises(StoreRefused, match="tables are missing"):
            wire.transact(given, Transact(long), Progress(), boot_time() + 9)
    every = [one.name for one in statements.tables.of("postgresql")]
    assert connection.made == (every if create else [])
    assert every[-1] == "recipes_server", "where it is, all others are"


# What MySQL is told on the engine of a user.


class Locked(Noting):
    """One of MySQL, which has settings of its own."""

    dialect: Any = mysql.dialect()
    closed = False

    def exec_driver_sql(self, text: str) -> None:
        self.texts.append(text)


BEGIN = ["ROLLBACK AND NO CHAIN", "SET TRANSACTION ISOLATION LEVEL READ COMMITTED", "START TRANSACTION"]


def bounding(request: Transact, connection: Any, monkeypatch: pytest.MonkeyPatch, *, own: bool) -> list[str]:
    """Carry a request out there; return which settings were said, and where the transaction was."""
    seen: list[str] = connection.texts

    def noted(connection: Any, one: Said) -> Any:
        found = connection.said_by(connection, one)
        seen[-1:] = [one.text]
        return found

    def carried_out(connection: Any, *_: object, prepare: Any = None, **__: object) -> str:
        if prepare is not None:
            prepare(connection)
        seen.append("the act")
        return "done"

    monkeypatch.setattr(carrying, "said", noted)
    monkeypatch.setattr(module, "carry_out", carried_out)
    settings = Settings("mysql://h", Statements(Tables(), "mysql"), list, own=own, grace_us=0)
    assert Wire(settings).transact(connection, request, Progress(), boot_time() + 9) == "done"
    return seen


def test_on_the_engine_of_a_user_mysql_ends_what_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was stopped there kept its row locked for as long as a connection may be idle: hours."""
    before, *begin, act, behind = bounding(Transact(long), Locked(), monkeypatch, own=False)
    limits = "SESSION innodb_lock_wait_timeout = 2, SESSION lock_wait_timeout = 2, SESSION wait_timeout = 5"
    assert limits in before
    assert "@recipes_waits = @@innodb_lock_wait_timeout, @recipes_tables = @@lock_wait_timeout" in before
    assert "@recipes_idle = @@wait_timeout" in before
    assert "@recipes_mode = @@sql_mode" in before
    assert "SESSION sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')" in before
    assert [*begin, act] == [*BEGIN, "the act"]
    assert behind.removeprefix("SET ").split(", ") == [
        "SESSION innodb_lock_wait_timeout = @recipes_waits",
        "SESSION lock_wait_timeout = @recipes_tables",
        "SESSION wait_timeout = @recipes_idle",
        "SESSION sql_mode = @recipes_mode",
    ]


@pytest.mark.parametrize(
    ("silent", "own", "levels"), [(True, False, ["READ COMMITTED"]), (True, True, []), (False, False, [])]
)
def test_an_engine_that_keeps_rollbacks_to_itself_is_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, silent: bool, own: bool, levels: list[str]
) -> None:
    """What was to be undone stayed open on the connection, and the user's next statements were part of it."""
    connection = Locked()
    connection.dialect = mysql.dialect()
    connection.dialect.skip_autocommit_rollback = silent
    bounding(Transact(long), connection, monkeypatch, own=own)
    assert connection.levels == levels


@pytest.mark.parametrize(("reads", "own", "begin"), [(True, False, BEGIN), (False, True, [])])
def test_what_locks_nothing_or_is_bounded_already_is_not(
    monkeypatch: pytest.MonkeyPatch, reads: bool, own: bool, begin: list[str]
) -> None:
    assert bounding(Transact(long, reads=reads), Locked(), monkeypatch, own=own) == [*begin, "the act"]


@pytest.mark.parametrize("reads", [True, False])
def test_on_the_engine_of_a_user_nothing_is_left_to_be_set_back_as_mysql_is_returned(
    monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """SQLAlchemy does so without a bound; a call that was cancelled meanwhile took its place in the pool."""
    connection = Locked()
    bounding(Transact(long, reads=reads), connection, monkeypatch, own=False)
    assert connection.levels == []


def test_a_connection_whose_settings_cannot_be_as_before_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Locked()
    connection.fails["= @recipes_waits"] = Failing("08000")
    bounding(Transact(long), connection, monkeypatch, own=False)
    assert connection.invalidated


# Behind a proxy.


class Lent(Noting):
    """A connection that a proxy leads to the first of `servers`."""

    def __init__(self, *servers: str) -> None:
        super().__init__()
        self.info.clear()
        self.servers = list(servers)
        self.entered: list[str] = []

    def enter(self, connection: Any, _: object) -> tuple[int, str]:
        assert connection is self
        if not self.info:
            self.entered.append(self.servers[0])
            self.info["recipes", PREFIX, 0] = 0, self.servers[0]
        found: tuple[int, str] = self.info["recipes", PREFIX, 0]
        return found


@pytest.mark.parametrize("reads", [True, False])
def test_a_connection_that_leads_to_another_server_is_entered_again(
    monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """Its grace is asked for, and what was begun is undone."""
    lent = Lent("P1")
    monkeypatch.setattr(module, "entered", lent.enter)
    wire = Wire(Settings("db", Statements(Tables(), "postgresql"), object, own=True, grace_us=0))

    def granting(work: Work) -> Any:
        yield ()
        expect_same(work, lent.servers[0])
        return lent.servers[0]

    def granted() -> Any:
        given: Any = lent
        request = Transact(granting, reads=reads)
        return wire.transact(given, request, Progress(), boot_time() + 9, lambda _: None)

    assert (granted(), granted()) == ("P1", "P1")
    lent.servers = ["P2"]
    assert granted() == "P2"
    assert lent.entered == ["P1", "P2"]
