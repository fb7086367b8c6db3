"""Playing a scene: the workers under their lock, and the twins without it at the same pace."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from recipes._run.clock import boot_time
from recipes.cli.demo.crew import Crew
from recipes.cli.demo.member import Message
from recipes.cli.demo.scene import Scene
from recipes.cli.demo.screen import Screen

__all__ = ["Pace", "play"]

STEP = 5
"""So many turns a twin is given at a time."""


@dataclass(slots=True)
class Pace:
    """How far the twins may go: as far as the workers, in steps, for all of them to work at once.

    Attributes:
        slow: So many turns come one by one, and slowly.
        given: How many turns each twin was given.
    """

    slow: int
    given: int = 0

    def due(self, reached: int, *, last: bool) -> tuple[int, int]:
        """Return how many turns to give each twin now, and how many of these are slow.

        Args:
            reached: How many turns the workers have taken, each, on average.
            last: Whether they have taken all.
        """
        step = 1 if self.given < self.slow else STEP
        rounds = max(reached, 1) - self.given if last else step * ((reached - self.given) // step)
        if rounds <= 0:
            return 0, 0
        slow = min(max(self.slow - self.given, 0), rounds)
        self.given += rounds
        return rounds, slow


def play(scene: Scene, crew: Crew, folder: Path, screen: Screen) -> tuple[list[Message], list[Message]]:
    """Play a scene to its end; returns the turns of the workers, and those of the twins."""
    turns: list[Message] = []
    twins: list[Message] = []
    pace = Pace(scene.order.slow)
    scene.prepare(folder)
    screen.begin(scene, boot_time())
    crew.order(scene.order)
    over = False
    for message in crew.messages():
        screen.pass_on(message)
        if message is not None and message["kind"] == "turn":
            (twins if message["twin"] else turns).append(message)
        if not over:
            over = not crew.busy(twins=False)
            rounds, slow = pace.due(len(turns) // scene.processes, last=over)
            if rounds:
                crew.order(replace(scene.order, rounds=rounds, seconds=None, slow=slow), twins=True)
    screen.end()
    return turns, twins
