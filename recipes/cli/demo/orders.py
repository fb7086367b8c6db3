"""What the parent asks of a worker, and how a line of JSON carries it."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from typing import Literal

from recipes._run.clock import boot_time
from recipes.cli.demo.work import PAUSE_S, SLOW_S

__all__ = ["SESSION_S", "Order", "SceneName"]

SESSION_S = 10.0
"""The session of a worker, unless another is asked for."""

SceneName = Literal["counter", "bank"]


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    """So many turns, or turns for so long.

    Attributes:
        scene: What to do in each.
        rounds: How many turns, None for as many as fit.
        seconds: For how long, None for as long as it takes.
        slow: How many of the first turns to take slowly, for somebody who watches.
    """

    scene: SceneName
    rounds: int | None = None
    seconds: float | None = None
    slow: int = 0

    def turns(self) -> Iterator[float]:
        """Yield for each turn until the order is carried out how long its work takes, in seconds."""
        end = math.inf if self.seconds is None else boot_time() + self.seconds
        for number in itertools.count(1):
            if number > (self.rounds or math.inf) or boot_time() >= end:
                return
            yield SLOW_S if number <= self.slow else PAUSE_S

    def line(self) -> str:
        """Return it as one line."""
        return json.dumps(dataclasses.asdict(self)) + "\n"

    @classmethod
    def of_line(cls, line: str) -> Order:
        """Return the order that a line carries."""
        return cls(**json.loads(line))
