"""The live view, drawn from a recording on terminals of several sizes."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from recipes.cli.demo.board import Board
from recipes.cli.demo.frame import finished, frame
from recipes.cli.demo.orders import Order
from recipes.cli.demo.turns import Turn
from recipes.cli.demo.verdict import Locked, LockedSums, Sums, Unlocked, Verdict
from recipes.cli.demo.view import View, verdict_panel
from tests.cli.recording import boards, drawn, messages, scene

SIZES = [(60, 20), (60, 24), (76, 24), (80, 24), (120, 40), (200, 50)]


def at_turn(name: str, turns: int) -> Board:
    return next(board for board in boards(name) if board.locked.turns == turns)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("name", ["counter", "bank"])
def test_it_fits_and_says_all_at_every_moment(name: str, width: int, height: int) -> None:
    for board in boards(name):
        lines = drawn(frame(board, board.now, width, height), width)
        assert max(map(len, lines)) <= width
        assert len(lines) <= height - 3
        text = "\n".join(lines)
        assert f"{board.locked.turns} of 30 turns" in text
        assert "hand-overs a second" in text
        assert "…" not in text
        for worker in range(1, 6):
            assert f"{worker} {board.scene.role(worker)}" in text


def test_one_moment_of_the_counter() -> None:
    board = at_turn("counter", 5)
    lines = drawn(frame(board, board.now, 80, 24), 80)
    words = [re.sub(r"[█░▒ ]+", " ", line.split("│")[1]).strip() for line in lines[1:6]]
    queue = {worker: place for place, worker in enumerate(board.queue)}
    for number, line in enumerate(words, 1):
        expected = {
            "H": f"holds, token {board.tokens.get(number)}",
            ".": "",
            "w": f"waits, {queue.get(number)} ahead",
        }
        said = expected[board.lanes[number]].replace("waits, 0 ahead", "waits, is next")
        assert line == f"{number} worker {said}".strip()
    assert "0 updates lost; the counter says 5" in lines[9]
    assert f"{board.unlocked.wrong} updates lost" in lines[8]


def test_writers_and_readers_are_told_apart() -> None:
    seen = "\n".join(line for board in boards("bank") for line in drawn(frame(board, board.now, 80, 24), 80))
    for words in (
        "writes, token",
        "reads back",
        " reads  ",
        "waits, 2 ahead",
        "added up to 1000",
        "1 writer",
    ):
        assert words in seen


def test_what_is_wrong_is_red() -> None:
    *_, board = boards("counter")
    lines = drawn(frame(board, board.now, 80, 24), 80, colour=True)
    assert any("\033[1;31m23 updates lost" in line for line in lines)
    assert any("\033[1;32m0 updates lost" in line for line in lines)
    board.trouble.append("worker 1: lock.lost, not renewed")
    assert "lock.lost, not renewed" in drawn(frame(board, board.now, 80, 24), 80)[-1]


def test_more_workers_than_lines() -> None:
    board = Board(scene("counter", processes=50), 100.0)
    lines = drawn(frame(board, 100.0, 80, 24), 80)
    assert len(lines) <= 24
    assert any(re.search(r"0 hand-overs a second; \d\d workers are not shown", line) for line in lines)


def test_for_so_many_seconds() -> None:
    board = Board(scene("counter", order=Order("counter", seconds=8.0)), 100.0)
    assert any("0 turns in 3 of 8 s" in line for line in drawn(frame(board, 103.0, 80, 24), 80))


def test_a_scene_that_is_over_is_one_line() -> None:
    *_, board = boards("bank")
    (line,) = drawn(finished(board), 60)
    assert line == "✓ bank: 0 of 30 wrong sums, without the lock 24"


def verdict_of(size: int) -> Verdict:
    locked = Locked(size, size, (), [Turn(1, 7, 1, 0, 0, 0.9), Turn(2, 8, 2, 0, 0.95, 1)])
    sums = LockedSums([1000] * size, 1000, size, (), [Turn(1, 7, 1, 0, 0, 0.9, mode="shared")])
    return Verdict(locked, Unlocked(size, 0), sums, Sums([1] * size, -1234, 1))


@pytest.mark.parametrize(("width", "size"), [(60, 600), (80, 100_000), (120, 100_000)])
def test_the_verdict_fits(width: int, size: int) -> None:
    lines = drawn(verdict_panel(verdict_of(size)), width)
    assert max(map(len, lines)) == width
    assert len(lines) <= 22
    text = "\n".join(lines)
    for words in (f"0 of {size}", f"{size} of {size} (100%)", "-1234, not 1000", "each took"):
        assert words in text


class Watched:
    """A view on a terminal that is a string."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **environment: str) -> None:
        for name, value in {"COLUMNS": "80", "LINES": "24", "TERM": "xterm", "FORCE_COLOR": "1"}.items():
            monkeypatch.setenv(name, value)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        self.out = io.StringIO()
        self.view = View(self.out, 5)

    def play(self) -> str:
        with self.view as view:
            view.open("sqlite:///x", [1, 2])
            view.show({"kind": "ready", "worker": 1, "twin": False, "at": 1.0}, 1.0)
            for message in messages():
                if message["kind"] == "scene":
                    view.begin(scene(message["scene"]), message["at"])
                else:
                    view.show(message, message["at"])
            view.end()
            view.tick(message["at"])
        return self.out.getvalue()


def test_a_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Watched(monkeypatch)
    out = one.play()
    assert "1 of 10 processes have started" in out
    assert "sqlite:///x" in out
    assert "✓ counter" in out
    assert out.count("\033[?25l") == out.count("\033[?25h") == 1
    assert out.rindex("\033[?25h") > out.rindex("hand-overs")


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert re.search(r"\033\[[\d;]*3\dm", Watched(monkeypatch).play())
    assert not re.search(r"\033\[[\d;]*3\dm", Watched(monkeypatch, NO_COLOR="1").play())


def test_the_verdict_of_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Watched(monkeypatch)
    one.view.say("a [b]line[/b] of [red]text")
    one.view.verdict(replace(verdict_of(600), failures=["worker 1 was ended by SIGKILL"]))
    out = one.out.getvalue()
    assert "a [b]line[/b] of [red]text" in out
    assert "FAILED  worker 1 was ended by SIGKILL" in out
    assert "OK  " not in out


def test_many_workers_are_slow_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [View(io.StringIO(), processes).slow for processes in (1, 4, 100)] == [16, 4, 1]
