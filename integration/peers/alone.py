"""A client in a process of its own, to be interrupted, or to fork.

Run as ``python -m integration.peers.alone SUBJECT ADDRESS PREFIX WHAT``; it takes lines and gives lines.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from integration.peers.subjects import SUBJECTS, Handle

if TYPE_CHECKING:
    from integration.peers.stage import Stage

__all__ = ["Child", "alone"]

PATIENCE_S = 60


class Child:
    """The process, as the check sees it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tell(self, line: str) -> None:
        """Have it go on."""
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def says(self) -> str:
        """Return the next line it says."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)


@contextlib.contextmanager
def alone(stage: Stage, what: str) -> Iterator[Child]:
    """Run a client of the stage's package in a process of its own."""
    address = f"{stage.server.host}:{stage.server.port}"
    command = [sys.executable, "-m", __name__, stage.name, address, stage.prefix, what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        guard = threading.Timer(PATIENCE_S, process.kill)
        guard.start()
        try:
            one = Child(process)
            assert one.says() == "ready"
            yield one
        finally:
            guard.cancel()
            process.kill()


def interrupted(handle: Handle) -> None:
    """Wait for the lock until a signal comes, and live on."""
    try:
        threading.Thread(target=_say_soon, daemon=True).start()
        handle.acquire(None)
    except KeyboardInterrupt:
        print("KeyboardInterrupt", flush=True)
    sys.stdin.readline()


def _say_soon() -> None:
    time.sleep(1)  # by then it waits, and nothing can be seen of that from outside
    print("waits", flush=True)


def forked(handle: Handle) -> None:
    """Hold, fork, and tell what the child thinks."""
    handle.acquire(PATIENCE_S)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
        child = os.fork()
    if child == 0:
        print("held" if handle.says_held() else "not held", flush=True)
        os._exit(0)
    os.waitpid(child, 0)


def main() -> None:
    """Do what the command line says."""
    name, address, prefix, what = sys.argv[1:]
    handle = SUBJECTS[name](address, prefix).lock("x")
    print("ready", flush=True)
    sys.stdin.readline()
    {"interrupted": interrupted, "forked": forked}[what](handle)
    os._exit(0)  # threads of the client may hang


if __name__ == "__main__":
    main()
