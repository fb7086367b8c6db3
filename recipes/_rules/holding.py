"""Which contenders of a queue hold, and how many wait: derived from the rule of each kind."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from recipes._contract.contenders import Ahead, Contender
from recipes._rules.registry import rule_of

__all__ = ["granted", "holders", "waiting"]


def granted(queue: Iterable[Contender]) -> list[bool]:
    """Return which of a queue hold, from its head on, as the store shows it; they may not know yet.

    A contender holds unless the rule of its kind names one ahead that blocks it. Behind the first that
    waits, all wait, but those to which only their own kind matters: no other rule lets a contender overtake.
    """
    everyone: list[Contender] = []
    exclusive: list[Contender] = []
    of_kind: dict[str, list[Contender]] = {}
    found: list[bool] = []
    waits = False
    taken = 0.0
    for contender in queue:
        rule = rule_of(contender.kind)
        alike = of_kind.setdefault(contender.kind, [])
        taken += math.inf if rule.weight is None else rule.weight
        if rule.weight is not None:  # as its predicate says, of which each adds up all that are ahead of it
            holds = not waits and taken <= rule.depth
        else:
            seen = alike if rule.own_kind_only else exclusive if rule.exclusive_only else everyone
            overtakes = rule.own_kind_only or not waits
            holds = overtakes and not rule.blocked_by(tuple(reversed(seen[-rule.depth :])))
        waits = waits or not holds
        found.append(holds)
        alike.append(contender)
        everyone.append(contender)
        if not contender.shared:
            exclusive.append(contender)
    return found


def holders(queue: Iterable[Contender]) -> int:
    """Return how many of a queue hold; see `granted`."""
    return sum(granted(queue))


def waiting(ahead: Ahead) -> Ahead:
    """Return which of all those ahead, nearest first, wait themselves.

    Readers beside a writer that downgraded count as waiting: not every store shows them apart.
    """
    holding = granted(replace(contender, mark="") for contender in reversed(ahead))
    return tuple(contender for contender, holds in zip(ahead, reversed(holding), strict=True) if not holds)
