"""One short run on each store, and the proof that what it looks for would be seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import recipes
from integration.chaos.client import CELL_LANES, LANES, Spec
from integration.chaos.faults import AT_ONCE, THEMES, Storm, theme_of
from integration.chaos.history import entries_of, read
from integration.chaos.processes import Process
from integration.chaos.resources import Bank, Registers
from integration.chaos.run import Run
from integration.chaos.stage import Stage
from integration.chaos.stages import STAGES, staged
from integration.harness.process import eventually
from integration.needing import needed

GONE_S = 20.0
LONG_S = 5.0
STORM_S, GRACED_STORM_S = 3.0, 8.0  # after a start a graced store grants nothing for two seconds


# etcd 3.5.1 may forget a write when it is killed (13766).
SOON = ("etcd-3.4", "zookeeper", "redis", "postgres")
LATER = ("etcd-grpc", "sqlite", "mariadb", "memcached", "redlock")


@pytest.fixture(params=[*SOON, *(pytest.param(store, marks=pytest.mark.long) for store in LATER)])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with needed(request.param, lambda: staged(request.param)) as one:
        yield one


def test_a_run_of_three_faults_at_once(stage: Stage, tmp_path: Path, figure: Callable[[str], None]) -> None:
    run = Run(stage, 2, "gate", tmp_path, seconds=GRACED_STORM_S if stage.graced else STORM_S)
    result = run.go()
    assert run.gone(GONE_S), stage.contenders(run.prefix)
    figure(f"{result.judged['grants']} grants, {result.faults}")
    assert (result.violations, result.leaked) == ([], 0)
    assert result.at_once == AT_ONCE
    assert result.judged["grants"] > 0
    assert sum(result.faults.values()) >= AT_ONCE
    assert result.judged["fenced: lost"] == 0


def test_what_clients_leave_is_seen(stage: Stage) -> None:
    url, options = stage.way(proxied=False).url("seen"), {"restart_grace": LONG_S} if stage.graced else {}
    with recipes.connect(url, session_timeout=LONG_S, **options) as client:
        grant = client.lock("a").acquire(timeout=GONE_S)
        if stage.queues:
            client.value("a").set(b"this stays, and is no contender; nor is its receipt")
        standing = stage.contenders("seen")
        assert list(standing.values()) == [client.session.id]
        assert stage.sessions("seen") == [client.session.id]
        assert stage.size() > 0
        if stage.expires():
            told = threading.Event()
            grant.lost.add_callback(lambda _: told.set())
            stage.expire(client.session.id)
            assert told.wait(5)
    assert eventually(lambda: not stage.contenders("seen"), GONE_S)


def test_a_client_that_is_stopped_and_killed_leaves_a_history(stage: Stage, tmp_path: Path) -> None:
    for file in (Registers(tmp_path / "registers.db"), Bank(tmp_path / "bank.db")):
        file.make()
    lanes, url = (LANES if stage.queues else CELL_LANES), stage.way(proxied=False).url("killed")
    client = Process(Spec("c0", "asyncio", url, stage.session_s, "1", tmp_path, lanes, options=stage.options))
    try:

        def granted() -> int:
            return sum(
                one.what == "acquire" and one.how == "ok" for one in entries_of(read(tmp_path)).values()
            )

        assert eventually(granted, 20)
        client.stop()
        before = (tmp_path / "c0.jsonl").stat().st_size
        assert not eventually(lambda: (tmp_path / "c0.jsonl").stat().st_size > before, 0.3)
        client.go_on()
        assert eventually(lambda: (tmp_path / "c0.jsonl").stat().st_size > before, 20)
    finally:
        client.kill()
    assert granted()
    if not stage.has_server:  # which would end sessions by itself: here the next client does
        with recipes.connect(url) as other:
            other.lock("any").acquire(timeout=5).release()
    assert eventually(lambda: not stage.contenders("killed"), GONE_S)


def test_every_third_run_has_three_faults_at_once_and_all_themes_come() -> None:
    drawn = [theme_of(number) for number in range(24)]
    assert [at_once for _, at_once in drawn] == [1, 1, AT_ONCE] * 8
    assert {theme for theme, _ in drawn} == set(THEMES)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("store", STAGES)
def test_every_theme_has_faults_on_every_store(store: str, theme: str, tmp_path: Path) -> None:
    stage = staged(store)
    run = Run(stage, 0, "1", tmp_path, seconds=1.0, theme=theme)
    run.folder.mkdir()
    storm = Storm(run, theme)
    storm.close()
    assert storm.kinds
    assert not storm.kinds & stage.without
    assert storm.kinds <= set(THEMES[theme]) or not storm.kinds & set(THEMES[theme])
