"""``recipes run`` on a terminal: who has the keys, Ctrl-C and Ctrl-Z at each stage, and how it is left."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import recipes
from integration import servers
from integration.harness.terminal import CTRL_C, Terminal
from recipes._run.clock import boot_time
from recipes.cli.running.supervise import HANG_UP_AGAIN_S
from recipes.cli.running.terminal import Terminal as Lent
from tests.cli.runs import STRUCK, WITHIN_S, child

CTRL_Z = b"\x1a"
QUIET = {"PS1": "$ ", "TERM": "dumb"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite://{tmp_path}/locks.db"


def run(url: str, *words: str) -> list[str]:
    """Return the command line."""
    return [*STRUCK, "run", "x", "--store", url, *words]


def stopped(pid: int) -> bool:
    """Whether a process is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_the_command_reads_the_keys(url: str) -> None:
    words = ["--", "sh", "-c", 'read line; echo "read $line"']
    with Terminal(run(url, *words), environment={}) as terminal:
        terminal.press(b"hello\n")
        assert terminal.ended() == 0
        assert "read hello" in terminal.drawn.decode()
        assert terminal.attributes == terminal.before


def test_ctrl_c_while_waiting(url: str) -> None:
    with recipes.connect(url) as client, client.lock("x"):
        with Terminal(run(url, "--", "true"), environment={}) as terminal:
            terminal.until("waiting for lock 'x', 1 ahead")
            terminal.press(CTRL_C)
            assert terminal.ended() == 130
        assert "SIGINT while waiting for lock 'x'; true was not started" in terminal.drawn.decode()
        assert "Traceback" not in terminal.drawn.decode()


