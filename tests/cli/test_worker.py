"""A worker by itself, in this process: the orders it takes and the lines it writes."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes.cli.demo.bank import TOTAL, Bank
from recipes.cli.demo.ledger import Entry
from recipes.cli.demo.orders import Order
from recipes.cli.demo.work import PAUSE_S, SLOW_S, Work
from recipes.cli.demo.worker import main


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("locked", "unlocked"):
        Work(tmp_path, part).prepare()
        Bank(tmp_path, part).prepare()
    return tmp_path


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *orders: Order, url: str = "memory://", number: int = 3
) -> tuple[int, list[dict[str, Any]]]:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(order.line() for order in orders)))
    monkeypatch.setattr("sys.stdout", out)
    code = main([url, str(folder), str(number), "10"])
    return code, [json.loads(line) for line in out.getvalue().splitlines()]


def test_the_work_is_counted_and_noted(folder: Path) -> None:
    work = Work(folder, "locked")
    assert [work.add_one(1, 7), work.add_one(2, 9)] == [1, 2]
    assert work.counter() == 2
    assert work.ledger() == [Entry(7, 1, 1), Entry(9, 2, 2)]


def test_an_order_is_so_many_rounds_or_so_long() -> None:
    assert list(Order("counter", rounds=3, slow=1).turns()) == [SLOW_S, PAUSE_S, PAUSE_S]
    assert list(Order("counter", seconds=0.0).turns()) == []
    assert len(list(zip(Order("counter").turns(), range(500), strict=False))) == 500


def test_an_order_is_a_line() -> None:
    order = Order("bank", rounds=3, slow=2)
    assert order.line().count("\n") == 1
    assert Order.of_line(order.line()) == order


def test_orders_are_carried_out_in_turn(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    code, lines = run(monkeypatch, folder, Order("counter", rounds=3), Order("bank", rounds=2))
    assert code == 0
    said = [line for line in lines if line["kind"] != "transition"]
    assert [line["kind"] for line in said] == [
        "ready",
        "turn",
        "turn",
        "turn",
        "done",
        "turn",
        "turn",
        "done",
    ]
    assert {(line["worker"], line["twin"]) for line in lines} == {(3, False)}
    assert Work(folder, "locked").counter() == 3
    assert Work(folder, "unlocked").counter() == 0


def test_a_twin_does_the_same_without_a_lock(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    code, lines = run(monkeypatch, folder, Order("counter", rounds=2), Order("bank", rounds=1), url="")
    assert code == 0
    assert [line["kind"] for line in lines] == ["ready", "turn", "turn", "done", "turn", "done"]
    assert [line["value"] for line in lines if line["kind"] == "turn"] == [1, 2, TOTAL]
    assert {line["twin"] for line in lines} == {True}
    assert Work(folder, "unlocked").ledger() == [Entry(None, 3, 1), Entry(None, 3, 2)]
    assert len(Bank(folder, "unlocked").ledger()) == 1


def test_a_writer_moves_money_goes_down_and_reads_back(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    _, lines = run(monkeypatch, folder, Order("bank", rounds=1))
    events = [line for line in lines if line["kind"] == "transition" and "lock" in line]
    assert [line["event"] for line in events] == ["lock.acquired", "lock.downgraded", "lock.released"]
    (turn,) = [line for line in lines if line["kind"] == "turn"]
    assert (turn["value"], turn["kept"]) == (TOTAL, True)
    assert events[1]["at"] == turn["downgrade_called_at"]
    assert [entry.token for entry in Bank(folder, "locked").ledger()] == [turn["token"]]


def test_what_a_writer_does_not_read_back_is_told(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(Bank, "balances", lambda *_: [0, 0, 0, 0])
    _, lines = run(monkeypatch, folder, Order("bank", rounds=1))
    (turn,) = [line for line in lines if line["kind"] == "turn"]
    assert (turn["value"], turn["kept"]) == (0, False)


def test_a_reader_adds_up(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    _, lines = run(monkeypatch, folder, Order("bank", rounds=2), number=2)
    turns = [line for line in lines if line["kind"] == "turn"]
    assert [(turn["value"], turn["mode"]) for turn in turns] == [(TOTAL, "shared")] * 2
    assert Bank(folder, "locked").ledger() == []


def test_transitions_are_passed_on_and_a_release_is_dated_when_it_was_called(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    _, lines = run(monkeypatch, folder, Order("counter", rounds=2))
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
    code, lines = run(monkeypatch, folder, Order("counter", rounds=1), url="etcd://127.0.0.1:1/x")
    assert code == 1
    assert lines[-1]["kind"] == "failed"
    assert "127.0.0.1:1" in lines[-1]["reason"]


def test_interrupted_it_gives_the_lock_back(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def interrupt(*_: Any) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(Work, "add_one", interrupt)
    code, lines = run(monkeypatch, folder, Order("counter", rounds=1))
    assert code == 130
    assert [line["event"] for line in lines if line["kind"] == "transition"][-2:] == [
        "lock.released",
        "session.closed",
    ]


def test_one_whose_parent_was_killed_tidies_up(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    parents = iter([7, 1])
    monkeypatch.setattr("os.getppid", lambda: next(parents))
    run(monkeypatch, folder)
    assert not folder.exists()
