"""What nox runs beside its tests fails the session as they do, and never outlives it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.pace import taking

ASLEEP = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(600)"
LONG_S = 60


class Session:
    """As much of a session of nox as `meanwhile` asks for."""

    bin = str(Path(sys.executable).parent)

    def __init__(self) -> None:
        self.logged: list[str] = []

    def log(self, line: str) -> None:
        self.logged.append(line)

    def error(self, line: str) -> None:
        raise ArithmeticError(line)


@pytest.fixture(scope="module")
def noxfile() -> Any:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_it_is_waited_for_and_what_it_said_is_shown(noxfile: Any, capfd: pytest.CaptureFixture[str]) -> None:
    with noxfile.meanwhile(Session(), "python", "-c", "print('here')"):
        print("there")
    assert capfd.readouterr().out.splitlines() == ["there", "here"]


def test_it_fails_the_session(noxfile: Any, capfd: pytest.CaptureFixture[str]) -> None:
    fails = "import sys; print('wrong'); sys.exit(3)"
    with (
        pytest.raises(ArithmeticError, match="python failed: its exit code is 3"),
        noxfile.meanwhile(Session(), "python", "-c", fails),
    ):
        pass
    assert capfd.readouterr().out == "wrong\n"


def test_it_ends_when_the_session_fails(
    noxfile: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pid")

    def fails(numbers: list[int]) -> None:
        with noxfile.meanwhile(Session(), "python", "-c", ASLEEP):
            numbers.append(int(Path("pid").read_text()))  # which waits until it is there
            raise ZeroDivisionError

    numbers: list[int] = []
    with taking(LONG_S), pytest.raises(ZeroDivisionError):
        fails(numbers)
    with pytest.raises(ProcessLookupError):
        os.kill(numbers[0], 0)
