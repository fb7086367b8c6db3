"""``recipes run`` as a process, and its command, that notes what there is of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from integration import servers
from recipes._run.clock import boot_time
from tests.pace import Pace, grown_s, put_off

__all__ = ["MARGIN", "RECIPES", "STRUCK", "WITHIN_S", "Run", "alive", "child", "recipes_run"]

RECIPES = [sys.executable, "-m", "recipes"]
STRUCK = ["/usr/bin/env", "-u", "COVERAGE_PROCESS_CONFIG", "-u", "COVERAGE_PROCESS_START", *RECIPES]
"""The same for one that is interrupted: not measured, as an interrupt leaves a lock of coverage taken."""
CHILD = Path(__file__).with_name("child.py")
WITHIN_S = 60.0
MARGIN = 0.1
"""The part of a session that is left when its proof ends, and the guard kills."""


def recipes_run(url: str, *words: str, by: str = "run", **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``recipes run x ...`` to its end, or ``recipes elect x ...``."""
    command = [*RECIPES, by, "x", "--store", url, *words]
    options = {"capture_output": True, "text": True, "timeout": 180, **options}
    return subprocess.run(command, check=False, **options)


def child(folder: Path, *words: str) -> list[str]:
    """Return the command that notes its processes in ``folder``."""
    return [sys.executable, "-S", "-E", str(CHILD), str(folder), *words]


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False


class Run:
    """A ``recipes run`` whose command notes its processes; whatever is left of it ends with the block.

    Args:
        url: The store.
        folder: Where the processes are noted.
        options: Of ``recipes run``.
        words: What the command is to be, see ``child.py``.
        lock: The name of the lock, or election.
        by: "run", or "elect".
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        *options: str,
        words: tuple[str, ...] = (),
        lock: str = "x",
        by: str = "run",
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        report = ["--report", str(folder / "report")]
        command = [*STRUCK, by, lock, "--store", url, *options, *report, "--", *child(folder, *words)]
        with (folder / "stderr").open("w") as said:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, text=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in (*self.pids(), self.process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def until(self, *words: str) -> Self:
        """Wait until these were noted."""
        there = servers.eventually(lambda: all(map(self.noted, words)), WITHIN_S, every_s=0.01)
        assert there, (words, sorted(path.name for path in self.folder.iterdir()), self.process.poll())
        return self

    def until_said(self, words: str) -> Self:
        """Wait until these were said on the standard error output."""
        assert servers.eventually(lambda: words in self.said(), WITHIN_S, every_s=0.01), self.said()
        return self

    def said(self) -> str:
        """Return what was said on the standard error output so far."""
        return (self.folder / "stderr").read_text()

    def forget(self, *words: str) -> None:
        """Forget what was noted, to see it noted anew."""
        for word in words:
            (self.folder / word).unlink()

    def noted(self, word: str) -> bool:
        """Whether the command noted this."""
        return (self.folder / word).exists()

    def pid(self, word: str = "child") -> int:
        """Return the process that noted this."""
        return int((self.folder / word).read_text())

    def pids(self) -> list[int]:
        """Return the processes of the command."""
        return [self.pid(word) for word in ("child", "near", "far") if self.noted(word)]

    @property
    def guard(self) -> int:
        """The process between."""
        text = Path(f"/proc/{self.pid()}/stat").read_text()
        return int(text.rpartition(")")[2].split()[1])

    def running(self) -> list[int]:
        """Return the processes of the command that run now."""
        return [pid for pid in self.pids() if alive(pid)]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to ``recipes run`` alone."""
        self.process.send_signal(number)

    def gone_at(self) -> float:
        """Wait until nothing of the command runs, and return when that was."""
        assert servers.eventually(lambda: not self.running(), WITHIN_S, every_s=0.005), self.running()
        return boot_time()

    @contextlib.contextmanager
    def gone_before(self, ttl_s: float) -> Iterator[None]:
        """See that nothing of the command runs when the block ends, in which the lock passes to another.

        But for what the machine adds: as long as it was late since the guard had to kill, something may run.
        """
        guard = self.guard
        before = put_off(guard)
        with Pace() as pace:
            yield
            ended_at = boot_time()
            if not self.running():
                return
            too_long_s = self.gone_at() - ended_at
            late_s = pace.late_s(ended_at - ttl_s * MARGIN) + grown_s(before, put_off(guard))
        assert too_long_s <= late_s, f"ran for {too_long_s:.3f} s, and the machine was {late_s:.3f} s late"

    def ended(self) -> tuple[int, str, dict[str, Any]]:
        """Wait for the end; returns the exit code, what was said, and the report."""
        self.process.communicate(timeout=WITHIN_S)
        path = self.folder / "report"
        return self.process.returncode, self.said(), json.loads(path.read_text()) if path.exists() else {}
