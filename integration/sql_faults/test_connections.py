"""Connections that are ended, cut, shared among transactions, or used up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

import recipes
from integration import servers
from integration.faults.actors import Actor, Held
from integration.harness.process import eventually
from integration.lateness import PutOff
from integration.needing import needed
from integration.sql_faults.conftest import PATIENT, SOON_S, Lab, sync
from recipes._run import runtime
from recipes.stores.sql import hearing, protocol
from tests.pace import Pace, taking

pytestmark = pytest.mark.long

LONG_S = PATIENT["session_timeout"]
HEARD_S = 1.0
"""What is notified arrives sooner."""
LISTENS_S = 1.5
"""A connection that listens is followed by another one within this time."""
RENEWED_S = LONG_S / 3
FOUND_S = hearing.PROVE_S + hearing.LATE_S + RENEWED_S + 1
"""A connection that is silent is found to be within this time: it is tried with renewals."""
NOTIFIED_S = 10.0
"""So soon a waiter of `only_notified` looks only at what is notified, if silence is not found: by itself it
looks after two thirds of its session or more, which is when the holder's may be over, too.
"""
POOL_WAITS_S = 2.0
"""In this time a renewal gives the only connection back."""


@pytest.fixture
def only_notified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have waiters look by time so seldom that none is woken by that, nor by the re-read that each does."""
    monkeypatch.setattr(protocol, "NEXT_S", 1000.0)
    monkeypatch.setattr(protocol, "LONGEST_S", 1000.0)
    monkeypatch.setattr(runtime, "LONGEST_REREAD_S", 1000.0)


@pytest.fixture
def hearings(monkeypatch: pytest.MonkeyPatch) -> list[hearing.Hearing]:
    """Return what the sessions hear that are begun from here on, in their order."""
    made: list[hearing.Hearing] = []
    begin = hearing.Hearing.__init__

    def note(one: hearing.Hearing) -> None:
        begin(one)
        made.append(one)

    monkeypatch.setattr(hearing.Hearing, "__init__", note)
    return made


@contextlib.contextmanager
def silence_not_found() -> Iterator[None]:
    """Have no session find out that nothing arrives: its waiters would look by themselves then."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(hearing, "LATE_S", 1000.0)
        yield


@pytest.fixture
def silence_never_found() -> Iterator[None]:
    """Have none find it out in the whole test."""
    with silence_not_found():
        yield


def hand_over(lab: Lab, held: Held, waiter: Actor, *through: servers.Server, within_s: float) -> Held:
    """Have a client wait for a lock that is then released; it is granted in time. Return that grant."""
    waiting = waiter.start_acquire(lab.name)
    assert lab.contenders_become(2, LONG_S)
    assert held.release()
    granted = in_time(waiting, lab.server, *through, within_s=within_s)
    assert granted.token > held.token
    return granted


def in_time(waiting: Future[Held], *through: servers.Server, within_s: float) -> Held:
    """Return a grant, which comes in time but for what the machine and these servers are late."""
    with Pace() as pace:
        late = PutOff(*(one.pid for one in through))
        granted = waiting.result(SOON_S)
        took_s = pace.seconds
        assert took_s < within_s + pace.late_s() + late.seconds
    return granted


def test_fault_51_all_connections_are_ended_by_an_operator(lab: Lab) -> None:
    """What is asked is asked again, and who waits is woken."""
    holder, waiter = lab.client(**PATIENT), lab.client(**PATIENT)
    held = holder.acquire(lab.name)
    waiting = waiter.start_acquire(lab.name)
    assert lab.contenders_become(2, LONG_S)
    assert lab.server.terminate()
    assert held.verify()
    assert holder.acquire("another", timeout=SOON_S).release()
    assert lab.server.terminate()
    assert held.release()
    granted = in_time(waiting, lab.server, within_s=LISTENS_S + HEARD_S)
    assert granted.token > held.token
    assert granted.verify()


def test_fault_51_again_and_again_while_locks_are_acquired(lab: Lab) -> None:
    """Nothing is lost, and nothing left."""
    one = lab.client(**PATIENT)
    kept = one.acquire("kept")
    tokens = []
    for _ in range(5):
        going = one.start_acquire(lab.name)
        lab.server.terminate()
        granted = going.result(SOON_S)
        tokens.append(granted.token)
        assert granted.release()
    assert tokens == sorted(set(tokens))
    assert kept.verify()
    assert lab.contenders_become(1, LONG_S)


def test_fault_52_the_pool_is_used_up(lab: Lab) -> None:
    """That is said, and passes; the session lives on if its renewals get a connection in time."""
    engine = lab.engine(pool_size=1, max_overflow=0, pool_timeout=POOL_WAITS_S)
    one = lab.client(engine, **PATIENT)
    held = one.acquire(lab.name)
    with using_up(lab, one, engine):
        with pytest.raises(recipes.StoreUnavailable, match="pool_size") as caught:
            one.try_acquire("another")
        assert caught.value.unsent
        with pytest.raises(recipes.StoreUnavailable, match="pool_size"):
            held.verify()
        assert held.held
    assert held.verify()
    assert one.acquire("another", timeout=SOON_S).release()
    assert held.release()


def test_fault_52_a_pool_that_is_waited_for_is_named_too(lab: Lab) -> None:
    """By default an engine waits for a connection for longer than a request lasts."""
    engine = lab.engine(pool_size=1, max_overflow=0)
    one = lab.client(engine, session_timeout=LONG_S, request_timeout=1.0)
    with using_up(lab, one, engine), taking(1.5), pytest.raises(recipes.StoreUnavailable, match="pool"):
        one.try_acquire("another")
    assert one.acquire("another", timeout=SOON_S).release()


def test_fault_52_for_longer_than_a_session(lab: Lab) -> None:
    """The session is lost, and said to be, before another is granted."""
    engine = lab.engine(pool_size=1, max_overflow=0, pool_timeout=POOL_WAITS_S)
    times = {"session_timeout": 6.0, "request_timeout": 5.0}
    one, other = lab.client(engine, **times), lab.client(**times)
    held = one.acquire(lab.name)
    waiting = other.start_acquire(lab.name)
    assert lab.contenders_become(2, times["session_timeout"])
    with using_up(lab, one, engine):
        granted = waiting.result(SOON_S)
        assert not held.held
        assert granted.token > held.token
    assert granted.release()
    assert one.acquire(lab.name, timeout=SOON_S).token > granted.token


@contextlib.contextmanager
def using_up(lab: Lab, one: Actor, engine: Any) -> Iterator[None]:
    """Use the only connection of the engine's pool."""

    async def connect() -> Any:
        return await engine.connect()

    async def close() -> None:
        await connection.close()

    if lab.api == "blocking":
        with engine.connect():
            yield
        return
    connection = one.call(connect)
    try:
        yield
    finally:
        one.call(close)


