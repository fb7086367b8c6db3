"""Programs that run side by side in one call, as if each had a call of its own.

All of them wait at one mailbox, and what they ask of the store is asked together: a hundred that queue in
a hundred places cost a few round trips, and one thread or task. A program of the crew may be any that is
written for a call of its own, and stays what it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any

from recipes._contract.operations import Op, Program
from recipes._record import record

if TYPE_CHECKING:
    from recipes._contract.wakeups import Event  # noqa: F401 - named in a string below
    from recipes._programs.hold import HeldState

__all__ = ["Beside", "Crew", "Ended"]


@record
class Ended:
    """What became of a program.

    Attributes:
        key: By which it was started.
        result: What it returned.
        error: What it raised instead; None: nothing.
    """

    key: Hashable
    result: Any = None
    error: Exception | None = None


@record
class Started:
    """A program that is to run, and what it is about if that is held already."""

    program: Program[Any]
    hold: HeldState | None


class Crew:
    """The programs that run beside one, by key.

    Attributes:
        started: Those that are to begin.
        stopped: Why those are to end that shall not go on.
        lanes: Those that run; the interpreter's.
        woken: The keys of those for which an event came; from any thread.
        ended: Those that have ended, the first to end first.
    """

    def __init__(self) -> None:
        self.started: dict[Hashable, Started] = {}
        self.stopped: dict[Hashable, Exception] = {}
        self.lanes: dict[Hashable, Any] = {}
        self.woken: deque[Hashable] = deque()
        self.ended: list[Ended] = []

    def start(self, key: Hashable, program: Program[Any], hold: HeldState | None = None) -> None:
        """Have a program run, from the next `Beside` on, under a key that no other has.

        Args:
            key: To find what becomes of it, and to stop it.
            program: The program.
            hold: What it gives back: whatever interrupts it, that is withdrawn.
        """
        assert key not in self, f"{key!r} should not run yet"
        self.started[key] = Started(program, hold)

    def stop(self, key: Hashable, error: Exception) -> None:
        """Have ``error`` thrown into a program where it is, by the next `Beside`; it ends, unless it has."""
        if self.started.pop(key, None) is None:
            self.stopped[key] = error

    def take_ended(self) -> list[Ended]:
        """Return those that have ended since this was asked last."""
        ended, self.ended = self.ended, []
        return ended

    def __iter__(self) -> Iterator[Hashable]:
        yield from self.started
        yield from self.lanes

    def __contains__(self, key: object) -> bool:
        return key in self.started or key in self.lanes

    def __len__(self) -> int:
        return len(self.started) + len(self.lanes)


@record
class Beside(Op["Event | None"]):
    """Run a crew until all of it waits, or one has ended; then wait for an event of this program's own.

    None: some have ended, or the time is over; an interrupt of this call interrupts them all.
    """

    crew: Crew
    at_most_s: float | None = None
