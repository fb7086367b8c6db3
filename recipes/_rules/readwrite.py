"""Who blocks a reader: the nearest writer ahead, unless it downgraded."""

from __future__ import annotations

from recipes._contract.contenders import Ahead
from recipes._contract.rule import Order

__all__ = ["SHARED"]


def _nearest_writer(exclusive: Ahead) -> Ahead:
    """Return the nearest writer, unless it downgraded: it was granted, so nobody ahead is in the way."""
    return () if exclusive and exclusive[0].downgraded else exclusive[:1]


SHARED = Order("R", _nearest_writer, exclusive_only=True, minds_marks=True, steps_up=False, mode="shared")
