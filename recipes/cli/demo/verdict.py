"""The verdict: what the files and the workers' own times say, and nothing else.

Pure arithmetic; every figure the demonstration prints comes from here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from recipes.cli.demo.work import Entry

__all__ = ["HandOvers", "Locked", "Turn", "Unlocked", "Verdict", "hand_overs", "overlaps", "rising"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One update under the lock, as its worker told it; boot time, seconds."""

    worker: int
    token: int
    value: int
    asked_at: float
    acquired_at: float
    release_called_at: float


@dataclass(frozen=True, slots=True)
class HandOvers:
    """How often the lock went from one worker to another.

    Attributes:
        count: How often.
        latencies: Seconds from release called to acquired, of those whose next holder was
            already waiting.
    """

    count: int
    latencies: tuple[float, ...]

    @property
    def median_s(self) -> float | None:
        """The median latency; None if nobody had to wait."""
        return statistics.median(self.latencies) if self.latencies else None

    @property
    def p90_s(self) -> float | None:
        """The latency that nine of ten do not exceed."""
        ordered = sorted(self.latencies)
        return ordered[(9 * len(ordered) - 1) // 10] if ordered else None


def hand_overs(turns: Iterable[Turn]) -> HandOvers:
    """Count the changes of holder, in the order of the tokens."""
    changes = [(old, new) for old, new in _in_order(turns) if old.worker != new.worker]
    latencies = tuple(
        new.acquired_at - old.release_called_at
        for old, new in changes
        if new.asked_at < old.release_called_at
    )
    return HandOvers(len(changes), latencies)


def overlaps(turns: Iterable[Turn]) -> int:
    """Count those who held the lock before the one before them had called release."""
    return sum(1 for old, new in _in_order(turns) if new.acquired_at < old.release_called_at)


def rising(tokens: Sequence[int | None]) -> bool:
    """Whether every token is larger than the one before it."""
    return None not in tokens and all(a < b for a, b in pairwise(tokens))  # type: ignore[operator]


def _in_order(turns: Iterable[Turn]) -> Iterable[tuple[Turn, Turn]]:
    return pairwise(sorted(turns, key=lambda turn: turn.token))


@dataclass(frozen=True, slots=True)
class Unlocked:
    """What became of the work without the lock.

    Attributes:
        updates: How many updates the workers were told had been made.
        counter: What the counter says.
        ledger: Who wrote what, in the order of writing.
    """

    updates: int
    counter: int
    ledger: Sequence[Entry] = ()

    @property
    def lost(self) -> int:
        """How many updates somebody else overwrote."""
        return self.updates - self.counter

    def collision(self) -> tuple[int, list[int]] | None:
        """Return the first value that several workers wrote, and those workers."""
        writers: dict[int, list[int]] = {}
        for entry in self.ledger:
            writers.setdefault(entry.value, []).append(entry.worker)
        shared = ((value, sorted(set(who))) for value, who in writers.items() if len(set(who)) > 1)
        return next(shared, None)


@dataclass(frozen=True, slots=True)
class Locked(Unlocked):
    """What became of the work under the lock."""

    turns: Sequence[Turn] = ()

    def problems(self) -> list[str]:
        """Return what should not have happened, in words."""
        tokens = [entry.token for entry in self.ledger]
        at_once = overlaps(self.turns)
        checks = {
            f"{self.lost} of {self.updates} updates were lost": self.lost > 0,
            f"the counter is {-self.lost} ahead of what was reported": self.lost < 0,
            "nothing was updated": not self.updates,
            f"the ledger has {len(self.ledger)} entries for {self.updates} updates": (
                len(self.ledger) != self.updates
            ),
            "the tokens in the ledger do not rise": not rising(tokens),
            f"{at_once} times two workers held the lock at once": at_once > 0,
        }
        return [words for words, wrong in checks.items() if wrong]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demonstration showed.

    Attributes:
        locked: The part under the lock; None if it did not come to its end.
        unlocked: The same without it.
        failures: What went wrong on the way (a worker that died, a store that fell silent).
    """

    locked: Locked | None = None
    unlocked: Unlocked | None = None
    failures: Sequence[str] = field(default=())

    @property
    def problems(self) -> list[str]:
        """Return every reason why this is no success."""
        return [*self.failures, *(self.locked.problems() if self.locked else ())]

    @property
    def ok(self) -> bool:
        """Whether the part under the lock ran to its end and kept every promise it shows."""
        return self.locked is not None and not self.problems

    def as_fields(self) -> dict[str, Any]:
        """Return it as flat fields for ``--json``."""
        fields: dict[str, Any] = {"ok": self.ok, "problems": self.problems}
        if self.locked is not None:
            changes = hand_overs(self.locked.turns)
            tokens = [entry.token for entry in self.locked.ledger]
            fields |= {
                "updates": self.locked.updates,
                "counter": self.locked.counter,
                "lost": self.locked.lost,
                "tokens_rising": rising(tokens),
                "overlaps": overlaps(self.locked.turns),
                "hand_overs": changes.count,
                "hand_over_median_s": changes.median_s,
                "hand_over_p90_s": changes.p90_s,
            }
        if self.unlocked is not None:
            fields |= {
                "unlocked_updates": self.unlocked.updates,
                "unlocked_counter": self.unlocked.counter,
                "unlocked_lost": self.unlocked.lost,
            }
        return fields
