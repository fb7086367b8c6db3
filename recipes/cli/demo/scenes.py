"""The two scenes, and the files of numbers that their processes share.

A file has no protection of its own. A change reads it, pauses, as a real program does while it works, and
writes it: of two changes at the same time, one overwrites the other.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["ACCOUNTS", "COUNTER", "SCENES", "SIDES", "Numbers", "Scene", "State", "name_of"]

SIDES = ("locked", "unlocked")


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is, what its lock is called, and what goes wrong without it."""

    name: str
    title: str
    lock: str
    opening: tuple[int, ...]
    wrongs: str


COUNTER = Scene(
    name="counter",
    title="1 of 2: a counter, and a lock",
    lock="recipes demo",
    opening=(0,),
    wrongs="updates lost",
)
ACCOUNTS = Scene(
    name="accounts",
    title="2 of 2: accounts, and a read-write lock",
    lock="recipes demo accounts",
    opening=(250, 250, 250, 250),
    wrongs="wrong sums",
)
SCENES = {scene.name: scene for scene in (COUNTER, ACCOUNTS)}


def name_of(worker: int, scene: Scene) -> str:
    """Return what a worker is in a scene; readers are more than writers, to read together."""
    if scene is COUNTER:
        return f"worker {worker}"
    return f"{'writer' if worker % 5 in (1, 3) else 'reader'} {worker}"


class State(NamedTuple):
    """What a file says: the token of its last change (None without a lock), how many there were, and now."""

    token: int | None
    changes: int
    numbers: list[int]


class Numbers:
    """The file of one side of a scene, in a folder."""

    def __init__(self, folder: Path, scene: Scene, side: str) -> None:
        self._path = folder / f"{side}.{scene.name}"

    def read(self) -> State:
        """Return what it says."""
        return State(*json.loads(self._path.read_text()))

    def write(self, state: State) -> None:
        """Replace it: a reader sees what it said before or what it says now, never half of that."""
        fresh = self._path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(state))
        fresh.replace(self._path)

    def add(self, index: int, amount: int, grant: Any, pause_s: float) -> tuple[int, int | None]:
        """Read, pause, and write one number changed; returns it, and the token that the file had before."""
        _, changes, numbers = self.read()
        numbers[index] += amount
        time.sleep(pause_s)
        if grant is not None:
            grant.check()  # it may have been lost on the way, say because this process was stopped
        before = self.read().token
        self.write(State(grant and grant.token, changes + 1, numbers))
        return numbers[index], before
