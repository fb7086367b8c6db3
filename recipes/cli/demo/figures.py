"""The figures of the verdict in words, for whichever screen shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from recipes.cli.demo.bank import TOTAL
from recipes.cli.demo.ledger import Entry
from recipes.cli.demo.turns import Turn, hand_overs, overlaps, rising, together
from recipes.cli.demo.verdict import Locked, LockedSums, Sums, Unlocked, Verdict

__all__ = ["CONCLUSION", "Figure", "figures", "notes"]

CONCLUSION = "under the locks nothing was lost, and no sum was wrong"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        what: What it is.
        locked: With the lock.
        unlocked: Without it, as far as there is such a figure.
        heading: Whether a scene begins here.
    """

    what: str
    locked: str = ""
    unlocked: str = ""
    heading: bool = False


def figures(verdict: Verdict) -> Iterator[Figure]:
    """Yield what both scenes came to, as far as they did."""
    if verdict.locked is not None:
        yield Figure("counter", heading=True)
        yield from _counter(verdict.locked, verdict.unlocked)
        yield from _kept(verdict.locked.ledger, verdict.locked.turns)
    if verdict.sums is not None:
        yield Figure("accounts", heading=True)
        yield from _accounts(verdict.sums, verdict.unlocked_sums)
        yield from _kept(verdict.sums.ledger, verdict.sums.turns)
        yield Figure("readers at once", f"up to {together(verdict.sums.turns)}")


def notes(verdict: Verdict) -> Iterator[str]:
    """Yield what is worth a sentence about the side without the lock."""
    unlocked, sums = verdict.unlocked, verdict.unlocked_sums
    if unlocked is not None and (collision := unlocked.collision()):
        value, workers = collision
        who = ", ".join(map(str, workers[:-1])) + f" and {workers[-1]}"
        yield f"Without the lock, for example, workers {who} all wrote {value}."
    if sums is not None and sums.wrong:
        wrong = next(one for one in sums.sums if one != TOTAL)
        yield f"Without the lock, somebody added up the accounts to {wrong}."
    if unlocked is not None and sums is not None and not (unlocked.lost or sums.wrong):
        yield "This run was too small to show a difference; try more --rounds or --processes."


def _counter(locked: Locked, unlocked: Unlocked | None) -> Iterator[Figure]:
    rows = [(_share(one.lost, one.updates), str(one.counter)) for one in (locked, unlocked) if one]
    yield from _rows(("updates lost", "counter says"), rows)


def _accounts(locked: LockedSums, unlocked: Sums | None) -> Iterator[Figure]:
    rows = [(_share(one.wrong, len(one.sums)), _money(one.money)) for one in (locked, unlocked) if one]
    yield from _rows(("wrong sums", "money in the end"), rows)


def _rows(names: Sequence[str], sides: Sequence[Sequence[str]]) -> Iterator[Figure]:
    """Yield a figure for each name, with what one side or both have to say of it."""
    for name, *said in zip(names, *sides, strict=True):
        yield Figure(name, *said)


def _money(money: int) -> str:
    return str(money) if money == TOTAL else f"{money}, not {TOTAL}"


def _kept(ledger: Sequence[Entry], turns: Sequence[Turn]) -> Iterator[Figure]:
    tokens = [entry.token for entry in ledger]
    at_once = overlaps(turns)
    changes = hand_overs(turns)
    yield Figure("exclusion broken", f"{at_once} times" if at_once else "never")
    if tokens:
        yield Figure("fencing tokens", f"{len(tokens)}, {'each larger' if rising(tokens) else 'NOT rising'}")
    yield Figure("hand-overs", f"{changes.count}, up to {changes.busiest}/s")
    if changes.median_s is not None and changes.p90_s is not None:
        yield Figure("each took", f"{changes.median_s * 1e3:.2f} ms (p90 {changes.p90_s * 1e3:.2f})")


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part // whole}%)" if part and whole else "")
