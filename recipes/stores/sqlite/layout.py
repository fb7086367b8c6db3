"""How contenders are named, and what their rows stand for."""

from __future__ import annotations

from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import Spot

__all__ = ["Target", "contender_of", "kind_of", "ref_of", "target_of"]

Target = tuple[str, int]
"""A contender: its queue and its token."""


def ref_of(queue: str, token: int) -> str:
    """Return the reference of a contender; an encoded name holds no slash."""
    return f"{queue}/{token}"


def target_of(ref: str) -> Target:
    """Return whom a reference names."""
    queue, _, token = ref.rpartition("/")
    return queue, int(token)


def kind_of(spot: Spot) -> str:
    """Return what a row says of its kind: a plain lock excludes as a writer does."""
    return "W" if spot.kind == "lock" else spot.kind


def contender_of(queue: str, row: tuple[int, str, str, str, int]) -> Contender:
    """Return whom a row stands for: its token, id, kind and session, and whether it was downgraded."""
    token, contender_id, kind, session, downgraded = row
    return Contender(ref_of(queue, token), contender_id, kind, session, DOWNGRADED if downgraded else "")
