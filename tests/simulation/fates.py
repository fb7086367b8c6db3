"""What becomes of single requests."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.world import World

__all__ = ["VERY_LATE", "Fates"]

VERY_LATE = "very late request"


class Fates:
    """Says of a request that is being sent whether it, or its reply, gets lost.

    Attributes:
        fated: What becomes of the next request, or of the one with the number ``fated_at``.
        creates_only: It becomes of the next request that makes a contender.
        written: What is called after every write.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.fated: str | None = None
        self.fated_at: int | None = None
        self.creates_only = False
        self.written: list[Callable[[], None]] = []

    def fate(self) -> str | None:
        """Return the fate of the request that was counted last; asked only while there is one."""
        if self.fated_at is not None and self.world.requests < self.fated_at:
            return None
        fated, self.fated = self.fated, None
        return fated