@pytest.mark.parametrize(("words", "code"), [((), 7), (("stubborn",), 137)])
def test_ctrl_c_is_the_command_s(url: str, tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    with Terminal(run(url, "--", *child(folder, *words)), environment={}) as terminal:
        assert servers.eventually((folder / "child").exists, WITHIN_S)
        terminal.press(CTRL_C)
        assert servers.eventually((folder / "child-SIGINT").exists, WITHIN_S)
        if words:  # it goes on, and so does the lock
            with recipes.connect(url) as client:
                assert client.lock("x").try_acquire() is None
            os.kill(int((folder / "child").read_text()), signal.SIGKILL)
        assert terminal.ended() == code
        assert terminal.attributes == terminal.before


def test_ctrl_c_ends_a_command_that_does_nothing_about_it(url: str) -> None:
    with Terminal(run(url, "--", "sh", "-c", "echo begun; exec sleep 1000"), environment={}) as terminal:
        terminal.until("begun")
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
    with recipes.connect(url) as client:
        assert client.lock("x").try_acquire() is not None


def test_a_command_that_dies_with_the_terminal_in_its_hands_leaves_it_as_it_was(url: str) -> None:
    words = ["--", "sh", "-c", "stty raw -echo; kill -KILL $$"]
    with Terminal(run(url, *words), environment={}) as terminal:
        assert terminal.ended() == 137
        assert terminal.attributes == terminal.before


def test_where_only_who_has_the_terminal_may_write_it_still_says_what_happened(url: str) -> None:
    """With ``stty tostop`` the system stops a process that writes and is not in the foreground."""
    words = ["--", "sh", "-c", "stty tostop; sleep 1000 & exit 3"]
    with Terminal(run(url, *words), environment={}) as terminal:
        terminal.until("left 1 processes behind, which were ended")
        assert terminal.ended() == 3


@pytest.mark.parametrize("ignored", ["", "trap '' TTOU; "])
def test_the_command_has_the_signals_of_the_terminal_as_they_were(url: str, ignored: str) -> None:
    shows = "import signal; print('it is', signal.getsignal(signal.SIGTTOU).name)"
    words = f"{ignored}exec {shlex.join(run(url, '--', sys.executable, '-c', shows))}"
    with Terminal(["/bin/sh", "-c", words], environment={}) as terminal:
        terminal.until(f"it is {'SIG_IGN' if ignored else 'SIG_DFL'}")
        assert terminal.ended() == 0


@pytest.fixture
def shell() -> Iterator[Terminal]:
    """Yield an interactive shell."""
    with Terminal(["/bin/bash", "--norc", "--noprofile", "-i"], environment=QUIET) as terminal:
        terminal.until("$ ")
        yield terminal
        terminal.press(b"exit 0\n")


def typed(words: list[str]) -> bytes:
    """Return a command line as it is typed."""
    return " ".join(words).encode() + b"\n"


@pytest.mark.parametrize("line", ["{}", "{} 2>&-", "set -o pipefail; {} | cat", "sh {script}"])
def test_ctrl_z_stops_the_job_and_fg_continues_it(
    url: str, tmp_path: Path, shell: Terminal, line: str
) -> None:
    folder, script = tmp_path / "notes", tmp_path / "script"
    folder.mkdir()
    command = " ".join(run(url, "--", "sh", "-c", f"'read line; exec {' '.join(child(folder))}'"))
    script.write_text(f"{command}\nexit $?\n")
    shell.press(typed([line.format(command, script=script)]))
    shell.press(b"now\n")
    assert servers.eventually((folder / "child").exists, WITHIN_S)
    pid = int((folder / "child").read_text())
    shell.press(CTRL_Z)
    shell.until("Stopped")
    assert servers.eventually(lambda: stopped(pid), WITHIN_S)
    shell.press(b"fg\n")
    assert servers.eventually(lambda: not stopped(pid), WITHIN_S)
    shell.press(CTRL_C)
    assert servers.eventually((folder / "child-SIGINT").exists, WITHIN_S)
    shell.press(b"echo code=$?\n")
    shell.until("code=7")


def orphaned(shell: Terminal, words: list[str]) -> None:
    """Run these words where no shell can give them the terminal; their exit code is printed."""
    shell.press(typed(["({", *words, "; echo code=$?; } &)"]))


def test_an_orphan_that_reads_the_terminal_is_hung_up(url: str, shell: Terminal) -> None:
    orphaned(shell, run(url, "--", "sh", "-c", "'cat </dev/tty'"))
    shell.until("code=129")
    said = shell.drawn.decode()
    assert said.count("stopped, and nothing renews the session") == 1
    assert said.count("sh waits for the terminal, which no shell can give it: it gets SIGHUP") == 1


STAYS = """
import os, signal, sys
def go_on(*_):
    count.append(0)
    if len(count) == 3:
        os._exit(7)
count = []
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.signal(signal.SIGCONT, go_on)
os.read(os.open("/dev/tty", os.O_RDONLY), 1)
"""


def test_an_orphan_that_reads_on_is_seldom_continued(url: str, shell: Terminal, tmp_path: Path) -> None:
    program = tmp_path / "stays.py"
    program.write_text(STAYS)
    began_at = boot_time()
    orphaned(shell, run(url, "--", sys.executable, str(program)))
    shell.until("code=7")
    assert boot_time() - began_at >= 2 * HANG_UP_AGAIN_S
    assert shell.drawn.decode().count("nothing renews the session") == 1


class Broken(io.StringIO):
    def flush(self) -> None:
        raise OSError(errno.EIO, "it is gone")


@pytest.mark.parametrize("stderr", [None, Broken()], ids=["closed", "broken"])
def test_it_stops_with_the_job_whatever_became_of_standard_error(
    monkeypatch: pytest.MonkeyPatch, stderr: io.StringIO | None
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "killpg", lambda *words: sent.append(words))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)
        Lent().stop_with_the_job()
    assert sent == [(os.getpgrp(), signal.SIGTSTP)]


PAGER = """
import sys
print("pager sees", sys.stdin.readline())
key = open("/dev/tty").readline()  # only now: the command runs, and may have the keys
open(sys.argv[1], "w").close()
print([key, sys.stdin.read()])
"""


def test_beside_a_pager_the_keys_stay_with_the_pager(url: str, shell: Terminal, tmp_path: Path) -> None:
    pressed, pager = tmp_path / "pressed", tmp_path / "pager.py"
    pager.write_text(PAGER)
    command = f"echo begun; while [ ! -e {pressed} ]; do sleep 0.05; done; echo from-below"
    below = run(url, "--", "sh", "-c", f"'{command}'")
    shell.press(typed([*below, "|", sys.executable, "-u", str(pager), str(pressed)]))
    shell.until("pager sees begun")
    shell.press(b"a-key\n")
    shell.until(r"['a-key\n', 'from-below\n']")


def test_one_of_a_pipeline_that_reads_is_lent_the_keys(url: str, shell: Terminal) -> None:
    shell.press(typed([*run(url, "--", "sh", "-c"), "'read line; echo \"read <$line>\"'", "|", "cat"]))
    shell.press(b"now\n")
    shell.until("read <now>")
