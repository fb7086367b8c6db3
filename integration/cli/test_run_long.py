"""What takes long of ``recipes run`` on a file."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import recipes
from integration import servers
from integration.harness.terminal import Terminal
from recipes._run.clock import boot_time
from recipes.cli import codes
from tests.cli import test_run, test_run_terminal
from tests.cli.runs import RECIPES, Run, alive, recipes_run

url, shell, typed = test_run.url, test_run_terminal.shell, test_run_terminal.typed


@pytest.mark.long
def test_shared_runs_beside_shared(url: str) -> None:
    with recipes.connect(url) as client, client.rwlock("x").reader:
        done = recipes_run(url, "--shared", "--try", "--", "sh", "-c", "echo $RECIPES_MODE")
        assert (done.returncode, done.stdout) == (0, "shared\n")
        assert recipes_run(url, "--try", "--", "true").returncode == codes.NOT_ACQUIRED


@pytest.mark.long
def test_a_flood_passes_untouched(url: str) -> None:
    flood = os.urandom(1 << 20) * 48
    done = recipes_run(url, "--", "cat", input=flood, text=False)
    assert done.returncode == 0
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(flood).digest()


@pytest.mark.long
def test_a_reader_that_has_seen_enough_ends_the_command_as_without_a_lock(url: str) -> None:
    run = " ".join([*RECIPES, "run", "x", "--store", url, "--", "yes"])
    piped = subprocess.run(
        ["bash", "-c", f"{run} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert piped.stdout == "y\n141\n"


@pytest.mark.long
def test_one_that_was_started_with_nohup_stays_so(url: str) -> None:
    show = "import signal; print(int(signal.getsignal(signal.SIGHUP)), signal.getsignal(signal.SIGINT))"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = recipes_run(url, "--", sys.executable, "-c", show)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done.stdout == "1 <built-in function default_int_handler>\n"


@pytest.mark.long
def test_killed_at_any_moment_it_leaves_no_command(url: str, tmp_path: Path) -> None:
    start_s = killed_leaves_nothing(url, tmp_path / "started", lambda run: run.until("child"))
    for part in (0.5, 0.75, 1.0, 1.25):  # while it starts: there is nothing to wait for
        killed_leaves_nothing(url, tmp_path / f"run-{part}", lambda _, part=part: time.sleep(part * start_s))


def killed_leaves_nothing(url: str, folder: Path, wait: Callable[[Run], object]) -> float:
    """Kill ``recipes run`` after a wait, and see what it leaves; returns for how long it ran."""
    began = boot_time()
    with Run(url, folder, words=("family", "stubborn")) as run:
        wait(run)
        run.signal(signal.SIGKILL)
        ran_s = boot_time() - began
        run.process.wait(10)
        with recipes.connect(url) as client:
            client.lock("x").acquire(timeout=60)
            assert run.running() == []
    return ran_s


@pytest.mark.long
def test_stopped_with_its_guard_it_ends_the_command_when_it_goes_on(url: str, tmp_path: Path) -> None:
    with (
        recipes.connect(url) as client,
        Run(url, tmp_path / "run", "--ttl", "8", words=("stubborn",)) as run,
    ):
        guard = run.until("child").guard
        os.kill(guard, signal.SIGSTOP)
        run.signal(signal.SIGSTOP)
        client.lock("x").acquire(timeout=20)
        assert run.running() == [run.pid()]  # with both stopped nobody is left to end it: a token is
        run.signal(signal.SIGCONT)
        run.gone_at()  # by recipes run itself, for the guard still stands
        os.kill(guard, signal.SIGCONT)
        assert run.ended()[0] == codes.LOST
        assert not alive(guard)


@pytest.mark.long
def test_in_the_background_it_waits_for_fg_to_read(url: str, shell: Terminal) -> None:
    shell.press(
        typed([*test_run_terminal.run(url, "--", "sh", "-c"), "'read line; echo \"read <$line>\"'", "&"])
    )
    shell.until("[1]")
    assert servers.eventually(lambda: b"Stopped" in shell.drawn or poke(shell), 20)
    shell.press(b"fg\n")
    shell.press(b"late\n")
    shell.until("read <late>")


def poke(shell: Terminal) -> bool:
    """Have the shell tell of its jobs."""
    shell.press(b"jobs\n")
    shell._read(0.2)
    return b"Stopped" in shell.drawn
