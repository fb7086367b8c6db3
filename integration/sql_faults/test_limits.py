"""Databases that are full, whose clock is set, and whose transactions are set up otherwise, or undone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.exc import DBAPIError

import recipes
from integration import servers
from integration.faults.actors import APIS, Actor
from integration.harness.disk import fill, on_small_disk
from integration.harness.process import eventually
from integration.needing import needed
from integration.sql_faults.conftest import MAKE, PATIENT, SOON_S, Lab, tables_of
from recipes.stores.sql import carrying
from recipes.stores.sql.engines import LOCK_WAIT_S

pytestmark = pytest.mark.long

LONG_S = PATIENT["session_timeout"]
FULL: dict[str, Any] = {"session_timeout": 10.0, "request_timeout": 10.0}
"""For a client that is renewed on a full database: a request may be slow there."""
OVER_S = 120.0
"""Of a session that lasts while a database ends and is started again."""
UNRENEWED_S = 90.0
"""Of a session whose first renewal comes later than what a test does before it."""
HOUR_S = 3600
BIG = b"x" * 50_000
SPACE_MB = 20
ISOLATION = "SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = %s"
"""Of a transaction of MariaDB; what a connection can read says it of those that follow."""
SETTINGS = {
    "postgresql": "SELECT current_setting('lock_timeout') = '0'",
    "mysql": "SELECT @@innodb_lock_wait_timeout = @@global.innodb_lock_wait_timeout"
    " AND @@lock_wait_timeout = @@global.lock_wait_timeout"
    " AND @@wait_timeout = @@global.wait_timeout AND @@sql_mode = @@global.sql_mode",
}
WAITERS = {
    "postgresql": "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    "mysql": "SELECT group_concat(trx_mysql_thread_id) FROM information_schema.innodb_trx"
    " WHERE trx_state = 'LOCK WAIT'",
}
WAITING = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    "mysql": "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'",
}


# Full.


def write_until_full(one: Actor) -> recipes.StoreFull:
    """Write large values until there is no room for one more; return what is said then."""
    for number in range(1000):
        try:
            one.call(one.client.value(f"large-{number}").set, BIG)
        except recipes.StoreFull as full:
            return full
    raise AssertionError("there should be no room for so much")


def keeps_on(one: Actor, lab: Lab, kept: Any, released: Any) -> None:
    """See that what is held is renewed and can be released, and what fits is granted."""
    assert not kept.wait_lost(2 * FULL["session_timeout"]), "it should be renewed"
    assert kept.verify()
    assert released.release()
    again = one.acquire("released", timeout=SOON_S)
    assert again.token > released.token
    assert again.release()


@pytest.mark.parametrize("api", APIS)
def test_fault_21_the_disk_of_a_postgresql_is_full(api: str, prefix: str) -> None:
    """What needs a new page is refused; what is held is renewed and released in pages that are there."""
    made = needed("postgres", lambda: servers.postgres(keeps=True))
    with contextlib.ExitStack() as stack:
        needed("a small disk", lambda: stack.enter_context(on_small_disk(made, "200m")))
        lab = Lab(made, api, prefix)
        stack.callback(lab.close)
        one = lab.client(**FULL)
        kept, released = one.acquire("kept"), one.acquire("released")
        filler = fill(made.home)
        assert "free space there" in str(write_until_full(one))
        keeps_on(one, lab, kept, released)
        filler.unlink()
        one.call(one.client.value("large").set, BIG)
        assert kept.verify()
        assert kept.release()


@pytest.mark.parametrize("api", APIS)
def test_fault_21_the_tablespace_of_a_mariadb_is_full(api: str, prefix: str) -> None:
    """The same, when the files of the database may grow no more."""
    limit = {
        "innodb-file-per-table": "0",
        "innodb-data-file-path": f"ibdata1:12M:autoextend:max:{SPACE_MB}M",
    }
    with needed("mariadb", lambda: servers.mariadb(keeps=True, settings=limit)) as made:
        lab = Lab(made, api, prefix)
        try:
            one = lab.client(**FULL)
            kept, released = one.acquire("kept"), one.acquire("released")
            assert "free space there" in str(write_until_full(one))
            keeps_on(one, lab, kept, released)
            for number in range(10):
                one.call(one.client.value(f"large-{number}").delete)
            assert eventually(lambda: fits(one), SOON_S)
            assert kept.verify()
        finally:
            lab.close()


def fits(one: Actor) -> bool:
    """Whether there is room for a large value."""
    try:
        one.call(one.client.value("large").set, BIG)
    except recipes.StoreFull:
        return False
    return True


@pytest.mark.parametrize("api", APIS)
def test_fault_21_the_disk_of_a_mariadb_is_full(api: str, prefix: str) -> None:
    """InnoDB ends the server after some seconds of trying; with room, and started, it has all that was."""
    made = needed("mariadb", lambda: servers.mariadb(keeps=True))
    with contextlib.ExitStack() as stack:
        needed("a small disk", lambda: stack.enter_context(on_small_disk(made, "200m")))
        lab = Lab(made, api, prefix)
        stack.callback(lab.close)
        one = lab.client(**{**PATIENT, "session_timeout": OVER_S})
        held = one.acquire(lab.name)
        before = lab.contenders(OVER_S)
        filler = fill(made.home)
        with pytest.raises((recipes.StoreUnavailable, recipes.StoreFull, recipes.OutcomeUnknown)):
            one.call(one.client.value("large").set, BIG)
        assert held.held
        filler.unlink()
        made.restart()
        assert lab.contenders(OVER_S) == before
        assert held.verify()
        one.call(one.client.value("another").set, BIG)
        assert held.release()


# The clock.


@pytest.fixture(params=list(MAKE))
def clocked(request: pytest.FixtureRequest) -> Iterator[servers.Database]:
    """Yield a database whose clock can be set."""
    made = needed(request.param, lambda: MAKE[request.param](keeps=True))
    needed("a clock that can be set", lambda: made.set_clock(0))
    with made:
        yield made


@pytest.mark.parametrize("api", APIS)
def test_fault_48_the_clock_is_set_forward_while_a_lock_is_held(
    clocked: servers.Database, api: str, prefix: str
) -> None:
    """Sessions end early: who held believes it until its next renewal, and the next has a larger token."""
    lab = Lab(clocked, api, prefix)
    try:
        options = {**PATIENT, "session_timeout": UNRENEWED_S}
        holder, other = lab.client(**options), lab.client(**options)
        held = holder.acquire(lab.name)
        clocked.set_clock(HOUR_S)
        granted = other.acquire(lab.name, timeout=SOON_S)
        both = held.held
        assert both, "as docs/stores/sql.md says; the next renewal is a third of a session away"
        assert granted.token > held.token + (HOUR_S - 60) * 1_000_000
        assert held.wait_lost(2 * UNRENEWED_S / 3)  # that is two intervals of renewals
        clocked.set_clock(0)
        assert granted.release() in (True, False)
        last = lab.client(**options).acquire(lab.name, timeout=SOON_S)
        assert last.token > granted.token
    finally:
        lab.close()


# Transactions.


@pytest.mark.parametrize("how", [{"isolation_level": "AUTOCOMMIT"}, {"connect_args": {"autocommit": True}}])
def test_fault_53_the_engine_of_the_user_commits_each_statement(lab: Lab, how: dict[str, Any]) -> None:
    """An act is a transaction all the same: of one that is undone nothing is left."""
    one, other = (lab.client(lab.engine(**how), **PATIENT) for _ in range(2))
    held = one.acquire(lab.name)
    assert other.try_acquire(lab.name) is None
    assert len(lab.contenders(LONG_S)) == 1
    assert held.release()
    assert other.acquire(lab.name).token > held.token


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_fault_53_the_engine_of_the_user_has_another_isolation(
    lab: Lab, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Acts are READ COMMITTED all the same, and what the user does is as before."""
    engines = [lab.engine(isolation_level=isolation) for _ in range(3)]
    clients = [lab.client(one, **PATIENT) for one in engines]
    said = Said(monkeypatch, lab.server)
    patient = carrying._BOUND.replace("lock_wait_timeout = 2,", "lock_wait_timeout = 60,")
    assert patient != carrying._BOUND
    monkeypatch.setattr(carrying, "_BOUND", patient)  # each look takes a tenth of a second, with rows locked
    tokens = []
    going = {one.start_acquire(lab.name) for one in clients for _ in range(2)}
    while going:
        done, going = wait(going, SOON_S, FIRST_COMPLETED)
        (granted,) = (one.result() for one in done)
        tokens.append(granted.token)
        assert granted.release()
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 6
    assert said.levels == {"READ COMMITTED"}
    assert not said.failed, "nothing should have been undone"
    assert level_of(clients[0], engines[0]) == isolation


