"""A worker by itself, in this process: the orders it takes and the lines it writes."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes import events
from recipes.cli.demo.scenes import SCENES, Numbers, State
from recipes.cli.demo.worker import Worker, main

TOTAL = 1000


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Ran:
    """A worker that was given orders, and what it wrote."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
        folder: Path,
        *orders: str,
        url: str = "memory://",
        number: int = 3,
        parent: int | None = None,
    ) -> None:
        self.folder = folder
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{order}\n" for order in orders)))
        main([str(parent or os.getppid()), url, str(folder), "10", str(number)])
        self.lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]

    def named(self, *names: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] in names]

    def numbers(self, scene: str, side: str) -> State:
        return Numbers(self.folder, SCENES[scene], side).read()


def test_orders_are_carried_out_in_turn(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    ran = Ran(monkeypatch, capfd, folder, "counter locked 3 0.0", "accounts locked 2 0.0")
    said = [line["event"] for line in ran.named("ready", "turn", "done")]
    assert said == ["ready", "turn", "turn", "turn", "done", "turn", "turn", "done"]
    assert {line["worker"] for line in ran.lines} == {3}
    assert ran.named("ready")[0]["pid"] == os.getpid()
    assert ran.numbers("counter", "locked").numbers == [3]
    assert ran.numbers("counter", "unlocked").changes == 0
    turns = ran.named("turn")[:3]
    assert [turn["value"] for turn in turns] == [1, 2, 3]
    assert turns[1]["before"] == turns[0]["token"] < turns[1]["token"] == turns[2]["before"]


def test_without_the_lock_it_does_the_same(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    ran = Ran(monkeypatch, capfd, folder, "counter unlocked 2 0.0", "accounts unlocked 1 0.0")
    assert [turn["value"] for turn in ran.named("turn")] == [1, 2, TOTAL]
    assert {turn["token"] for turn in ran.named("turn")} == {None}
    assert {turn["side"] for turn in ran.named("turn")} == {"unlocked"}
    assert not [line for line in ran.lines if line["event"].startswith("lock.")]
    assert ran.numbers("counter", "unlocked").numbers == [2]
    assert ran.numbers("accounts", "unlocked").changes == 2
    assert ran.numbers("accounts", "locked").changes == 0


def test_a_writer_moves_money_downgrades_and_reads_back(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    ran = Ran(monkeypatch, capfd, folder, "accounts locked 1 0.0")
    locked = [line for line in ran.lines if line["event"].startswith("lock.")]
    assert [line["event"] for line in locked] == ["lock.acquired", "lock.downgraded", "lock.released"]
    (turn,) = ran.named("turn")
    assert (turn["value"], turn["changes"], turn["kept"]) == (TOTAL, 2, True)
    assert ran.numbers("accounts", "locked").token == turn["token"]


def test_what_a_writer_does_not_read_back_is_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setattr(Numbers, "write", lambda *_: None)
    ran = Ran(monkeypatch, capfd, folder, "accounts locked 1 0.0")
    (turn,) = ran.named("turn")
    assert (turn["value"], turn["kept"]) == (TOTAL, False)


def test_a_reader_shares_the_lock_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    ran = Ran(monkeypatch, capfd, folder, "accounts locked 1 0.0", number=2)
    assert ran.named("lock.acquired")[0]["mode"] == "shared"
    (turn,) = ran.named("turn")
    assert turn["value"] == TOTAL
    assert "changes" not in turn
    assert ran.numbers("accounts", "locked").changes == 0


def test_a_release_has_the_time_of_its_call(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr("recipes.cli.demo.worker.boot_time", lambda: next(clock))
    ran = Ran(monkeypatch, capfd, folder, "accounts locked 1 0.0")
    told = {line["event"]: line["at"] for line in ran.lines}
    assert told["lock.acquired"] < told["lock.downgraded"] < told["lock.released"] < told["turn"]
    worker = Worker(1, folder, recipes.connect("memory://"))
    worker._called_at["lock.released"] = 7.5
    worker.on_transition(events.Transition("lock.released", name="x"))
    worker.on_transition(events.Transition("lock.released", name="x"))
    first, second = map(json.loads, capfd.readouterr().out.splitlines())
    assert first["at"] == 7.5
    assert second["at"] > told["turn"]


def test_a_turn_whose_lock_was_lost_is_taken_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    add, lost = Numbers.add, [True]

    def once(numbers: Numbers, index: int, amount: int, grant: Any, pause_s: float) -> Any:
        if lost and lost.pop():
            raise recipes.LockLost("x", grant.token, "stopped")
        return add(numbers, index, amount, grant, pause_s)

    monkeypatch.setattr(Numbers, "add", once)
    ran = Ran(monkeypatch, capfd, folder, "counter locked 1 0.0")
    assert len(ran.named("lock.acquired")) == 2
    assert [turn["value"] for turn in ran.named("turn")] == [1]


def test_a_store_that_does_not_answer_is_reported(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    ran = Ran(monkeypatch, capfd, folder, "counter locked 1 0.0", url="etcd://127.0.0.1:1/x")
    assert ran.lines[-1]["event"] == "failed"
    assert "127.0.0.1:1" in ran.lines[-1]["reason"]


def test_interrupted_it_releases_the_lock(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    def interrupt(*_: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Numbers, "add", interrupt)
    ran = Ran(monkeypatch, capfd, folder, "counter locked 1 0.0")
    ended = ran.named("lock.released", "turn", "session.closed")
    assert [line["event"] for line in ended] == ["lock.released", "session.closed"]


def test_one_whose_parent_was_killed_tidies_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], folder: Path
) -> None:
    Ran(monkeypatch, capfd, folder)
    assert folder.exists()
    Ran(monkeypatch, capfd, folder, parent=1 if os.getppid() != 1 else 2)
    assert not folder.exists()
