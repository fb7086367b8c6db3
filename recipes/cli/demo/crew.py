"""The crew: worker processes, started and ended together, and what they write."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import recipes
from recipes._run.clock import boot_time
from recipes.cli.demo.worker import OPTIONS_VARIABLE

__all__ = ["Crew", "CrewFailed", "Message"]

Message = dict[str, Any]
TICK_S = 0.05
SILENCE_S = 45.0  # longer than any worker waits for the store or for its turn
END_WITHIN_S = 6.0  # a little more than closing a client may take
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from recipes.cli.demo.worker import main; main()"
"""The worker runs this very package, and not a folder named recipes where the user happens to be."""


class CrewFailed(Exception):
    """A worker ended too early, or all fell silent; the message says which and why."""


class Crew:
    """Worker processes at a store, each with a session of its own, and a folder for what they share.

    All write to one pipe. If this process is killed, the pipe ends and their orders do: so do they.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        size: int,
        session_s: float,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._env = {**os.environ, OPTIONS_VARIABLE: json.dumps(dict(options))}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        home = str(Path(recipes.__file__).parents[1])
        words = [home, str(os.getpid()), url, str(folder), str(session_s)]
        self._words = {number: [*words, str(number)] for number in range(1, size + 1)}
        self._late = set(self._words)
        self._unread = b""

    def __enter__(self) -> Self:
        self._pipe, theirs = os.pipe()
        try:
            for number, words in self._words.items():
                self.processes[number] = subprocess.Popen(  # noqa: S603 - the command is ours
                    [sys.executable, "-P", "-c", START, *words],
                    env=self._env,
                    stdin=subprocess.PIPE,
                    stdout=theirs,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C is for this process, which then ends them
                )
        except BaseException:
            self.__exit__()
            raise
        finally:
            os.close(theirs)
        return self

    def __exit__(self, *_: object) -> None:
        """End every worker: politely, so that its locks are released, and then not."""
        os.close(self._pipe)
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)  # one that is stopped has to get the other, too
            process.terminate()
        end = boot_time() + END_WITHIN_S
        try:
            for process in self.processes.values():
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(end - boot_time(), 0.0))
        finally:  # also after a second Ctrl-C
            for process in self.processes.values():
                process.kill()
                process.communicate()

    def order(self, *words: object) -> None:
        """Give everyone an order."""
        self._late = set(self.processes)
        for process in self.processes.values():
            with suppress(BrokenPipeError):  # it has ended, which `messages` will notice
                assert process.stdin is not None, "it was asked for"
                process.stdin.write(" ".join(map(str, words)).encode() + b"\n")

    def messages(self) -> Iterator[Message | None]:
        """Yield what they write until everyone did what it should; None when nothing came for a moment.

        Raises:
            CrewFailed: One ended or failed before that, or all are silent for too long.
        """
        heard_at = boot_time()
        while self._late:
            ready, _, _ = select.select([self._pipe], [], [], TICK_S)
            chunk = os.read(self._pipe, 65_536) if ready else b""
            *lines, self._unread = (self._unread + chunk).split(b"\n")
            for message in map(json.loads, lines):
                if message["event"] == "failed":
                    raise CrewFailed(f"worker {message['worker']} failed: {message['reason']}")
                if message["event"] in ("ready", "done"):
                    self._late.discard(message["worker"])
                yield message
            if lines:
                heard_at = boot_time()
                continue
            for number, process in self.processes.items():
                if (code := process.poll()) is not None:
                    by = f"with exit code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
                    raise CrewFailed(f"worker {number} ended {by}")
            if boot_time() - heard_at > SILENCE_S:
                raise CrewFailed(f"no answer came from the workers {self._late} for {SILENCE_S:g} s")
            yield None
