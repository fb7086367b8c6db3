"""A worker by itself, in this process: the orders it takes and the lines it writes."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes.cli.demo.work import Entry, Work
from recipes.cli.demo.worker import Order, main


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("locked", "unlocked"):
        Work(tmp_path, part).prepare()
    return tmp_path


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *orders: dict[str, Any], url: str = "memory://"
) -> tuple[int, list[dict[str, Any]]]:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(order) + "\n" for order in orders)))
    monkeypatch.setattr("sys.stdout", out)
    code = main([url, str(folder), "3"])
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_work_is_counted_and_noted(folder: Path) -> None:
    work = Work(folder, "locked")
    assert [work.add_one(1, 7), work.add_one(2, 9)] == [1, 2]
    assert work.counter() == 2
    assert work.ledger() == [Entry(7, 1, 1), Entry(9, 2, 2)]


def test_an_order_is_so_many_rounds_or_so_long() -> None:
    assert list(Order(lock=True, rounds=3).turns()) == [1, 2, 3]
    assert list(Order(lock=True, seconds=0.0).turns()) == []
    assert len(list(zip(Order(lock=True).turns(), range(500), strict=False))) == 500


def test_orders_are_carried_out_in_turn(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    code, lines = run(monkeypatch, folder, {"lock": True, "rounds": 3}, {"lock": False, "rounds": 2})
    assert code == 0
    said = [line for line in lines if line["kind"] != "transition"]
    assert [line["kind"] for line in said] == ["ready", "turn", "turn", "turn", "done", "done"]
    assert [line["updates"] for line in said[-2:]] == [3, 2]
    assert {line["worker"] for line in lines} == {3}
    assert Work(folder, "locked").counter() == 3
    assert Work(folder, "unlocked").ledger() == [Entry(None, 3, 1), Entry(None, 3, 2)]


def test_transitions_are_passed_on_and_a_release_is_dated_when_it_was_called(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    _, lines = run(monkeypatch, folder, {"lock": True, "rounds": 2})
    events = [line["event"] for line in lines if line["kind"] == "transition" and "lock" in line]
    assert events == ["lock.acquired", "lock.released"] * 2
    turns = [line for line in lines if line["kind"] == "turn"]
    released = [line for line in lines if line.get("event") == "lock.released"]
    for turn, release in zip(turns, released, strict=True):
        assert release["at"] == turn["release_called_at"]
        assert release["token"] == turn["token"]
        assert turn["asked_at"] <= turn["acquired_at"] < turn["release_called_at"]


def test_without_orders_it_ends(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    code, lines = run(monkeypatch, folder)
    assert code == 0
    assert [line["kind"] for line in lines if line["kind"] != "transition"] == ["ready"]


def test_a_store_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    code, lines = run(monkeypatch, folder, {"lock": True, "rounds": 1}, url="etcd://127.0.0.1:1/x")
    assert code == 1
    assert lines[-1]["kind"] == "failed"
    assert "127.0.0.1:1" in lines[-1]["reason"]


def test_interrupted_it_gives_the_lock_back(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def interrupt(*_: Any) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(Work, "add_one", interrupt)
    code, lines = run(monkeypatch, folder, {"lock": True, "rounds": 1})
    assert code == 130
    assert [line["event"] for line in lines if line["kind"] == "transition"][-2:] == [
        "lock.released",
        "session.closed",
    ]
