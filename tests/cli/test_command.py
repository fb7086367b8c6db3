"""The command line: what is refused before anything starts, and what is understood."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import recipes
from recipes.cli import command, main
from recipes.cli.demo.show import Plan


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    plans: list[Plan] = []

    def show(plan: Plan) -> int:
        plans.append(plan)
        return 0

    monkeypatch.setattr(command, "show", show)
    return plans


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--processes", "0"], "a whole number of at least 1, not '0'"),
        (["--processes", "two"], "not 'two'"),
        (["--rounds", "-1"], "a whole number of at least 1"),
        (["--rounds", "1.5"], "a whole number of at least 1"),
        (["--seconds", "0"], "a number of seconds above 0"),
        (["--seconds", "inf"], "a number of seconds above 0"),
        (["--seconds", "nan"], "a number of seconds above 0"),
        (["--seconds", "soon"], "not 'soon'"),
        (["--rounds", "1", "--seconds", "1"], "not allowed with"),
        (["--json", "--plain"], "not allowed with"),
        (["--store", "memory://"], "does not give many_processes"),
        (["--store", "memory://x"], "does not give many_processes"),
        (["--store", "redis://x"], "unknown store 'redis'"),
        (["--store", "etcd://host/?x=1"], "no ?query"),
        (["--store", ""], "unknown store ''"),
        (["--unheard-of"], "unrecognized arguments"),
        (["more"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_starts(
    planned: list[Plan], capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", *arguments])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
    assert planned == []


@pytest.mark.parametrize(
    ("arguments", "plan"),
    [
        ([], {"store": None, "processes": 5, "rounds": 120, "seconds": None, "json": False}),
        (["--plain"], {"json": False, "plain": True}),
        (["--store", "etcd"], {"store": "etcd"}),
        (["--processes", "2", "--rounds", "7"], {"processes": 2, "rounds": 7}),
        (["--seconds", "1.5", "--json"], {"rounds": None, "seconds": 1.5, "json": True}),
        (["--store", "etcd://h/p"], {"store": "etcd://h/p"}),
    ],
)
def test_arguments_become_a_plan(planned: list[Plan], arguments: list[str], plan: dict[str, Any]) -> None:
    assert main(["demo", *arguments]) == 0
    assert {name: getattr(planned[0], name) for name in plan} == plan


def test_without_a_command_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "demo" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"recipes {recipes.__version__}\n"


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recipes.cli", "demo", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("usage: recipes demo")
