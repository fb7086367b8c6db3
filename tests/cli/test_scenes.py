"""The files that the processes of the demonstration share, and how they go wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import recipes
from recipes.cli.demo.scenes import ACCOUNTS, COUNTER, Numbers, State, name_of


class Grant:
    """A grant that is held, or lost."""

    def __init__(self, token: int, *, lost: bool = False) -> None:
        self.token = token
        self._lost = lost

    def check(self) -> None:
        if self._lost:
            raise recipes.LockLost("x", self.token, "stopped")


@pytest.fixture
def counter(tmp_path: Path) -> Numbers:
    one = Numbers(tmp_path, COUNTER, "locked")
    one.write(State(None, 0, [0]))
    return one


def meanwhile(monkeypatch: pytest.MonkeyPatch, does: Callable[[], Any]) -> None:
    """Have something else happen during the first pause."""
    others = [does]

    def sleep(_: float) -> None:
        if others:
            others.pop()()

    monkeypatch.setattr(time, "sleep", sleep)


def test_a_change_is_counted_and_carries_its_token(counter: Numbers) -> None:
    assert counter.add(0, 1, Grant(7), 0.0) == (1, None)
    assert counter.add(0, 2, Grant(9), 0.0) == (3, 7)
    assert counter.read() == State(9, 2, [3])


def test_of_two_changes_at_once_one_is_lost(counter: Numbers, monkeypatch: pytest.MonkeyPatch) -> None:
    meanwhile(monkeypatch, lambda: counter.add(0, 1, None, 0.0))
    assert counter.add(0, 1, None, 0.0) == (1, None)
    assert counter.read() == State(None, 1, [1])


def test_a_change_that_comes_late_sees_the_token_of_the_one_before(
    counter: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile(monkeypatch, lambda: counter.add(0, 1, Grant(8), 0.0))
    assert counter.add(0, 1, Grant(7), 0.0) == (1, 8)


def test_nothing_is_written_under_a_grant_that_was_lost(counter: Numbers) -> None:
    with pytest.raises(recipes.LockLost):
        counter.add(0, 1, Grant(7, lost=True), 0.0)
    assert counter.read() == State(None, 0, [0])


def test_each_side_and_each_scene_has_a_file_of_its_own(tmp_path: Path) -> None:
    files = [
        Numbers(tmp_path, scene, side) for scene in (COUNTER, ACCOUNTS) for side in ("locked", "unlocked")
    ]
    for number, file in enumerate(files):
        file.write(State(number, 0, []))
    assert [file.read().token for file in files] == [0, 1, 2, 3]


def test_readers_are_more_than_writers() -> None:
    assert [name_of(worker, ACCOUNTS) for worker in range(1, 6)] == [
        "writer 1",
        "reader 2",
        "writer 3",
        "reader 4",
        "reader 5",
    ]
    assert name_of(2, COUNTER) == "worker 2"
