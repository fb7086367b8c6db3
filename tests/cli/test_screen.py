"""What is drawn, from a recording, and what is printed in the end."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from itertools import islice

import pytest
from rich.console import Console

from recipes.cli.demo.screen import Screen
from recipes.cli.demo.verdict import Side, Verdict
from tests.cli.recording import PROCESSES, ROUNDS, drawn, screen, sides
from tests.cli.test_verdict import banked, counted, lossy

TURNS = PROCESSES * ROUNDS


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "76", "LINES": "20"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


def chosen(*, plain: bool = False, quiet: bool = False) -> Screen:
    return Screen("sqlite:///x", 4, plain=plain, quiet=quiet)


def test_on_a_terminal_it_moves(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        one = chosen()
        assert one.live is not None
        with one.live:
            one.draw()
            assert "4 processes start, with sqlite:///x" in terminal.getvalue()
            one._drawn_at += 60.0
            before = terminal.getvalue()
            one.draw()  # too early
            assert terminal.getvalue() == before


@pytest.mark.parametrize("lines", ["11", "6", "1"])
def test_it_goes_on_in_a_window_that_has_shrunk(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    with redirect_stdout(terminal):
        one = chosen()
        one.sides = counted(), lossy()
        assert one.live is not None
        monkeypatch.setenv("LINES", lines)
        one._console = Console(highlight=False)
        with one.live:
            one.draw()
    assert "without it" in terminal.getvalue()


@pytest.mark.parametrize(
    ("name", "value"), [("TERM", "dumb"), ("TERM", "unknown"), ("COLUMNS", "75"), ("LINES", "19")]
)
def test_where_it_cannot_move_it_does_not(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with redirect_stdout(terminal):
        one = chosen()
        assert one.live is None
        one.draw()
        assert terminal.getvalue() == ""
        one.sides = counted(), lossy()
        one.end()
        one.verdict(Verdict([(counted(), lossy()), (banked(), lossy())]))
    assert "OK  " in terminal.getvalue()
    assert "\033" not in terminal.getvalue()


def test_it_does_not_move_if_that_is_not_wanted(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        assert chosen(plain=True).live is None
        assert chosen(quiet=True).live is None


@pytest.mark.usefixtures("terminal")  # for its size
@pytest.mark.parametrize("coloured", ["", "1"])
def test_it_does_not_move_in_a_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, coloured: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", coloured)
    assert chosen().live is None


def test_quiet_it_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    one = chosen(quiet=True)
    one.sides = counted(), lossy()
    one.end()
    one.verdict(Verdict([(counted(), lossy())]))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("height", [2, 40])
@pytest.mark.parametrize("name", ["counter", "accounts"])
def test_at_every_moment_it_fits_and_shows_all(name: str, height: int) -> None:
    seen, text = set(), ""
    for at, locked, unlocked in islice(sides(name), 0, None, 4):
        lines = drawn(screen(locked, unlocked).picture(at, height))
        assert max(map(len, lines)) <= 80
        assert len(lines) == min(height, PROCESSES) + 9
        text = "\n".join(lines)
        assert f"0 of {len(locked.turns)} " in text
        seen |= set(re.findall(r"[█▒░]|waits|holds \d|shares \d|is next", text))
    assert len(locked.turns) == len(unlocked.turns) == TURNS
    assert {"█", "░", "waits", "is next"} < seen
    assert ("▒" in re.sub(r"▒ shares", "", text)) == (name == "accounts")
    assert unlocked.wrong > 0


def test_what_is_out_of_the_ordinary_is_said() -> None:
    side = Side(counted().scene)
    for number in range(3):
        said = {"name": "recipes demo", "worker": 1, "token": number, "at": number, "reason": "not renewed"}
        side.take({**said, "event": "lock.lost", "held_s": 0.1})
    lines = drawn(screen(side, lossy()).picture(9.0, 5))
    assert lines[-2:] == ["worker 1: lost, not renewed"] * 2


def test_the_verdict_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    screen(counted(), lossy()).verdict(Verdict([(counted(), lossy()), (banked(), lossy())]))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == [
        "                    with the lock          without it",
        "counter",
        "  updates lost      0 of 4                 2 of 4 (50%)",
        "  sum of the file   4                      2",
    ]
    assert "  exclusion broken  never" in lines
    assert "  readers at once   up to 3" in lines
    assert lines[-1] == "OK  under the locks nothing was lost, and no sum was wrong"


def test_a_bad_verdict_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    bad = counted(number=3)
    screen(bad, lossy()).verdict(Verdict([(bad, lossy())], ["worker [1] failed"]))
    out = capsys.readouterr().out
    assert "FAILED  worker [1] failed" in out
    assert "FAILED  counter: 1 of 4 updates lost" in out
    assert "OK" not in out
