"""Who stands in a queue, and who of them may hold: what the oracle holds the package to.

Worked out from the rule itself (a reader beside readers, a writer alone, nobody before his
turn), not from the package's predicates.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Stands", "free"]


class Stands(NamedTuple):
    """A contender on the store, as the store itself knows it.

    Attributes:
        token: Its fencing token, which is its place.
        contender: Its id.
        shared: It came as a reader.
        reads: It is a reader, or a writer that downgraded.
    """

    token: int
    contender: str
    shared: bool
    reads: bool


def free(standing: list[Stands]) -> list[Stands]:
    """Return those whom nobody ahead of them excludes, in order."""
    found = standing[:1]
    for ahead, stands in enumerate(standing[1:], 1):
        if not standing[ahead - 1].reads:
            break
        if stands.shared:
            found.append(stands)
    return found
