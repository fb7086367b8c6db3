"""What blocks a contender that excludes all others: the plain lock, and the writer."""

from __future__ import annotations

from recipes._contract.rule import Rule

__all__ = ["EVERYBODY", "EXCLUSIVE", "WRITER"]


EXCLUSIVE = Rule("lock")
WRITER = Rule("W")
EVERYBODY = Rule("W", depth=2**31 - 2)
"""Looks at all contenders ahead, of any kind; for counting them."""
