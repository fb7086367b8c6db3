"""One process of the crew, from its parent's side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from typing import IO, Any

from recipes._run.clock import boot_time
from recipes.cli.demo.orders import Order

__all__ = ["Member", "Message"]

Message = dict[str, Any]
CHUNK = 1 << 16


class Member:
    """A worker or a twin, and what it owes.

    Args:
        number: Which one it is, from 1.
        process: It.
        errors: What it writes to standard error.
        twin: Whether it works without the lock.

    Attributes:
        owes: How many answers it has still to give.
    """

    def __init__(self, number: int, process: subprocess.Popen[bytes], errors: IO[str], *, twin: bool) -> None:
        assert process.stdin is not None, "it was asked for"
        assert process.stdout is not None, "it was asked for"
        self.process = process
        self.twin = twin
        self.owes = 1  # it says when it is ready
        self.output = process.stdout
        self._number = number
        self._input = process.stdin
        self._errors = errors
        self._unread = b""
        self._dismissed = False

    @property
    def name(self) -> str:
        """What it is called when something is wrong with it."""
        return f"{'unlocked ' * self.twin}worker {self._number}"

    def order(self, order: Order) -> None:
        """Give it an order."""
        self.owes += 1
        with suppress(BrokenPipeError):  # it has ended, and its output will tell
            self._input.write(order.line().encode())

    def dismiss(self) -> None:
        """Tell it that there are no more orders."""
        self.owes += 1
        self._dismissed = True
        with suppress(BrokenPipeError):
            self._input.close()

    def read(self) -> tuple[list[Message], bool]:
        """Return what it has told, and whether that was all."""
        chunk = os.read(self.output.fileno(), CHUNK)
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        return [json.loads(line) for line in lines], not chunk

    def obituary(self, within_s: float) -> Message:
        """Return how it ended, now that it tells no more; one that does not end is killed."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        fate = {"worker": self._number, "twin": self.twin, "kind": "ended", "at": boot_time(), "code": code}
        return {**fate, "reason": self._why(code)}

    def account_for(self, message: Message) -> str | None:
        """Take note of a message; returns what is wrong, if it means that something is."""
        kind = message["kind"]
        if kind == "failed":
            return f"failed: {message['reason']}"
        if kind == "ended" and (message["code"] or not self._dismissed):
            return str(message["reason"])
        self.owes -= kind in ("ready", "done", "ended")
        return None

    def terminate(self) -> None:
        """Ask it to end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)  # one that was stopped has to hear it, too
            self.process.terminate()

    def let_go(self) -> None:
        """End it if it has not, and close what was open to it."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self._input, self.output, self._errors):
            with suppress(BrokenPipeError):
                stream.close()

    def _why(self, code: int) -> str:
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-1:]
        return f"ended with exit code {code}" + "".join(f": {line}" for line in last)