class Said:
    """What is sent to the database in the acts of all clients from here on.

    Attributes:
        levels: The isolation of each transaction that locks or writes, if the server is given.
        failed: What the database said of what it did not do.
    """

    def __init__(self, patched: pytest.MonkeyPatch, server: Any = None) -> None:
        self.levels: set[str] = set()
        self.failed: list[str] = []
        self._say, self._server, self._looking = carrying.said, server, threading.Lock()
        patched.setattr(carrying, "said", self._note)

    def _note(self, connection: Any, one: Any) -> Any:
        try:
            found = self._say(connection, one)
        except DBAPIError as error:
            self.failed.append(str(error.orig))
            raise
        if self._server is not None and one.text.startswith(("INSERT", "UPDATE", "DELETE")):
            self.levels.add(self._level(connection).upper().replace("-", " "))
        return found

    def _level(self, connection: Any) -> str:
        cursor = connection.connection.cursor()
        postgresql = self._server.scheme == "postgresql"
        cursor.execute("SHOW transaction_isolation" if postgresql else "SELECT CONNECTION_ID()")
        ((said,),) = cursor.fetchall()
        cursor.close()
        if postgresql:
            return str(said)
        found: list[tuple[str]] = []

        def seen() -> bool:
            found[:] = self._server.ask(ISOLATION, said)
            return bool(found)

        with self._looking:  # what it shows is made anew where nobody has read it for a tenth of a second
            assert eventually(seen, SOON_S, every_s=0.15)
        return found[0][0]


