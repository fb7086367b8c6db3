"""Which items of a set belong to which member: rendezvous hashing (Thaler and Ravishankar, 1998).

Every member gives every item a score, and the largest one takes the item. So a member that comes takes items
from others and gives none, one that goes gives up its own alone, and nobody has to know who had what before.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b

__all__ = ["Sharing", "mark_of"]

SCORE_BYTES = 8
MARK_BYTES = 16


def mark_of(items: Iterable[str]) -> str:
    """Return the mark of those who share these items, in whatever order they name them."""
    said = blake2b(digest_size=MARK_BYTES)
    for item in sorted(items):
        text = item.encode()
        said.update(b"%d:%b" % (len(text), text))
    return said.hexdigest()


class Sharing:
    """How a set of items is shared among the members that are there.

    Args:
        items: What is shared; each once.
    """

    def __init__(self, items: Iterable[str]) -> None:
        self.items = tuple(items)
        self._scores: dict[str, array[int]] = {}

    def of(self, member: str, members: Iterable[str]) -> tuple[str, ...]:
        """Return the items of a member, in their order; none unless it is among the members."""
        owners = self.owners(members)
        return tuple(item for item, owner in zip(self.items, owners, strict=False) if owner == member)

    def owners(self, members: Iterable[str]) -> tuple[str, ...]:
        """Return to which of the members each item belongs, in their order; empty if there is none."""
        present = sorted({*members})
        self._scores = {one: self._scores.get(one) or self._score(one) for one in present}
        columns = zip(*self._scores.values(), strict=True)
        return tuple(present[scores.index(max(scores))] for scores in columns)

    def _score(self, member: str) -> array[int]:
        known = blake2b(f"{member}\0".encode(), digest_size=SCORE_BYTES)
        scores = array("Q")
        for item in self.items:
            one = known.copy()
            one.update(item.encode())
            scores.append(int.from_bytes(one.digest(), "big"))
        return scores
