"""The verdict: what the files and the workers' own times say, and nothing else.

Pure arithmetic; every figure the demonstration ends with comes from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from recipes.cli.demo.bank import TOTAL
from recipes.cli.demo.ledger import Entry
from recipes.cli.demo.turns import Turn, hand_overs, overlaps, rising, together

__all__ = ["Locked", "LockedSums", "Sums", "Unlocked", "Verdict"]


@dataclass(frozen=True, slots=True)
class Unlocked:
    """What became of the counter without the lock.

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
    """What became of the counter under the lock."""

    turns: Sequence[Turn] = ()

    def problems(self) -> list[str]:
        """Return what should not have happened, in words."""
        checks = {
            f"{self.lost} of {self.updates} updates were lost": self.lost > 0,
            f"the counter is {-self.lost} ahead of what was reported": self.lost < 0,
            "nothing was updated": not self.updates,
            **_promises(self.ledger, self.updates, self.turns, "two workers held the lock at once"),
        }
        return [words for words, wrong in checks.items() if wrong]


@dataclass(frozen=True, slots=True)
class Sums:
    """What became of the accounts without the lock.

    Attributes:
        sums: What each sum over all accounts came to, that of a writer behind its own transfer too.
        money: What all accounts hold in the end.
        moved: How many transfers the writers were told had been made.
        ledger: Who moved how much, in the order of writing.
    """

    sums: Sequence[int]
    money: int
    moved: int
    ledger: Sequence[Entry] = ()

    @property
    def wrong(self) -> int:
        """How many sums were not what the accounts were opened with."""
        return sum(1 for one in self.sums if one != TOTAL)


@dataclass(frozen=True, slots=True)
class LockedSums(Sums):
    """What became of the accounts under the read-write lock."""

    turns: Sequence[Turn] = ()

    def problems(self) -> list[str]:
        """Return what should not have happened, in words."""
        unkept = sum(1 for turn in self.turns if not turn.kept)
        checks = {
            f"{self.wrong} of {len(self.sums)} sums over the accounts were wrong": self.wrong > 0,
            f"the accounts hold {self.money} instead of {TOTAL}": self.money != TOTAL,
            "no money was moved": not self.moved,
            f"{unkept} times a writer did not read back what it had written": unkept > 0,
            **_promises(self.ledger, self.moved, self.turns, "a writer held the lock beside another"),
        }
        return [words for words, wrong in checks.items() if wrong]


def _promises(ledger: Sequence[Entry], count: int, turns: Sequence[Turn], beside: str) -> dict[str, bool]:
    """Return what no lock may do, and whether this one did."""
    at_once = overlaps(turns)
    return {
        f"the ledger has {len(ledger)} entries for {count} updates": len(ledger) != count,
        "the tokens in the ledger do not rise": not rising([entry.token for entry in ledger]),
        f"{at_once} times {beside}": at_once > 0,
    }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the demonstration showed.

    Attributes:
        locked: The counter under the lock; None if that did not come to its end.
        unlocked: The same without it.
        sums: The accounts under the read-write lock; None if that did not come to its end.
        unlocked_sums: The same without it.
        failures: What went wrong on the way (a worker that died, a store that fell silent).
    """

    locked: Locked | None = None
    unlocked: Unlocked | None = None
    sums: LockedSums | None = None
    unlocked_sums: Sums | None = None
    failures: Sequence[str] = field(default=())

    @property
    def problems(self) -> list[str]:
        """Return every reason why this is no success."""
        parts = (self.locked, self.sums)
        return [*self.failures, *(problem for part in parts if part for problem in part.problems())]

    @property
    def ok(self) -> bool:
        """Whether both scenes under their lock ran to their end and kept every promise they show."""
        return self.locked is not None and self.sums is not None and not self.problems

    def as_fields(self) -> dict[str, Any]:
        """Return it as flat fields for ``--json``."""
        fields: dict[str, Any] = {"ok": self.ok, "problems": self.problems}
        if self.locked is not None:
            fields |= {**_counted(self.locked), **_kept(self.locked.ledger, self.locked.turns)}
        if self.unlocked is not None:
            fields |= _prefixed("unlocked", _counted(self.unlocked))
        if self.sums is not None:
            kept = _kept(self.sums.ledger, self.sums.turns)
            fields |= _prefixed("bank", {**_summed(self.sums), **kept, "together": together(self.sums.turns)})
        if self.unlocked_sums is not None:
            fields |= _prefixed("unlocked_bank", _summed(self.unlocked_sums))
        return fields


def _counted(part: Unlocked) -> dict[str, Any]:
    return {"updates": part.updates, "counter": part.counter, "lost": part.lost}


def _summed(part: Sums) -> dict[str, Any]:
    return {"sums": len(part.sums), "wrong": part.wrong, "moved": part.moved, "money": part.money}


def _kept(ledger: Sequence[Entry], turns: Sequence[Turn]) -> dict[str, Any]:
    changes = hand_overs(turns)
    return {
        "tokens_rising": rising([entry.token for entry in ledger]),
        "overlaps": overlaps(turns),
        "hand_overs": changes.count,
        "hand_over_median_s": changes.median_s,
        "hand_over_p90_s": changes.p90_s,
    }


def _prefixed(prefix: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{name}": value for name, value in fields.items()}
