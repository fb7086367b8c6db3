"""The side of ``recipes run`` of its guard: how the guard is started, and what the two send each other."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from recipes.cli.running import guard
from recipes.stores.registry import liveness_locks

__all__ = ["GuardGone", "Minder"]

END_WITHIN_S = 5.0


class GuardGone(Exception):
    """The guard ended before its command did; whatever was left of the command was killed.

    Attributes:
        stuck: The processes that do not die all the same.
    """

    def __init__(self, stuck: Sequence[int] = ()) -> None:
        super().__init__(stuck)
        self.stuck = tuple(stuck)


class Minder:
    """A guard, started before the lock is asked for: nothing of the client's is inherited by the command.

    Args:
        inherited: File descriptors above 2 that the command shall have.
    """

    def __init__(self, inherited: Sequence[int]) -> None:
        guard.become_reaper()  # should the guard be killed, its orphans become ours
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - the command is ours
                [sys.executable, "-I", str(Path(guard.__file__)), str(theirs.fileno())],
                pass_fds=(*inherited, theirs.fileno()),
                process_group=0,  # a terminal's keys are for the command
            )
        self._unread = b""
        self._command = 0
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the guard, and with it all that is left of the command; again does no harm."""
        self._socket.close()  # it notices that, kills what is left, and ends
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def fileno(self) -> int:
        """Return what to wait on for news."""
        return self._socket.fileno()

    def await_ready(self) -> None:
        """Wait until it answers: before the lock is held, for then every moment counts.

        Raises:
            GuardGone: It could not be started.
        """
        while not any(message["told"] == "ready" for message in self.news()):
            pass

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        deadline: float | None,
        grace_s: float,
        terminal: bool,
        ignored: Sequence[int],
    ) -> None:
        """Start the command, if that is not too late.

        On a file the store sees a process die at once, and before the guard does: what shows that this
        process lives is handed to the guard, and goes when the guard has ended the command.
        """
        self._tell(
            "start",
            command=[_carried(word) for word in command],
            environment={_carried(name): _carried(value) for name, value in environment.items()},
            deadline=deadline,
            grace_s=grace_s,
            terminal=terminal,
            ignored=list(ignored),
            files=liveness_locks(),
        )

    def deadline(self, at: float | None) -> None:
        """Tell until when the lock is proven now; a guard that is stopped may miss it."""
        line = _line("deadline", at=at)
        with suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
            sent = self._socket.send(line, socket.MSG_DONTWAIT)
            self._socket.sendall(line[sent:])  # what has begun has to end

    def signal(self, number: int) -> None:
        """Pass a signal on to the command, and to all of its process group."""
        self._tell("signal", number=number)

    def resume(self, *, terminal: bool) -> None:
        """Let a stopped command go on, with the terminal or without."""
        self._tell("resume", terminal=terminal)

    def kill(self) -> None:
        """Kill the command from here, should the guard be stopped; and the guard, so that its end is read.

        What the command started outside its process group becomes ours then, and is ended by `news`.
        """
        if self._command and not self._over:
            with suppress(OSError):
                os.killpg(self._command, signal.SIGKILL)
            self._process.kill()

    def news(self) -> Iterator[dict[str, Any]]:
        """Yield what the guard has told; something is there to be read.

        Raises:
            GuardGone: It ended before the command did; what was left is killed.
        """
        try:
            chunk = self._socket.recv(1 << 16)
        except ConnectionResetError:  # it was killed with an order unread
            chunk = b""
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            message: dict[str, Any] = json.loads(line)
            self._command = message.get("pid", self._command)
            self._over = self._over or message["told"] in ("ended", "failed", "late")
            yield message
        if not chunk and not self._over:
            stuck = guard.end_all(self._command, os.getpid()) if self._command else ()
            guard.bury()  # `recipes elect` goes on
            raise GuardGone(stuck)

    def _tell(self, what: str, *, files: Sequence[int] = (), **fields: Any) -> None:
        line = _line(what, **fields)
        with suppress(BrokenPipeError, ConnectionResetError):  # its end will be read
            sent = socket.send_fds(self._socket, [line], files)
            self._socket.sendall(line[sent:])


def _line(what: str, **fields: Any) -> bytes:
    return json.dumps({"do": what, **fields}).encode() + b"\n"


def _carried(text: str) -> str:
    """Return text whose characters are the bytes of ``text``: the guard may have another locale."""
    return os.fsencode(text).decode("latin-1")
