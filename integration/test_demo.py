"""``recipes demo`` as users run it: the verdict, the view on a terminal, and every way to end it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from integration import servers
from integration.harness.terminal import CTRL_C, Terminal
from tests.pace import taking

DEMO = [sys.executable, "-m", "recipes.cli", "demo"]
AT_ONCE_S = 4.0
"""Longer than it takes to end, and much less than any timeout on the way."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files are made; see that none is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    assert servers.eventually(lambda: not list(tmp_path.iterdir()), 10), list(tmp_path.rglob("*"))


@pytest.fixture(params=["file", "etcd-3.5"])
def where(request: pytest.FixtureRequest) -> list[str]:
    """Return the option for a file, which is the default, and for a server."""
    if request.param == "file":
        return []
    server: servers.Etcd = request.getfixturevalue("etcd35")
    return ["--store", server.start().url(f"demo-{os.getpid()}")]


def demo(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start the command."""
    return subprocess.Popen(
        [*DEMO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def finished(process: subprocess.Popen[str], within_s: float = 180) -> tuple[int, str, str]:
    """Wait for the command to end; returns its exit code and what it printed."""
    try:
        out, err = process.communicate(timeout=within_s)
    finally:
        process.kill()
    return process.returncode, out, err


def lines_until_first_turn(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """Read JSON lines until a worker has held the lock."""
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []
    while not lines or lines[-1]["event"] != "turn":
        lines.append(json.loads(process.stdout.readline()))
    return lines


def pids(lines: list[dict[str, Any]]) -> list[int]:
    """Return the processes of the workers."""
    return [line["pid"] for line in lines if line["event"] == "ready"]


def alive(processes: list[int]) -> list[int]:
    """Return those of ``processes`` that run."""
    return [pid for pid in processes if Path(f"/proc/{pid}/cmdline").exists()]


def mine(folder: Path) -> list[str]:
    """Return the processes that work in ``folder``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(path.parent.name)
    return found


def promises_are_kept(verdict: dict[str, Any], turns: int) -> None:
    """See that nothing went wrong under the locks, and something without them."""
    assert verdict["event"] == "verdict"
    assert (verdict["ok"], verdict["problems"]) == (True, [])
    writes = sum(2 * turns // 4 for writer in (1, 3))
    assert verdict["counter"]["locked"] == {"turns": turns, "wrong": 0, "total": turns, "changes": turns}
    assert verdict["accounts"]["locked"] == {"turns": turns, "wrong": 0, "total": 1000, "changes": writes}
    for scene in ("counter", "accounts"):
        assert verdict[scene]["unlocked"]["turns"] == turns
        assert verdict[scene]["unlocked"]["wrong"] > 0


def test_nothing_is_lost_under_the_locks_and_much_without(url: str, nothing_left: None) -> None:
    code, out, err = finished(demo("--store", url, "--processes", "4", "--rounds", "25", "--json"))
    assert code == 0, err
    *messages, verdict = map(json.loads, out.splitlines())
    promises_are_kept(verdict, 100)
    acquired = [message for message in messages if message.get("event") == "lock.acquired"]
    assert len(acquired) == 200
    downgraded = [message for message in messages if message.get("event") == "lock.downgraded"]
    assert len(downgraded) == 50


def test_by_default_it_needs_a_file_and_nothing_else(folder: Path) -> None:
    environment = {**os.environ, "PATH": "/nowhere"}
    code, out, err = finished(demo("--processes", "4", "--rounds", "40", "--json", env=environment))
    assert code == 0, err
    assert err == ""
    *messages, verdict = map(json.loads, out.splitlines())
    promises_are_kept(verdict, 160)
    stores = {message["store"] for message in messages if "store" in message}
    assert [urlsplit(store).scheme for store in stores] == ["sqlite"]
    assert stores.pop().startswith(f"sqlite://{folder}/")


def test_for_people_it_is_short(where: list[str]) -> None:
    code, out, err = finished(demo(*where, "--processes", "4", "--rounds", "40"))
    assert code == 0, err
    lines = out.splitlines()
    assert re.search(r"updates lost +0 of 160 +\d+ of 160", out)
    assert re.search(r"wrong sums +0 of 160 +\d+ of 160", out)
    assert re.search(r"hand-overs +\d+, \d+ a second", out)
    assert lines[-1].startswith("OK  ")
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80
    assert "\033" not in out


def test_a_killed_worker_fails_the_demo_and_does_not_hang_it(where: list[str]) -> None:
    process = demo(*where, "--processes", "2", "--seconds", "60", "--json")
    lines = lines_until_first_turn(process)
    workers = pids(lines)
    os.kill(workers[0], signal.SIGKILL)
    code, out, _ = finished(process)
    verdict = json.loads(out.splitlines()[-1])
    assert code == 1
    assert not verdict["ok"]
    assert "ended by SIGKILL" in verdict["problems"][0]
    assert alive(workers) == []


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_at_once(end: signal.Signals) -> None:
    process = demo("--processes", "2", "--seconds", "60", "--json")
    lines = lines_until_first_turn(process)
    with taking(AT_ONCE_S):
        process.send_signal(end)
        code, _, err = finished(process)
    assert code == 130
    assert "interrupted" in err
    assert alive(pids(lines)) == []


def test_a_signal_gives_the_lock_back(url: str, nothing_left: None) -> None:
    process = demo("--store", url, "--processes", "2", "--seconds", "60", "--json")
    lines_until_first_turn(process)
    process.send_signal(signal.SIGINT)
    code, _, _ = finished(process)
    assert code == 130


def test_when_it_is_killed_its_processes_end_and_tidy_up(where: list[str], folder: Path) -> None:
    process = demo(*where, "--processes", "2", "--seconds", "60", "--json")
    lines = lines_until_first_turn(process)
    processes = pids(lines)
    process.kill()
    finished(process)
    assert servers.eventually(lambda: not alive(processes), 30), alive(processes)
    assert servers.eventually(lambda: not list(folder.iterdir()), 30), list(folder.iterdir())


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (76, 20), (120, 40)])
def test_on_a_terminal_it_draws(columns: int, lines: int, folder: Path) -> None:
    with Terminal([*DEMO, "--rounds", "3"], columns=columns, lines=lines, environment={}) as terminal:
        assert terminal.ended() == 0
        assert terminal.attributes == terminal.before
    drawn = terminal.drawn.decode()
    for words in ("1 of 2: a counter", "2 of 2: accounts", "without it", "ahead", "hand-overs", "OK  "):
        assert words in drawn
    assert drawn.count("\033[?25l") == drawn.count("\033[?25h") == 1
    assert mine(folder) == []


@pytest.mark.parametrize("moment", ["processes start", "1 of 2", "2 of 2"])
def test_ctrl_c_ends_the_view_and_restores_the_terminal(moment: str, folder: Path) -> None:
    with Terminal([*DEMO, "--processes", "2", "--rounds", "30"], environment={}) as terminal:
        terminal.until(moment)
        with taking(AT_ONCE_S):
            terminal.press(CTRL_C)
            assert terminal.ended() == 130
        assert terminal.attributes == terminal.before
    drawn = terminal.drawn.decode()
    assert drawn.endswith("recipes demo: interrupted; its processes are ended, its files are gone\r\n")
    assert drawn.count("\033[?25l") == drawn.count("\033[?25h") == 1
    assert "Traceback" not in drawn
    assert mine(folder) == []


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"NO_COLOR": "1", "COLUMNS": "75"}])
def test_on_a_poor_terminal_it_prints_lines(environment: dict[str, str]) -> None:
    with Terminal([*DEMO, "--processes", "1", "--rounds", "5"], environment=environment) as terminal:
        assert terminal.ended() == 0
    drawn = terminal.drawn.decode()
    assert "updates lost" in drawn
    assert "\033" not in drawn
