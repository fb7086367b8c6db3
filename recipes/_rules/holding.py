"""Which contenders of a queue hold, and how many wait: derived from the rule of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from recipes._contract.contenders import Ahead, Contender
from recipes._rules.registry import rule_of

__all__ = ["granted", "holders", "waiting"]


def holders(queue: Iterable[Contender]) -> int:
    """Return how many of a queue hold, from its head on, as the store shows it; they may not know yet.

    A contender holds unless the rule of its kind names one ahead that blocks it. Behind the first that
    waits, all wait: no rule lets a contender overtake.
    """
    everyone: list[Contender] = []
    exclusive: list[Contender] = []
    for contender in queue:
        rule = rule_of(contender.kind)
        seen = exclusive if rule.exclusive_only else everyone
        if rule.blocked_by(tuple(reversed(seen[-rule.depth :]))):
            break
        everyone.append(contender)
        if not contender.shared:
            exclusive.append(contender)
    return len(everyone)


def granted(queue: Sequence[Contender]) -> list[bool]:
    """Return which of a queue hold, from its head on; see `holders`."""
    holding = holders(queue)
    return [entry < holding for entry in range(len(queue))]


def waiting(ahead: Ahead) -> Ahead:
    """Return which of all those ahead, nearest first, wait themselves.

    Readers beside a writer that downgraded count as waiting: not every store shows them apart.
    """
    return ahead[: len(ahead) - holders(replace(contender, mark="") for contender in reversed(ahead))]
