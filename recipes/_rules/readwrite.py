"""What blocks a reader: the nearest writer ahead, unless it downgraded.

A writer that downgraded was granted, so nobody ahead of it is in the way.
"""

from __future__ import annotations

from recipes._contract.contenders import DOWNGRADED
from recipes._contract.rule import Nearest, Rule

__all__ = ["SHARED"]

SHARED = Rule(
    "R",
    Nearest(let_in_by=DOWNGRADED),
    exclusive_only=True,
    minds_marks=True,
    steps_up=False,
    mode="shared",
)
