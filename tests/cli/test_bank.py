"""The accounts, and how they go wrong; and the pace of the twins."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from recipes.cli.demo import bank as module
from recipes.cli.demo.bank import ACCOUNTS, TOTAL, Bank
from recipes.cli.demo.ledger import Entry
from recipes.cli.demo.play import STEP, Pace


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    one = Bank(tmp_path, "x")
    one.prepare()
    return one


class Slept:
    """Instead of sleeping, somebody else does something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *others: object) -> None:
        self.others = list(others)
        monkeypatch.setattr(module.time, "sleep", self)

    def __call__(self, _: float) -> None:
        if self.others:
            other = self.others.pop(0)
            assert callable(other)
            other()


def test_a_transfer_makes_no_money(bank: Bank) -> None:
    assert bank.balances() == [TOTAL // ACCOUNTS] * ACCOUNTS
    dice = random.Random(1)
    for token in range(20):
        written = bank.transfer(3, token, dice, 0.0)
        balances = bank.balances()
        assert sum(balances) == TOTAL
        assert {number: balances[number] for number in written} == written
    assert [entry.token for entry in bank.ledger()] == list(range(20))
    assert {entry.worker for entry in bank.ledger()} == {3}


def test_whoever_adds_up_in_the_middle_of_a_transfer_misses_money(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    Slept(monkeypatch, lambda: None, lambda: seen.append(sum(bank.balances())))
    bank.transfer(1, None, random.Random(1))
    (entry,) = bank.ledger()
    assert seen == [TOTAL - entry.value]
    assert sum(bank.balances()) == TOTAL


def test_two_transfers_at_once_make_or_lose_money(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    Slept(monkeypatch, lambda: bank.transfer(2, None, random.Random(2)))
    bank.transfer(1, None, random.Random(1))
    assert len(bank.ledger()) == 2
    totals = {sum(bank.balances())}
    for seed in range(3, 8):
        bank.prepare()
        Slept(monkeypatch, lambda seed=seed: bank.transfer(2, None, random.Random(seed)))
        bank.transfer(1, None, random.Random(1))
        totals.add(sum(bank.balances()))
    assert totals != {TOTAL}


def test_the_ledger_is_in_the_order_of_writing(bank: Bank) -> None:
    for worker in (2, 1):
        bank.transfer(worker, None, random.Random(0), 0.0)
    amount = bank.ledger()[0].value
    assert bank.ledger() == [Entry(None, 2, amount), Entry(None, 1, amount)]


def test_the_twins_go_on_in_steps_as_the_workers_do() -> None:
    pace = Pace(slow=2)
    assert pace.due(0, last=False) == (0, 0)
    assert [pace.due(1, last=False), pace.due(2, last=False)] == [(1, 1), (1, 1)]
    assert pace.due(2 + STEP - 1, last=False) == (0, 0)
    assert pace.due(2 + 2 * STEP + 1, last=False) == (2 * STEP, 0)
    assert pace.due(2 + 2 * STEP + 3, last=True) == (3, 0)
    assert pace.due(2 + 2 * STEP + 3, last=True) == (0, 0)


def test_the_twins_take_a_turn_even_if_the_workers_had_none() -> None:
    assert Pace(slow=0).due(0, last=True) == (1, 0)
    assert Pace(slow=1).due(4, last=True) == (4, 1)
