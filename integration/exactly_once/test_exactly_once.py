"""Additions count once on real servers, while answers are lost and all is stopped and killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from integration import servers
from integration.conftest import FIXTURES
from integration.exactly_once.run import STORES, Plan, Result, fitting, run
from integration.needing import needed

APIS = ("blocking", "asyncio")
SHORT = Plan(adds=100, processes=3, stops=4, kills=1, seed="gate")
FEW = 30
"""So many additions on ZooKeeper, where each lost reply costs the connection too, and so seconds."""
OWN = ("redis-7", "postgres-15", "mariadb-10.11", "sqlite")
"""The stores that are made for these tests: a kill loses nothing that they have answered."""
RIGHT = Result("asyncio", "etcd", 990, 10, {}, 995, 0, {}, 1.0)


@pytest.fixture(params=(*FIXTURES, "sqlite"))
def store(request: pytest.FixtureRequest) -> Iterator[servers.Server]:
    if request.param in OWN:
        with needed(request.param, STORES[request.param]) as one:
            yield one
    else:
        yield request.getfixturevalue(FIXTURES[request.param]).start()


@pytest.mark.parametrize("api", APIS)
def test_some_additions(store: servers.Server, api: str, figure: Callable[[str], None]) -> None:
    plan = fitting(replace(SHORT, adds=FEW) if isinstance(store, servers.ZooKeeper) else SHORT, store)
    judge(run(store, api, plan), plan, figure)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("api", APIS)
def test_a_thousand_additions(store: servers.Server, api: str, figure: Callable[[str], None]) -> None:
    plan = fitting(Plan(seed="thousand"), store)
    result = run(store, api, plan)
    judge(result, plan, figure)
    assert result.faults["stops"] + result.faults["stops past the session"] == plan.stops


def judge(result: Result, plan: Plan, figure: Callable[[str], None]) -> None:
    figure(f"{result}")
    assert result.done + result.unknown == plan.adds
    assert result.wrong == ""
    assert result.faults.get("kills", 0) == plan.kills


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_same_run_doubles_on_kazoo(zookeeper: servers.Server, figure: Callable[[str], None]) -> None:
    result = run(zookeeper.start(), "kazoo", Plan(seed="kazoo"))
    figure(f"{result}")
    assert result.wrong == "counts twice"


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        (RIGHT, ""),
        (replace(RIGHT, found=990), ""),
        (replace(RIGHT, found=1000), ""),
        (replace(RIGHT, found=1001), "counts twice"),
        (replace(RIGHT, found=989), "loses additions"),
        (replace(RIGHT, twice=1), "returns one sum twice"),
    ],
)
def test_a_result_is_judged(result: Result, wrong: str) -> None:
    assert result.wrong == wrong


def test_all_additions_have_a_portion() -> None:
    assert sum(Plan(adds=1003, stops=20).portions()) == 1003


@pytest.mark.parametrize(
    ("release", "kills"),
    [("3.4.20", 0), ("3.4.23", 1), ("3.5.1", 0), ("3.5.5", 1), ("3.6.0", 1)],
)
def test_a_release_that_forgets_what_it_answered_is_not_killed(
    release: str, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = servers.Etcd("etcd", Path("etcd"))
    monkeypatch.setattr(etcd, "version", lambda: release)
    assert fitting(SHORT, etcd) == replace(SHORT, kills=kills)
