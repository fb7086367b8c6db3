"""Which screen there is, by what standard output is and can."""

from __future__ import annotations

import io

import pytest

from recipes.cli.demo.screen import JsonScreen, Screen
from recipes.cli.demo.screens import screen_for
from recipes.cli.demo.view import View


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "60", "LINES": "20"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def chosen(out: io.StringIO, *, json: bool = False, plain: bool = False) -> Screen:
    return screen_for(out, io.StringIO(), 4, json=json, plain=plain)


def test_a_terminal_has_a_view(terminal: Terminal) -> None:
    assert type(chosen(terminal)) is View


@pytest.mark.parametrize(
    ("name", "value"), [("TERM", "dumb"), ("TERM", ""), ("COLUMNS", "59"), ("LINES", "19")]
)
def test_lines_where_nothing_can_be_drawn(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert type(chosen(terminal)) is Screen
    assert terminal.getvalue() == ""


def test_lines_where_they_are_asked_for(terminal: Terminal) -> None:
    assert type(chosen(terminal, plain=True)) is Screen


def test_lines_in_a_pipe(terminal: Terminal) -> None:
    assert type(chosen(io.StringIO())) is Screen


def test_documents_for_programs(terminal: Terminal) -> None:
    assert type(chosen(terminal, json=True)) is JsonScreen


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_lines_have_colours_unless_they_are_not_wanted(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    assert chosen(terminal, plain=True)._colour is coloured