def test_fault_17_the_connection_that_listens_falls_silent(
    lab: Lab, only_notified: None, hearings: list[hearing.Hearing]
) -> None:
    """A waiter looks as soon as that is found, and hears again by another connection."""
    if not lab.notifies:
        pytest.skip("MariaDB notifies nobody: there is nothing to listen to")
    proxy = lab.proxy()
    engine = lab.engine()
    made: list[Any] = []

    @event.listens_for(sync(engine), "do_connect")
    def by_the_proxy(dialect: Any, record: Any, args: Any, options: dict[str, Any]) -> None:
        """Have the first one lead through the proxy: the one that listens is the first."""
        del dialect, record, args
        made.append(options)
        if len(made) == 1:
            options["port"] = proxy.port

    holder, waiter = lab.client(**PATIENT), lab.client(engine, **PATIENT)
    hears = hearings[1]
    assert proxy.connections == 1
    assert eventually(lambda: hears.works, SOON_S)
    with silence_not_found():
        held = hand_over(lab, holder.acquire(lab.name), waiter, within_s=NOTIFIED_S)
    assert held.release()
    proxy.blackhole()
    held = hand_over(lab, holder.acquire(lab.name), waiter, within_s=FOUND_S + 1)
    assert held.release()
    assert eventually(lambda: hears.works, SOON_S), "by another connection, once that has proved itself"
    with silence_not_found():
        hand_over(lab, holder.acquire(lab.name), waiter, within_s=NOTIFIED_S)


@pytest.fixture(params=["transaction", "session"])
def pooled(request: pytest.FixtureRequest, lab: Lab) -> Iterator[servers.PgBouncer]:
    """Yield a PgBouncer before the PostgreSQL, in each of its modes."""
    if not lab.notifies:
        pytest.skip("PgBouncer is for PostgreSQL")
    assert isinstance(lab.server, servers.Postgres)
    server = lab.server
    with needed("pgbouncer", lambda: servers.pgbouncer(server, mode=request.param)) as one:
        yield one


class TestBouncers:
    """A proxy that lends connections for a transaction, or for a session."""

    def test_fault_54_a_client_works(self, lab: Lab, pooled: servers.PgBouncer) -> None:
        """Waiters are granted soon by either: they hear it, or look by time."""
        holder, waiter = (lab.client(pooled.url(lab.prefix), **PATIENT) for _ in range(2))
        held = holder.acquire(lab.name)
        value = holder.client.value("state")
        holder.call(value.set, b"one")
        granted = hand_over(lab, held, waiter, pooled, within_s=HEARD_S)
        assert granted.verify()
        assert granted.release()
        assert holder.call(holder.client.counter("hits").add) == 1

    def test_fault_54_what_is_notified_is_heard_by_sessions_only(
        self, lab: Lab, pooled: servers.PgBouncer, only_notified: None, silence_never_found: None
    ) -> None:
        """Without a look by time, and without one as that is found out, a waiter stays asleep."""
        holder, waiter = (lab.client(pooled.url(lab.prefix), **PATIENT) for _ in range(2))
        held = holder.acquire(lab.name)
        if pooled.settings["pool_mode"] == "session":
            hand_over(lab, held, waiter, pooled, within_s=NOTIFIED_S)
            return
        waiting = waiter.start_acquire(lab.name)
        assert lab.contenders_become(2, LONG_S)
        assert held.release()
        with pytest.raises(TimeoutError):
            waiting.result(2 * HEARD_S)
        waiter.close()
        with pytest.raises((recipes.RecipesError, TimeoutError)):
            waiting.result(SOON_S)


def test_fault_54_a_driver_that_prepares_statements_is_refused(lab: Lab) -> None:
    """A statement that was prepared on one connection is not there on the next: asyncpg cannot work so."""
    if not lab.notifies or lab.api == "blocking":
        pytest.skip("asyncpg is for PostgreSQL, and for asyncio")
    assert isinstance(lab.server, servers.Postgres)
    server = lab.server
    with needed("pgbouncer", lambda: servers.pgbouncer(server)) as pooled, contextlib.ExitStack() as others:
        url = pooled.url(lab.prefix).replace("postgresql:", "postgresql+asyncpg:")
        one = lab.client(url, **PATIENT)
        assert one.acquire(lab.name).release()
        for _ in pooled.show("SERVERS"):  # all connections that it has
            other = psycopg.connect(pooled.url())
            others.callback(other.close)
            other.execute("SELECT 1")
        with pytest.raises(recipes.StoreRefused, match="psycopg"):
            one.try_acquire(lab.name)
