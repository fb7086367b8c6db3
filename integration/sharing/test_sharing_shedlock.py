"""``layout="shedlock"`` beside a service with ShedLock: its documented statements, run by plain drivers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy

import recipes
from integration import servers
from integration.faults.actors import APIS, Actor, actor
from integration.harness.process import eventually
from integration.proxy import Proxy
from integration.shedlock.documented import Service
from integration.shedlock.store import ShedlockStore
from integration.stores import engine_of

LONG = {"session_timeout": 60.0, "request_timeout": 20.0}
SHORT = {"session_timeout": 4.0, "request_timeout": 2.0}
"""Where a session ends, or an answer does not come."""
SOON_S = 30.0


class Place:
    """A root, clients of it, and services beside them."""

    def __init__(self, server: servers.Database, prefix: str, api: str) -> None:
        self.store, self._api, self._clients = ShedlockStore(server, prefix), api, list[Actor]()
        self.row, self.service = f"{prefix}:nightly", self.store.operator

    def client(self, url: str = "", **options: Any) -> Actor:
        given = {**self.store.options, **LONG, **options}
        one = actor(self._api, url or self.store.url(), **given)
        self._clients.append(one)
        one.open()
        return one

    def close(self) -> None:
        for one in self._clients:
            one.close()
        self.store.close()


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> servers.Database:
    """Return each database in turn, running."""
    one: servers.Database = request.getfixturevalue(request.param)
    one.resume()
    one.start()
    return one


@pytest.fixture(params=APIS)
def place(request: pytest.FixtureRequest, database: servers.Database, prefix: str) -> Iterator[Place]:
    """Yield a place, for each API in turn."""
    one = Place(database, prefix, request.param)
    yield one
    one.close()


def test_both_exclude_each_other_and_wait_for_each_other(place: Place) -> None:
    service, ours = place.service, place.client()
    assert service.lock(place.row)
    assert ours.try_acquire("nightly") is None
    waiting = ours.start_acquire("nightly")
    assert service.extend(place.row, 60)
    service.unlock(place.row)
    held = waiting.result(SOON_S)
    assert not service.lock(place.row)
    assert not service.extend(place.row, 60)
    service.unlock(place.row)  # what is not its own
    assert held.verify()
    assert held.release()
    assert service.lock(place.row)
    assert ours.try_acquire("nightly") is None
    service.unlock(place.row)
    again = ours.acquire("nightly")
    assert again.token > held.token
    assert again.release()


def test_what_a_service_that_died_has_is_free_when_its_time_is_over(place: Place) -> None:
    ours = place.client()
    assert place.service.lock(place.row, at_most_s=1.5)
    assert ours.try_acquire("nightly") is None
    held = ours.acquire("nightly", timeout=SOON_S)
    assert held.held
    assert held.release()


def test_what_a_client_that_died_has_is_free_when_its_session_is_over(place: Place) -> None:
    with Proxy.of(place.store.server) as proxy:
        lost = place.client(proxy.url(place.store.mark), **SHORT)
        held = lost.acquire("nightly")
        assert not place.service.lock(place.row)
        proxy.blackhole()
        assert eventually(lambda: place.service.lock(place.row), SOON_S)
        assert not held.held, "it knew before"
        proxy.heal()
        assert eventually(lambda: tried(lost) == "not free", SOON_S)
        lost.close()


def tried(one: Actor) -> str:
    """Try once, and return what came of that."""
    try:
        return "not free" if one.try_acquire("nightly") is None else "granted"
    except recipes.StoreUnavailable:
        return "no answer"


def test_a_row_that_was_deleted_by_hand_is_noticed(place: Place) -> None:
    ours = place.client(**SHORT)
    held = ours.acquire("nightly")
    assert place.service.delete(place.row)
    assert place.service.lock(place.row)
    assert held.wait_lost(SOON_S)
    assert not held.release()
    assert place.row in place.service.holders(), "what is not ours is not unlocked"


def test_a_queue_of_the_same_name_is_another_lock(place: Place) -> None:
    with engine_of(place.store.server).begin() as connection:
        for statement in recipes.sql.schema(place.store.server.scheme, place.store.tables):
            connection.exec_driver_sql(statement)
    held = place.client().acquire("nightly")
    other = place.client(layout=None).acquire("nightly")
    assert held.verify()
    assert other.verify()


def test_a_pool_of_services_takes_turns_with_ours(place: Place) -> None:
    inside, most, turns = 0, 0, 0

    def enter() -> None:
        nonlocal inside, most, turns
        inside += 1
        most = max(most, inside)
        turns += 1
        inside -= 1

    def ours() -> None:
        client = place.client()
        tokens = []
        for _ in range(15):
            held = client.acquire("nightly", timeout=120)
            tokens.append(held.token)
            enter()
            assert held.release()
        assert tokens == sorted(set(tokens))

    def theirs(number: int) -> None:
        service = Service(place.store.server, f"java-{number}")
        for _ in range(15):
            assert eventually(lambda: service.lock(place.row), 120, every_s=0.002)
            enter()
            service.unlock(place.row)
        service.close()

    failed: list[BaseException] = []

    def noting(work: Callable[..., None], *args: int) -> None:
        try:
            work(*args)
        except BaseException as error:
            failed.append(error)

    threads = [
        threading.Thread(target=noting, args=one) for one in ((ours,), (ours,), (theirs, 1), (theirs, 2))
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed
    assert (most, turns) == (1, 60)


@pytest.mark.parametrize("database", ["postgres", "mariadb"], indirect=True)
def test_an_engine_of_the_users_does_as_well(database: servers.Database, prefix: str) -> None:
    store = ShedlockStore(database, prefix)
    drivers = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
    where = database.url().replace(database.scheme, drivers[database.scheme], 1)
    engine = sqlalchemy.create_engine(where)
    with recipes.connect(engine, root=prefix, **store.options) as client:
        with client.lock("nightly") as grant:
            assert grant.held
            assert not store.operator.lock(f"{prefix}:nightly")
            with engine.begin() as connection, pytest.raises(TypeError, match="no row that could be guarded"):
                recipes.sql.guard(connection, grant)
        assert store.operator.lock(f"{prefix}:nightly")
        assert client.lock("nightly").try_acquire() is None
    engine.dispose()
    store.close()


def test_tables_are_made_if_that_is_allowed_and_their_lack_is_said(postgres: servers.Postgres) -> None:
    with postgres.connect() as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS apart AUTHORIZATION app")
        connection.execute("ALTER ROLE app IN DATABASE app SET search_path = apart")
    try:
        options = {"layout": "shedlock", "tables": "apart_"}
        with (
            pytest.raises(recipes.StoreRefused, match="recipes store schema"),
            recipes.connect(postgres.url("x"), **options) as client,
        ):
            client.lock("a").try_acquire()
        for lost in ("", "shedlock"):  # all of them, and ShedLock's alone
            if lost:
                postgres.ask(f"DROP TABLE apart.{lost}")
            with recipes.connect(postgres.url("x"), create_tables=True, **options) as client:
                held = client.lock("a").try_acquire()
                assert held
                assert held.release()
    finally:
        with postgres.connect() as connection:
            connection.execute("ALTER ROLE app IN DATABASE app RESET search_path")
            connection.execute("DROP SCHEMA apart CASCADE")
