"""The verdict: what the turns, the files and the events of the locks say, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from recipes.cli.demo.crew import Message
from recipes.cli.demo.scenes import COUNTER, SCENES, Scene, State, name_of
from recipes.cli.history.counting import overlaps, summary
from recipes.cli.history.reading import Happening, happening
from recipes.cli.history.spans import LockHistory, histories

__all__ = ["NOTHING", "Side", "Verdict"]

NOTHING = LockHistory("lock", "", None, "", 0.0, 0.0)


@dataclass(slots=True)
class Side:
    """One side of a scene, while it is played and, once it is settled, in the end.

    Attributes:
        total: What the last turn came to; in the end, what the numbers in the file add up to.
        changes: How many changes the file counted in the end.
        history: What the events of the lock add up to in the end.
    """

    scene: Scene
    turns: list[Message] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    total: int = 0
    changes: int = 0
    history: LockHistory = field(default_factory=lambda: NOTHING)

    def take(self, message: Message) -> None:
        """Take what a worker wrote, if it is about this scene."""
        if message["event"] == "turn":
            self.turns.append(message)
            self.total = message["value"]
        elif message.get("name") == self.scene.lock:
            one = happening(message, name_of(message["worker"], self.scene))
            self.happenings += [one] if one else []

    def settle(self, state: State) -> None:
        """Take what the file says in the end."""
        self.changes, self.total = state.changes, sum(state.numbers)
        self.history = self.recent(len(self.happenings))

    def recent(self, last: int, until: float = float("inf")) -> LockHistory:
        """Return what so many of the last events add up to, those after ``until`` left out."""
        found = [one for one in self.happenings[-last:] if one.at <= until]
        return next(iter(histories(sorted(found, key=lambda one: one.at))), NOTHING)

    @property
    def expected(self) -> int:
        """What the numbers should add up to."""
        return len(self.turns) if self.scene is COUNTER else sum(self.scene.opening)

    @property
    def wrong(self) -> int:
        """How many updates are lost, or how many sums were wrong."""
        if self.scene is COUNTER:
            return max(len(self.turns) - self.total, 0)
        return sum(turn["value"] != self.expected for turn in self.turns)

    @property
    def rising(self) -> bool:
        """Whether the token of each change was larger than the one before it."""
        wrote = [turn for turn in self.turns if "before" in turn]
        return all(turn["token"] is not None and turn["token"] > (turn["before"] or 0) for turn in wrote)

    def problems(self) -> list[str]:
        """Return every promise of the lock that was broken."""
        turns, changes = len(self.turns), sum(turn.get("changes", 0) for turn in self.turns)
        held, at_once = len(self.history.holds), overlaps(self.history)
        unkept = sum(not turn.get("kept", True) for turn in self.turns)
        checks = {
            f"{self.wrong} of {turns} {self.scene.wrongs}": self.wrong > 0,
            f"the numbers add up to {self.total}, not to {self.expected}": self.total != self.expected,
            "nothing was changed": not changes,
            f"the file counted {self.changes} changes, and {changes} were made": self.changes != changes,
            "the tokens of the changes do not rise": not self.rising,
            f"{at_once} times the lock was held beside a holder that excludes it": at_once > 0,
            f"{unkept} times a writer did not read back what it had written": unkept > 0,
            f"{held} grants were logged for {turns} turns": held < turns,
        }
        return [f"{self.scene.name}: {words}" for words, broken in checks.items() if broken]

    def figures(self, unlocked: Side) -> Iterator[tuple[str, str, str]]:
        """Yield the figures of a scene: what it is, with the lock, and without it."""
        yield self.scene.wrongs, self.share(), unlocked.share()
        yield "sum of the file", str(self.total), str(unlocked.total)
        yield "fencing tokens", "each larger" if self.rising else "NOT rising", ""
        at_once, one = overlaps(self.history), summary(self.history)
        yield "exclusion broken", f"{at_once} times" if at_once else "never", ""
        if times := one.hand_over:
            yield "hand-overs", f"{times.count}, {times.count / one.seconds:.0f} a second", ""
            yield "each took", f"{times.p50_s * 1e3:.2f} ms (p90 {times.p90_s * 1e3:.2f})", ""
        if one.shared_at_once:
            yield "readers at once", f"up to {one.shared_at_once}", ""

    def share(self) -> str:
        """Return how much went wrong, and how much that is of all."""
        wrong, turns = self.wrong, len(self.turns)
        return f"{wrong} of {turns}" + (f" ({100 * wrong // turns}%)" if wrong else "")

    def as_fields(self) -> dict[str, Any]:
        """Return it for ``--json``; ``recipes stats`` has the figures of the lock."""
        return {"turns": len(self.turns), "wrong": self.wrong, "total": self.total, "changes": self.changes}


@dataclass(slots=True)
class Verdict:
    """Both sides of each scene that came to its end, and what went wrong on the way."""

    sides: list[tuple[Side, Side]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Every reason why this is no success."""
        return [*self.failures, *(problem for locked, _ in self.sides for problem in locked.problems())]

    @property
    def ok(self) -> bool:
        """Whether all scenes came to their end and kept every promise under their lock."""
        return len(self.sides) == len(SCENES) and not self.problems

    def as_fields(self) -> dict[str, Any]:
        """Return it for ``--json``."""
        sides = {a.scene.name: {"locked": a.as_fields(), "unlocked": b.as_fields()} for a, b in self.sides}
        return {"ok": self.ok, "problems": self.problems, **sides}