def level_of(one: Actor, engine: Any) -> str:
    """Return the isolation of a connection as the user gets it."""

    async def ask() -> str:
        async with engine.connect() as connection:
            return str(await connection.get_isolation_level())

    if isinstance(engine, sqlalchemy.Engine):
        with engine.connect() as connection:
            return str(connection.get_isolation_level())
    return str(one.call(ask))


def test_fault_53_nothing_waits_for_long_on_the_engine_of_the_user(lab: Lab) -> None:
    """A request that nobody waited for any more waited on, on the server, for as long as that has it wait."""
    one = lab.client(lab.engine(), session_timeout=LONG_S, request_timeout=1.0)
    one.acquire(lab.name)
    (contender,) = lab.contenders(LONG_S)
    row = contender.rpartition("/")[0]
    lock = sqlalchemy.text(f"SELECT token FROM {tables_of(LONG_S)}queue WHERE name = :name FOR UPDATE")
    with lab.plain(isolation_level="READ COMMITTED").connect() as user, user.begin():
        user.execute(lock, {"name": row})
        trying = one.start(one.client.lock(lab.name).try_acquire, timeout=1.0)
        assert eventually(lambda: waiters(lab), SOON_S, every_s=0.01)
        first = waiters(lab)  # others come, of what withdraws it
        assert isinstance(trying.exception(SOON_S), recipes.StoreUnavailable)
        assert eventually(lambda: not first & waiters(lab), 4 * LOCK_WAIT_S)


