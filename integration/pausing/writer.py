"""A client that checks its grant, and then writes: ``python -m integration.pausing.writer WHO URL FILE``.

It tells what happens to it as lines of JSON, and waits for a line before each next step.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import recipes
from recipes import events, fencing
from recipes._run.clock import boot_time

SESSION_S = 3
LOCK = "reports/nightly"
TOLD = ("lock.queued", "lock.acquired", "lock.released", "lock.lost")


def tell(kind: str, **facts: Any) -> None:
    """Write one line."""
    print(json.dumps({"at": boot_time(), "who": sys.argv[1], "kind": kind, **facts}), flush=True)


def told(transition: events.Transition) -> None:
    """Pass on what happened to the lock."""
    if transition.event in TOLD:
        tell(transition.event, token=transition.token, reason=transition.reason)


def write(gate: fencing.FileGate, token: int) -> None:
    """Write once under this token, and tell what came of it."""
    try:
        gate.write(token, sys.argv[1].encode())
    except recipes.StaleToken as refused:
        tell("refused", token=token, reason=str(refused))
    else:
        tell("written", token=token)


def main() -> None:
    """Hold the lock, and write twice."""
    _, _, url, file = sys.argv
    gate = fencing.FileGate(Path(file))
    events.subscribe(told)
    with recipes.connect(url, session_timeout=SESSION_S) as client:
        grant = client.lock(LOCK).acquire()
        token = grant.token
        assert token is not None
        write(gate, token)
        sys.stdin.readline()
        tell("checked", held=grant.held)
        sys.stdin.readline()
        write(gate, token)
        tell("looked", held=grant.held)
        sys.stdin.readline()
        grant.release()


if __name__ == "__main__":
    main()
