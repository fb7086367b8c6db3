"""A command to run under a lock: notes its processes in a folder, and stays until it is ended.

Arguments: the folder, then any of ``stubborn`` (SIGTERM and SIGINT do nothing), ``family`` (a process
in the group, and one that left group, session and parent), ``ends`` (it itself ends at once, and leaves
the family behind).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def note(folder: Path, what: str) -> None:
    """Leave a word and the process id, whole or not at all."""
    fresh = folder / f".{os.getpid()}"
    fresh.write_text(str(os.getpid()))
    fresh.rename(folder / what)


def wait(folder: Path, what: str, *, stubborn: bool) -> None:
    """Note that this process is there, and wait for a signal."""

    def on_signal(number: int, _frame: object) -> None:
        note(folder, f"{what}-{signal.Signals(number).name}")
        if not stubborn:
            os._exit(7)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, on_signal)
    note(folder, what)
    while True:
        signal.pause()


def main() -> int:
    """Do what the arguments say."""
    folder, words = Path(sys.argv[1]), set(sys.argv[2:])
    stubborn = "stubborn" in words
    if "family" in words:
        if os.fork() == 0:
            wait(folder, "near", stubborn=stubborn)
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            wait(folder, "far", stubborn=stubborn)
        while not all((folder / name).exists() for name in ("near", "far")):
            os.sched_yield()
    if "ends" in words:
        return 5
    wait(folder, "child", stubborn=stubborn)
    return 0


if __name__ == "__main__":
    sys.exit(main())
