"""What stores promise, and what a program may require."""

from __future__ import annotations

import asyncio
import pickle
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import Guarantees, TooWeak, testing
from recipes._contract.operations import Open
from recipes.guarantees import CELL, STORES
from recipes.stores import registry
from recipes.stores._kit.queue import Command
from recipes.stores.memory import MemoryBackend, MemoryServer
from recipes.stores.memory_cell import CellServer

URLS = {
    "zookeeper": "zookeeper://h/app",
    "etcd": "etcd://h/app",
    "etcds": "etcds://h/app",
    "redis": "redis://h/0/app",
    "postgresql": "postgresql://h/d/app",
    "mysql": "mysql://h/d/app",
    "mariadb": "mariadb://h/d/app",
    "redlock": "redlock://h1,h2,h3/0/app",
    "memcached": "memcached://h/app",
    "sqlite": "sqlite:///nowhere/locks.db",
    "memory": "memory://",
}
SQL = ("postgresql", "mysql")
IN_A_LOOP = pytest.mark.filterwarnings("ignore:a blocking client of memory:RuntimeWarning")
BOTH = pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])


@BOTH
@pytest.mark.parametrize("scheme", URLS)
def test_every_client_says_what_its_store_promises_without_io(connect: Any, scheme: str) -> None:
    given = connect(URLS[scheme]).guarantees
    assert isinstance(given, Guarantees)
    assert given == STORES[{"etcds": "etcd", "mariadb": "mysql"}.get(scheme, scheme)]


def test_a_need_that_there_is_not_is_refused() -> None:
    unknown: Any = "many_machine"
    with pytest.raises(ValueError, match=r"need='many_machine': use 'fencing', .*'many_machines'"):
        STORES["etcd"].meets(unknown)


