"""The clients of a run as processes that can be stopped and killed."""

from __future__ import annotations

import functools
import os
import signal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from integration.chaos.client import Spec, main
from integration.harness.process import eventually

__all__ = ["Process"]

ENDED_S = 20.0
ANSWER_S = 60.0  # it waits for all that it does, and for its cleaner
STOPPED_S = 5.0


@functools.cache
def _context() -> Any:
    """Return what forks from one process that has imported all that a client needs."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["integration.chaos.client"])
    return context


class Process:
    """A client in a process of its own."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self._ours, theirs = _context().Pipe()
        self._process = _context().Process(target=main, args=(spec, theirs), name=spec.who, daemon=True)
        self._process.start()
        theirs.close()
        self.pid: int = self._process.pid

    def stop(self) -> None:
        """Stop it (SIGSTOP); it is stopped when this returns, or dead."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: self._state() in "TXZ", STOPPED_S, every_s=0.002)

    def go_on(self) -> None:
        """Continue it (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it (SIGKILL); dead when this returns."""
        self._process.kill()
        self._process.join(ENDED_S)
        self._ours.close()

    def tell(self, word: str) -> None:
        """Tell it to stop, or to close."""
        self._ours.send(word)

    def answer(self, within_s: float = ANSWER_S) -> dict[str, Any]:
        """Return what it says; AssertionError if it says nothing, or has ended."""
        assert self._ours.poll(within_s), f"{self.spec.who} said nothing within {within_s:g} s"
        try:
            said: dict[str, Any] = self._ours.recv()
        except EOFError:
            raise AssertionError(f"{self.spec.who} ended by itself") from None
        return said

    def ended(self, within_s: float = ENDED_S) -> bool:
        """Whether it ends by itself, and well."""
        self._process.join(within_s)
        return bool(self._process.exitcode == 0)

    def _state(self) -> str:
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):  # the latter, if it ends while it is read
            return "X"
