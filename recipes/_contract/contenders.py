"""A contender: one place in a queue, as a store shows it."""

from __future__ import annotations

from recipes._contract.record import record

__all__ = ["Ahead", "Contender"]


@record
class Contender:
    """Somebody in a queue, as the store shows it.

    Attributes:
        ref: Its node or key.
        id: The id of the attempt that made it; empty for another client's layout.
        kind: "R" shared; everything else excludes all others.
        session: The owner's session; empty if it is not known.
        downgraded: A writer that was granted, and lets readers in beside it since. A store
            that shows this only to those it concerns says False to others.
        token: When it was created, where another may come to have its ref; else 0.
    """

    ref: str
    id: str = ""
    kind: str = "W"
    session: str = ""
    downgraded: bool = False
    token: int = 0

    @property
    def shared(self) -> bool:
        """Whether it lets other shared contenders in beside it."""
        return self.kind == "R"


Ahead = tuple[Contender, ...]  # nearest first
