"""A world without chance: what is sent to a model server arrives at once, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recipes.errors import StoreUnavailable
from tests.simulation.moving import Gate

__all__ = ["InOrder"]


class _Client:
    """What the model connections read of their client."""

    paused = dead = False

    def __init__(self, world: InOrder) -> None:
        self.world = world
        self.gate = Gate()


class _Session:
    id = "script"


class _Call:
    """What the models read of the call that asks: no request of a script is a part of a call's write."""

    doubt = None
    session = _Session()


class _Task:
    name = "script"
    number = 0
    call = _Call()


class InOrder:
    """What the model servers need of the simulation's ``World``, without its choices.

    Args:
        random: Whatever the models ask of chance.
    """

    pct = False
    trace = None
    now = 1000.0

    def __init__(self, random: Callable[[], float]) -> None:
        self.random = random
        self.moving: list[Any] = []
        self.timers: list[Any] = []
        self.ticks: list[Any] = []
        self.requests = 0
        self.client = _Client(self)
        self._answers: list[tuple[Any, BaseException | None]] = []

    def mark(self, kind: int, which: int) -> None:
        """Take part in no trace."""

    def drop(self, at: int) -> None:
        """Have nothing more on its way there."""
        del self.moving[at]

    def resume(self, task: Any, value: Any, error: BaseException | None) -> None:
        """Take the answer to the one request under way."""
        self._answers.append((value, error))

    def ask(self, connection: Any, request: Any) -> Any:
        """Send a request over a model connection; return the reply or raise, when all is quiet again."""
        connection.send(_Task(), request)
        self.settle()
        answers, self._answers = self._answers, []
        if len(answers) != 1:
            raise StoreUnavailable("model", f"{len(answers)} answers to one request")
        ((value, error),) = answers
        if error is not None:
            raise error
        return value

    def settle(self) -> None:
        """Let everything under way arrive, what was sent first before the rest."""
        while True:
            at = next((at for at, one in enumerate(self.moving) if one.gate.open), None)
            if at is None:
                return
            self.moving[at].go(at)