@pytest.mark.parametrize(
    ("need", "stores"),
    [
        ("fencing", {"zookeeper", "etcd", *SQL, "redis", "redlock", "memcached", "sqlite", "memory"}),
        ("linearizable", {"zookeeper", "etcd", *SQL, "sqlite", "memory"}),
        ("durable", {"zookeeper", "etcd", *SQL, "redis", "redlock", "memcached", "sqlite"}),
        ("many_processes", {"zookeeper", "etcd", *SQL, "redis", "redlock", "memcached", "sqlite"}),
        ("many_machines", {"zookeeper", "etcd", *SQL, "redis", "redlock", "memcached"}),
        ("fair", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
        ("shared", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
        ("proven", {"zookeeper", "etcd", *SQL, "redis", "redlock", "memcached", "sqlite", "memory"}),
        ("values", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
    ],
)
def test_which_store_meets_which_need(need: Any, stores: set[str]) -> None:
    assert {scheme for scheme, given in STORES.items() if given.meets(need)} == stores


@BOTH
def test_a_store_that_is_too_weak_is_refused_before_any_io(connect: Any, tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/locks.db"
    assert connect(url, require={"fencing", "many_processes"}).guarantees.fencing
    with pytest.raises(TooWeak) as refused:
        connect(url, require=["fencing", "many_machines"])
    assert (refused.value.store, refused.value.missing) == ("sqlite://", ("many_machines",))
    others = (
        "zookeeper://",
        "etcd://",
        "postgresql://",
        "mysql://",
        "redis://",
        "redlock://",
        "memcached://",
    )
    assert refused.value.use == others
    assert str(refused.value) == f"sqlite:// does not give many_machines; use {' or '.join(others)}"
    assert isinstance(refused.value, ValueError)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_the_weakest_that_does_is_named_too() -> None:
    with pytest.raises(
        TooWeak, match=r"memory:// does not give durable and many_processes; use .* or sqlite://"
    ):
        recipes.connect("memory://x", require=("durable", "many_processes"))


@BOTH
@pytest.mark.parametrize(
    ("need", "weaker"),
    [("fair", {"order": "none"}), ("shared", {"shared": False}), ("proven", {"proven": False})],
)
def test_a_store_without_a_queue_or_a_clock_is_refused(
    connect: Any, need: Any, weaker: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemoryServer, "guarantees", replace(STORES["memory"], **weaker))
    assert connect("memory://", require="fencing").guarantees != STORES["memory"]
    with pytest.raises(TooWeak, match=f"memory:// does not give {need}; use zookeeper://"):
        connect("memory://", require=need)


@IN_A_LOOP
@BOTH
def test_what_shows_only_once_the_store_answers_is_checked_again(connect: Any) -> None:
    """As a cache may say that it evicts what it keeps."""
    weaker = replace(CELL, proven=False)

    class Weak(CellServer):
        guarantees = CELL

        def handle(self, command: Command) -> Any:
            reply = super().handle(command)
            return replace(reply, guarantees=weaker) if isinstance(command.op, Open) else reply

    server = Weak()
    MemoryBackend.register("weak", lambda: MemoryBackend(server, "memory://weak"))
    try:
        asyncio.run(_seen_as_it_opens(connect, weaker))
    finally:
        MemoryBackend.register("weak", None)


async def _seen_as_it_opens(connect: Any, weaker: Guarantees) -> None:
    client, strict = connect("memory://weak"), connect("memory://weak", require=("fencing", "proven"))
    blocking = connect is recipes.connect
    try:
        assert client.guarantees == strict.guarantees == CELL
        client.open() if blocking else await client.open()
        assert client.guarantees == weaker
        for use in (strict.open, lambda: strict.lock("x").acquire(timeout=5), strict.lock("x").try_acquire):
            with pytest.raises(TooWeak, match="memory://weak does not give proven; use zookeeper://"):
                use() if blocking else await use()
        assert strict.session.state != "held"
    finally:
        for one in (client, strict):
            one.close() if blocking else await one.close()


def test_one_need_needs_no_set() -> None:
    assert recipes.connect("memory://", require="fencing").guarantees.scope == "process"
    with pytest.raises(TooWeak, match="many_processes"):
        recipes.connect("memory://", require="many_processes")


@pytest.mark.parametrize("needs", [7, None, [7], [None]])
def test_what_is_no_need_is_a_type_error(needs: Any) -> None:
    with pytest.raises(TypeError, match="require="):
        recipes.connect("memory://", require=needs)


@pytest.mark.parametrize("needs", ["speed", {"speed"}, ["fencing", ""]])
def test_an_unknown_need_is_told_the_known_ones(needs: Any) -> None:
    with pytest.raises(ValueError, match="use 'fencing', 'linearizable'") as raised:
        recipes.connect("memory://", require=needs)
    assert not isinstance(raised.value, TooWeak)


def test_guarantees_are_values() -> None:
    assert STORES["etcd"] == pickle.loads(pickle.dumps(STORES["etcd"]))
    with pytest.raises(AttributeError):
        STORES["etcd"].fencing = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        STORES["mine"] = STORES["etcd"]  # type: ignore[index]


@BOTH
@pytest.mark.parametrize(
    ("recipe", "promise", "given"),
    [
        ("group", "shared", False),
        ("rwlock", "shared", False),
        ("semaphore", "shared", False),
        ("barrier", "values", False),
        ("latch", "values", False),
        ("election", "order", "none"),
        ("value", "values", False),
        ("counter", "values", False),
    ],
)
def test_a_recipe_refuses_a_store_that_is_too_weak_for_it(
    connect: Any, recipe: str, promise: str, given: Any
) -> None:
    client = connect("memory://")
    backend = client._runtime.backend
    backend.guarantees = replace(backend.guarantees, **{promise: given})
    with pytest.raises(TooWeak, match="use zookeeper:// or etcd://"):
        getattr(client, recipe)("x", *([2] if recipe in ("semaphore", "barrier", "latch") else []))
    client.lock("x")  # which needs nothing of that


@IN_A_LOOP
@BOTH
def test_what_only_a_queue_can_tell_is_refused_before_any_io(connect: Any) -> None:
    with testing.Store("cell") as store:
        lock = connect(store.url).lock("x")
        asks = (
            lambda: lock.acquire(max_waiters=1),
            lambda: lock.acquire(on_position=print),
            lock.waiters,
            lock.contenders,
            lambda: lock.evict(1),
            connect(store.url).locks,
        )
        asyncio.run(_refused(asks, blocking=connect is recipes.connect))
        with pytest.raises(TooWeak):
            connect(store.url, require="shared")
        with pytest.raises(TooWeak):
            store.waiters("x")


def test_a_store_that_is_too_weak_is_not_recommended_instead() -> None:
    with pytest.raises(TooWeak, match="does not give fair; use etcd://"):
        recipes.connect("zookeeper://h", layout="name", require="fair")
    with pytest.raises(TooWeak) as refused:
        recipes.connect("postgresql://h/x", layout="shedlock").semaphore("x", 2)
    assert "postgresql://" not in str(refused.value).partition("use ")[2]


async def _refused(asks: Any, *, blocking: bool) -> None:
    for ask in asks:
        with pytest.raises(TooWeak, match="does not give fair; use zookeeper://"):
            ask() if blocking else await ask()


@pytest.mark.parametrize("like", [*STORES, "cell"])
def test_a_store_for_tests_can_be_each_kind(like: str) -> None:
    with testing.Store(like) as store:
        client, other = store.connect(), store.connect()
        assert client.guarantees == store.guarantees == (CELL if like == "cell" else STORES[like])
        grant = client.lock("x").acquire()
        assert other.lock("x").try_acquire() is None
        assert [one.token for one in other.lock("x").holders()] == [grant.token]
        assert [one.client for one in store.holders("x")] == [client]
        store.remove(grant)
        assert not grant.verify()
        held = other.lock("x").acquire()
        store.expire(other)
        assert client.lock("x").try_acquire().token > held.token


def test_a_store_for_tests_without_a_queue_keeps_time() -> None:
    with testing.Store("cell") as store:
        holder, waiter = store.connect(), store.connect()
        held = holder.lock("x").acquire()
        with store.clock.jumping(), pytest.raises(recipes.LockTimeout):
            waiter.lock("x").acquire(timeout=60)
        assert held.held
        with store.pause(holder), store.clock.jumping():
            assert waiter.lock("x").acquire(timeout=60).token > held.token
        assert not held.held


SCHEMES = [scheme for scheme, where in registry.SCHEMES.items() if where.startswith("recipes.")]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_store_for_tests_can_be_named_by_each_scheme_that_connect_takes(scheme: str) -> None:
    own = next(one for one in STORES if scheme.replace("mariadb", "mysql").startswith(one))
    with testing.Store(scheme) as store:
        assert store.guarantees == STORES[own]
        assert store.connect().lock("x").try_acquire()


@pytest.mark.parametrize("scheme", ["etcd+http", "redlocks", "sqlites", "memory+x", "mysqls", "cells", ""])
def test_a_scheme_that_connect_does_not_take_is_no_store_for_tests(scheme: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"like={scheme!r}: use ")):
        testing.Store(scheme)


def test_there_is_no_such_store_to_be_like() -> None:
    with pytest.raises(ValueError, match="like='mysqlx': use 'zookeeper', 'etcd'"):
        testing.Store("mysqlx")
