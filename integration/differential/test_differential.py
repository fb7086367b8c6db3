"""The short gate: some scripts on each server, and the proof that a broken model would be noticed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from integration.differential import broken
from integration.differential.etcd_sides import EtcdModel
from integration.differential.redis_sides import RedisModel
from integration.differential.runs import ELECTION_MS, NAMES, differ, differences, started
from integration.differential.zookeeper_sides import ZooKeeperModel
from integration.servers import Etcd, Redis, Server, ServerUnavailable
from tests.simulation.zookeeper_model import ZooKeeperStore

GATE = range(60)
FLOOR = 2


@pytest.fixture(scope="module", params=list(NAMES))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Yield a server on which nobody else writes: revisions are counted here."""
    try:
        one = started(request.param)
    except ServerUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"{request.param} is needed in CI: {reason}")
        pytest.skip(f"NOT TESTED on {request.param}: {reason}")
    with one:
        yield one


def model(scheme: str, make: Any = None) -> Any:
    options = {} if make is None else {"make": make}
    if scheme == "redis":
        return RedisModel(**options)
    return EtcdModel(FLOOR, **options) if scheme == "etcd" else ZooKeeperModel(**options)


def test_model_and_server_answer_the_same(server: Server) -> None:
    run = differ(server, GATE)
    assert [str(difference) for difference in run.differences] == []
    assert run.scripts == len(GATE)
    assert run.steps >= 15 * len(GATE)
    assert run.events > len(GATE)


def test_a_broken_model_differs_from_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(server, Etcd):
        monkeypatch.setattr(
            "integration.differential.runs.EtcdModel", lambda floor: model("etcd", broken.RevokeKeepsKeys)
        )
    elif isinstance(server, Redis):
        monkeypatch.setattr(
            "integration.differential.runs.RedisModel",
            lambda times: RedisModel(times, broken.RemovalSettlesNothing),
        )
    else:
        monkeypatch.setattr(
            "integration.differential.runs.ZooKeeperModel", lambda: model("zookeeper", broken.EphemeralsStay)
        )
    found = differ(server, range(20)).differences
    assert found
    assert found[0].sides == ("model", server.label)


@pytest.mark.parametrize("scheme", ["etcd", "zookeeper", "redis"])
def test_a_model_does_not_differ_from_itself(scheme: str) -> None:
    assert differences(scheme, model(scheme), model(scheme), GATE, ("model", "again")).differences == []


@pytest.mark.parametrize(
    ("scheme", "make"),
    [
        *(pytest.param("etcd", make, id=f"etcd-{make.__name__}") for make in broken.ETCD),
        *(pytest.param("zookeeper", make, id=f"zookeeper-{make.__name__}") for make in broken.ZOOKEEPER),
        *(pytest.param("redis", make, id=f"redis-{make.__name__}") for make in broken.REDIS),
    ],
)
def test_the_scripts_of_the_gate_notice_a_broken_model(scheme: str, make: Any) -> None:
    run = differences(scheme, model(scheme), model(scheme, make), GATE, ("sound", "broken"))
    assert run.differences, "this mistake went unnoticed"


def test_a_report_has_the_seed_the_script_and_both_replies() -> None:
    run = differences("etcd", model("etcd"), model("etcd", broken.NoFloor), GATE, ("sound", "broken"))
    said = str(run.differences[0])
    assert f"seed {run.differences[0].script.seed}" in said
    assert "'TTL': 2" in said
    assert "'TTL': 1" in said
    assert "/lease/grant" in said.splitlines()[-1]


def test_what_breaks_in_a_model_is_a_difference_and_no_crash() -> None:
    class Raises(ZooKeeperStore):
        def _plan(self, connection: Any, request: Any, tree: Any) -> Any:
            raise KeyError(request.path)

    run = differences(
        "zookeeper", model("zookeeper"), model("zookeeper", Raises), range(10), ("sound", "broken")
    )
    assert run.differences


def test_the_floor_is_that_of_the_server_settings() -> None:
    assert ELECTION_MS * 3 // 2 <= FLOOR * 1000 < ELECTION_MS * 3 // 2 + 1000
