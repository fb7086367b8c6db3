"""Processes that each count numbers up, under tokens that overtake each other.

There is no lock at all: each takes the next token, reads, dawdles, and writes what it read
plus one; so nearly all are late. That is harder than any lock that is lost now and then. In
between they count another number, past the gate: if that loses nothing, the race was too easy.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from recipes import StaleToken
from tests.fencing.doors import NAMES, Door

__all__ = ["Outcome", "race"]

RACERS = 4
ROUNDS = 30
SLOWEST_S = 0.01
GATED, BARE = NAMES
"""The number that is counted through the gate, and the one past it."""


@dataclass(frozen=True)
class Outcome:
    """What a race came to: updates that were reported as done, refused, and not there at the end."""

    acknowledged: int
    refused: int
    lost: int
    lost_without: int


def race(door: Door, folder: Path) -> Outcome:
    """Have processes race for both numbers of ``door``; returns what they came to."""
    tokens = folder / "tokens"
    tokens.touch()
    kind = type(door)
    command = [sys.executable, "-m", __name__, kind.__module__, kind.__name__, door.place, str(tokens)]
    racers = [
        subprocess.Popen([*command, str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(RACERS)
    ]
    line_up(racers)
    refused = [int(racer.communicate(timeout=300)[0]) for racer in racers]
    assert [racer.returncode for racer in racers] == [0] * RACERS
    done = RACERS * ROUNDS
    acknowledged = done - sum(refused)
    lost = acknowledged - door.bare_read(GATED)
    return Outcome(acknowledged, sum(refused), lost, done - door.bare_read(BARE))


def line_up(racers: list[subprocess.Popen[str]]) -> None:
    """Let all go when the last of them is ready: some start much later than others."""
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()


def next_token(path: Path) -> int:
    """Return a number that nobody else gets, larger than all before: where an appended byte ends."""
    target = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(target, b"x")
        return os.lseek(target, 0, os.SEEK_CUR)
    finally:
        os.close(target)


def main(module: str, kind: str, place: str, tokens: str, seed: str) -> None:
    """Race, and say how often the gate refused."""
    door: Door = getattr(importlib.import_module(module), kind)(place)
    dice = random.Random(seed)
    refused = 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(ROUNDS):
        token = next_token(Path(tokens))
        with contextlib.suppress(StaleToken):
            refused += 1
            value = door.read(GATED, token)
            time.sleep(dice.uniform(0, SLOWEST_S))
            door.write(GATED, token, value + 1)
            refused -= 1
        value = door.bare_read(BARE)
        time.sleep(dice.uniform(0, SLOWEST_S))
        door.bare_write(BARE, value + 1)
    door.close()
    print(refused)


if __name__ == "__main__":
    main(*sys.argv[1:])
