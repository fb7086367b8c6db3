"""What becomes of single requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.moving import Asked
from tests.simulation.world import World

__all__ = ["DOUBLED", "VERY_LATE", "Fates"]

VERY_LATE, DOUBLED = "very late request", "doubled request"


class Fates:
    """Says of a request that is being sent whether it, or its reply, gets lost.

    Attributes:
        receipts_last_s: For how long the receipts of a session may stay there after it has ended.
        grants_from: Nothing is granted before, by true time: the server was started a moment ago.
        split: How many servers that were masters are asked still: who asks these is notified when they end.
        removes_late: What others do to the key of a lock removes its contender at the next look, not at once.
        lost_at: When it lost writes last, by true time.
        began_at: When it was started or promoted last, by true time: a key of a lock that was deleted before
            may be written anew by its holder's renewal.
        outlived: The ids of contenders that went because their time was over; a late request may make one of
            them again, for as long, where that does not need the session.
        fated: What becomes of the next request, or of the one with the number ``fated_at``.
        creates_only: It becomes of the next request that makes a contender, or writes a value.
        writes_only: It becomes of the next request that writes a value.
        written: What is called after every write.
        by: The request that is being carried out, if it is one that may write.
        held_up: Whether what one client does not finish may keep all from acting on a queue.
        ends_s: For how long it may keep locked what crashed clients had asked for, one after the other.
        let_go_at: When the server itself ended last what others waited for, by true time.
        late: What arrives when the fault is over.
        very_late: What arrives when its sender has long gone on, and when; ``very_late_s``: after how long.
    """

    receipts_last_s = lost_at = began_at = let_go_at = 0.0
    grants_from = 0.0
    split = 0
    removes_late = held_up = False
    ends_s = 0.0

    def __init__(self, world: World) -> None:
        self.outlived: set[str] = set()
        self.world = world
        self.fated: str | None = None
        self.fated_at: int | None = None
        self.creates_only = self.writes_only = False
        self.written: list[Callable[[], None]] = []
        self.by: Any = None
        self.late: list[Any] = []
        self.very_late: list[tuple[float, Any]] = []
        self.very_late_s = 0.0

    def strikes(self, asked: Asked, request: Any) -> bool:
        """Whether what is to become of a request may become of this one."""
        return asked.write is not None or not self.writes_only

    def forgets(self, hold: Any) -> bool:
        """Whether the store may not show what was granted, or who stood before it: it has lost writes."""
        return False

    def fate(self) -> str | None:
        """Return the fate of the request that was counted last; asked only while there is one."""
        if self.fated_at is not None and self.world.requests < self.fated_at:
            return None
        fated, self.fated = self.fated, None
        return fated

    def launch(self, made: Callable[[str | None], Any], fate: str | None) -> None:
        """Send a message on its way, as is its fate; ``made`` makes it."""
        if fate == "lost request":
            return
        message = made(fate)
        if fate == "late request":
            self.late.append(message)
        elif fate == VERY_LATE:
            self.hold_back(message)
        else:
            if fate == DOUBLED:
                self.hold_back(made(None))
            self.world.moving.append(message)

    def hold_back(self, message: Any) -> None:
        """Have a message arrive when its sender has long gone on, by another way: that has healed."""
        self.very_late.append((self.world.now + self.very_late_s, message))
