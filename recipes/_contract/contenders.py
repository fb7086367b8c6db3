"""A contender: one place in a queue, as a store shows it."""

from __future__ import annotations

from recipes._record import record

__all__ = ["DOWNGRADED", "GRANTED", "Ahead", "Contender"]

DOWNGRADED = "downgraded"
"""The mark of a writer that was granted, and lets readers in beside it since."""
GRANTED = "granted"
"""The mark of a contender that had to wait for its permits, and has them."""


@record
class Contender:
    """Somebody in a queue, as the store shows it.

    What its user wrote, what its recipe notes and who made it are three fields: a user's text is never
    read as a recipe's.

    Attributes:
        ref: Its node or key.
        id: The id of the attempt that made it; empty for another client's layout.
        kind: What it is in its recipe; the rule of the kind says whom it blocks.
        session: The owner's session; empty if it is not known.
        mark: The recipe's state (that a writer downgraded, that permits were granted); empty at first. A
            store that shows this only to those it concerns shows none to others.
        token: Its fencing token in what `List` returns; elsewhere when it was created, where another
            may come to have its ref, or 0.
        owner: What its maker says of itself: host, process, label; only in what `List` returns.
        data: What its user wrote; only in what `List` returns.
        version: How often it was rewritten, in what `List` returns; elsewhere where the store compares it.
    """

    ref: str
    id: str = ""
    kind: str = "W"
    session: str = ""
    mark: str = ""
    token: int = 0
    owner: str = ""
    data: bytes = b""
    version: int = 0

    @property
    def shared(self) -> bool:
        """Whether it lets other shared contenders in beside it."""
        return self.kind == "R"

    @property
    def downgraded(self) -> bool:
        """Whether it is a writer that lets readers in beside it."""
        return self.mark == DOWNGRADED


Ahead = tuple[Contender, ...]  # nearest first
