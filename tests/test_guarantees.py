"""What stores promise, and what a program may require."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import Guarantees, TooWeak
from recipes.guarantees import STORES
from recipes.stores.memory import MemoryBackend

URLS = {
    "zookeeper": "zookeeper://h/app",
    "etcd": "etcd://h/app",
    "etcds": "etcds://h/app",
    "redis": "redis://h/0/app",
    "postgresql": "postgresql://h/d/app",
    "mysql": "mysql://h/d/app",
    "mariadb": "mariadb://h/d/app",
    "sqlite": "sqlite:///nowhere/locks.db",
    "memory": "memory://",
}
SQL = ("postgresql", "mysql")
BOTH = pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])


@BOTH
@pytest.mark.parametrize("scheme", URLS)
def test_every_client_says_what_its_store_promises_without_io(connect: Any, scheme: str) -> None:
    given = connect(URLS[scheme]).guarantees
    assert isinstance(given, Guarantees)
    assert given == STORES[{"etcds": "etcd", "mariadb": "mysql"}.get(scheme, scheme)]


@pytest.mark.parametrize(
    ("need", "stores"),
    [
        ("fencing", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
        ("linearizable", {"zookeeper", "etcd", *SQL, "sqlite", "memory"}),
        ("durable", {"zookeeper", "etcd", *SQL, "redis", "sqlite"}),
        ("many_processes", {"zookeeper", "etcd", *SQL, "redis", "sqlite"}),
        ("many_machines", {"zookeeper", "etcd", *SQL, "redis"}),
        ("fair", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
        ("shared", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
        ("proven", {"zookeeper", "etcd", *SQL, "redis", "sqlite", "memory"}),
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
    others = ("zookeeper://", "etcd://", "postgresql://", "mysql://", "redis://")
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
    monkeypatch.setattr(MemoryBackend, "guarantees", replace(STORES["memory"], **weaker))
    assert connect("memory://", require="fencing").guarantees != STORES["memory"]
    with pytest.raises(TooWeak, match=f"memory:// does not give {need}; use zookeeper://"):
        connect("memory://", require=need)


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
        getattr(client, recipe)("x")
    client.lock("x")  # which needs nothing of that
