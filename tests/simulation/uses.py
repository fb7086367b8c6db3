"""What the users of a schedule do, and which oracle judges it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from recipes._contract.rule import Rule
from tests.simulation.oracles import Oracle
from tests.simulation.users import MIXED, PERMITS, Once, mixture, use_a_lock

__all__ = ["LOCKS", "MIXED_LOCKS", "SEMAPHORES", "Use"]


@dataclass(frozen=True, slots=True)
class Use:
    """What the clients of a schedule do.

    Attributes:
        once: What a user does, again and again.
        oracle: What judges it.
        queues: Those that users queue in.
        rules: Returns of which rules a seed's users draw.
        observer: What one more task of most clients does, while the users are at work and after that.
        finale: What one task of each client that lives does at last, when all has healed.
        writes: They write values: most faults strike these writes, which may come twice too, and all that is
            late arrives before the last look, though all clients have closed.
        forgives: They can be judged where the store loses what it has confirmed.
        times: How many times as many requests as others they make.
    """

    once: Once
    oracle: type[Oracle] = Oracle
    queues: tuple[str, ...] = ("q",)
    rules: Callable[[int], tuple[Rule, ...]] = field(default=lambda seed: ())
    observer: Callable[[Any, Any], Generator[Any, Any, None]] | None = None
    finale: Callable[[Any, Any], Generator[Any, Any, None]] | None = None
    writes: bool = False
    forgives: bool = False
    times: int = 1


LOCKS = Use(use_a_lock, rules=mixture, forgives=True)
MIXED_LOCKS = Use(use_a_lock, rules=lambda seed: MIXED, forgives=True)
SEMAPHORES = Use(use_a_lock, queues=("~semaphore/q",), rules=lambda seed: PERMITS, forgives=True)
