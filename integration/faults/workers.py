"""The test's handle on a client that is a process: it can be stopped, continued and killed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

from integration.harness.throwaway import tethered

__all__ = ["Worker"]

PATIENCE_S = 60


class Worker:
    """One process that runs a program of the integration tests, and has said that it is ready.

    A context manager ends it, in whatever state it is.

    Args:
        program: A module below ``integration``.
        args: What it is given.
        wrap: Returns the command, wrapped (in a namespace, say).
        environment: Variables for it.
    """

    def __init__(
        self,
        program: str,
        *args: object,
        wrap: Callable[[list[str]], list[str]] = list,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        command = wrap([sys.executable, "-m", f"integration.{program}", *map(str, args)])
        self._process = subprocess.Popen(
            tethered(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="worker-reader")
        self._reader.start()
        try:
            assert self.next_line() == "ready"
        except BaseException:
            self.__exit__()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def next_line(self, within_s: float = PATIENCE_S) -> str:
        """Return the next line that it prints; AssertionError if it ends, or is silent too long."""
        try:
            line = self._lines.get(timeout=within_s).strip()
        except queue.Empty:
            raise AssertionError(f"the worker said nothing within {within_s} s") from None
        assert line, "the worker ended"
        return line

    @property
    def pid(self) -> int:
        """Return the id of its process."""
        return self._process.pid

    def tell(self, *command: Any) -> None:
        """Send a command."""
        assert self._process.stdin is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)

    def ask(self, *command: Any, within_s: float = PATIENCE_S) -> Any:
        """Send a command, and return the answer."""
        self.tell(*command)
        return json.loads(self.next_line(within_s))

    def stop(self) -> None:
        """Stop it (SIGSTOP); it is stopped when this returns."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def go_on(self) -> None:
        """Continue it (SIGCONT), by its main thread, which runs the handler before anything else.

        A signal for the whole process goes to any thread that is ready for it: more often than not to
        another one, and the main thread may answer a question before that one has run.
        """
        if self._process.poll() is None:
            ctypes.CDLL(None).tgkill(self.pid, self.pid, int(signal.SIGCONT))

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self._process.kill()
        self._process.wait()

    def finish(self, within_s: float = PATIENCE_S) -> int:
        """Wait for its end, and return its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(within_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired, BrokenPipeError):
            self.go_on()
            self.finish(20)  # so that its client is closed
        self.kill()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
