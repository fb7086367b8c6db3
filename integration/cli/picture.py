"""Makes the pictures of the documentation: the demo, with a worker that is stopped past its session.

``python -m integration.cli.picture docs/images`` runs it and draws what was logged: all of it, and the
first lock alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recipes.cli.demo.command import SLOW_S as TURN_S
from tests.children import child
from tests.cli.runs import RECIPES

__all__ = ["draw", "logged"]

TTL_S = 2
STOPPED = 3
FIRST_STOP = 2
"""The worker that is stopped, and when first: as it holds for the second time."""


def logged(
    url: str, log: Path, *, processes: int = 8, rounds: int = 3, ttl_s: int = TTL_S
) -> list[dict[str, Any]]:
    """Run the demo with one loss, write its log, and return it."""
    size = ["--processes", str(processes), "--rounds", str(rounds)]
    command = [*RECIPES, "demo", "--store", url, *size, "--slowly", "--ttl", str(ttl_s), "--json"]
    with child(command, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        lines = _watched(map(json.loads, demo.stdout))
    assert demo.returncode == 0, lines[-1]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def _watched(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the demo tells, and stop the worker meanwhile, until it has lost what it held."""
    told: list[dict[str, Any]] = []
    pid = holds = 0
    stopped = lost = False
    for line in lines:
        told.append(line)
        match line["event"], line.get("worker") == STOPPED:
            case "ready", True:
                pid = line["pid"]
            case "lock.acquired", True:
                holds += 1
                if holds >= FIRST_STOP and not lost:
                    time.sleep(TURN_S / 3)  # in the middle of its work
                    os.kill(pid, signal.SIGSTOP)
                    stopped = True
            case "lock.released", True if stopped:  # before the stop came: once more, when it holds next
                os.kill(pid, signal.SIGCONT)
                stopped = False
            case "lock.acquired", False if stopped:  # the store has given its lock to the next
                time.sleep(2 * TURN_S)
                os.kill(pid, signal.SIGCONT)
                stopped = False
            case "lock.lost", True:
                lost = True
    return told


def draw(log: Path, output: Path, *options: str) -> None:
    """Draw a log as users do."""
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*RECIPES, "timeline", str(log), "-o", str(output), *options], check=True)


def main() -> int:
    """Write the pictures to the folder that the argument names."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "demo.jsonl")
        logged(f"sqlite://{folder}/locks.db", log)
        draw(log, Path(sys.argv[1], "demo.svg"))
        draw(log, Path(sys.argv[1], "lock.svg"), "--lock", "recipes demo")
    return 0


if __name__ == "__main__":
    sys.exit(main())