@pytest.mark.parametrize("theirs", [True, False])
def test_fault_53_nothing_waits_for_long_while_nothing_may_be_written(lab: Lab, theirs: bool) -> None:
    """As a backup has it: each request waited on, on the server, which took no more connections at last."""
    if lab.notifies:
        pytest.skip("PostgreSQL has no such lock")
    place = lab.engine() if theirs else None
    one = lab.client(place, session_timeout=LONG_S, request_timeout=1.0)
    with lab.server.connect() as admin, admin.cursor() as cursor:
        cursor.execute("FLUSH TABLES WITH READ LOCK")
        trying = one.start(one.client.lock(lab.name).try_acquire, timeout=1.0)
        assert eventually(lambda: held_up(lab), SOON_S, every_s=0.01)
        first = held_up(lab)
        assert isinstance(trying.exception(SOON_S), recipes.StoreUnavailable)
        assert eventually(lambda: not first & held_up(lab), 4 * LOCK_WAIT_S)
        cursor.execute("UNLOCK TABLES")
    assert one.acquire(lab.name).release()


def held_up(lab: Lab) -> set[str]:
    """Return which connections MySQL has wait for something larger than a row."""
    found = lab.server.one(
        "SELECT group_concat(id) FROM information_schema.processlist WHERE state LIKE 'Waiting for % lock'"
    )
    return {*filter(None, (found or "").split(","))}


def waiters(lab: Lab) -> set[str]:
    """Return whom the server has wait for a row."""
    return {*filter(None, (lab.server.one(WAITERS[lab.server.scheme]) or "").split(","))}


def test_fault_53_the_engine_of_the_user_has_settings_of_its_own_afterwards(lab: Lab) -> None:
    engine = lab.engine(pool_size=1, max_overflow=0)
    one = lab.client(engine, **PATIENT)
    assert one.acquire(lab.name).release()
    one.call(one.client.value("v").set, b"1")
    assert settings_of(one, engine, lab.server.scheme)


def settings_of(one: Actor, engine: Any, scheme: str) -> bool:
    """Return whether a connection, as the user gets it, has the settings of the server."""
    asked = sqlalchemy.text(SETTINGS[scheme])

    async def ask() -> bool:
        async with engine.connect() as connection:
            return bool((await connection.execute(asked)).scalar_one())

    if isinstance(engine, sqlalchemy.Engine):
        with engine.connect() as connection:
            return bool(connection.execute(asked).scalar_one())
    return bool(one.call(ask))


def test_fault_53_a_deadlock_with_a_transaction_of_the_user(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The act that is undone is begun again: that of a session that ends, which locks its queues by name."""
    said = Said(monkeypatch)
    tries = (_deadlock(lab, number, said) for number in range(10))
    assert any(tries), "the database should have chosen the client"
    assert lab.contenders(LONG_S) == ()


def _deadlock(lab: Lab, number: int, said: Said) -> bool:
    """Have a client and a transaction wait for each other; whether the client's was undone.

    PostgreSQL undoes whichever finds the deadlock, one second after it began to wait.
    """
    one = lab.client(lab.engine(), **PATIENT)
    for name in ("a", "b"):
        one.acquire(name)
    first, second = (contender.rpartition("/")[0] for contender in lab.contenders(LONG_S))
    lock = sqlalchemy.text(f"SELECT token FROM {tables_of(LONG_S)}queue WHERE name = :name FOR UPDATE")
    tables = tables_of(LONG_S)
    many = sqlalchemy.text(f"INSERT INTO {tables}buried (id, until_us) VALUES (:id, 0)")
    with lab.plain(isolation_level="READ COMMITTED").connect() as user, user.begin() as transaction:
        ids = [{"id": f"{lab.prefix}-{number}-{n}"} for n in range(300)]
        user.execute(many, ids)  # MariaDB does not undo the larger one
        user.execute(lock, {"name": second})
        closing = one.start(one.client.close)
        assert eventually(lambda: lab.server.one(WAITING[lab.server.scheme]), SOON_S, every_s=0.005)
        with contextlib.suppress(sqlalchemy.exc.DBAPIError):
            user.execute(lock, {"name": first})
        transaction.rollback()
    closing.result(SOON_S)
    return any("eadlock" in one for one in said.failed)
