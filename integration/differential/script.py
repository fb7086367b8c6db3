"""Scripts, how they are replayed on a side, and how two replays are compared.

A side is a model or a real server behind the same few methods. Requests in a script are the
package's own (``Post``, ``Create``, ...) with names where a value is known only as the script
runs; a side puts in the values, and takes out of the replies what must differ.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from recipes._contract.connection import Batch

__all__ = ["Box", "Difference", "Forget", "Outcome", "Replay", "Script", "Side", "Step", "compare", "replay"]


@dataclass(frozen=True, slots=True)
class Forget:
    """The connection shall forget what this mailbox watches."""

    mailbox: str


@dataclass(frozen=True, slots=True)
class Step:
    """One thing asked over one connection; the next begins when it is answered."""

    connection: int
    request: Any

    def __str__(self) -> str:
        return f"link {self.connection}: {_said(self.request)}"


@dataclass(frozen=True, slots=True)
class Script:
    """What is asked, in order; the seed decides it all."""

    seed: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """An event that a mailbox was told, and in which step."""

    step: int
    mailbox: str
    event: Any

    def __str__(self) -> str:
        return f"{self.mailbox} was told {self.event}"


@dataclass(slots=True)
class Outcome:
    """The reply to one step, and what the mailboxes of its connection had been told by then."""

    reply: Any
    told: list[Told] = field(default_factory=list)

    def __str__(self) -> str:
        return "; ".join([str(self.reply), *map(str, self.told)])


@dataclass(slots=True)
class Replay:
    """A whole script on one side."""

    outcomes: list[Outcome]
    took_s: float


class Box:
    """A mailbox of a script; what it is told is kept by its connection."""

    def __init__(self, name: str, log: list[Told], step: Callable[[], int]) -> None:
        self.name = name
        self._log = log
        self._step = step

    def post(self, event: Any) -> None:
        self._log.append(Told(self._step(), self.name, event))


class Side(Protocol):
    """A model or a real server, as a script sees it."""

    def begin(self, script: Script) -> None:
        """Make connections and a place that no other script has used."""

    def ask(self, step: int, connection: int, request: Any) -> Outcome:
        """Ask, and return the reply and what the connection's mailboxes have been told up to now."""

    def end(self, outcomes: list[Outcome]) -> list[Outcome]:
        """Clean up; return the outcomes with the last names put in."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two replays of a script part; the text has all that is needed to look into it."""

    script: Script
    step: int
    sides: tuple[str, str]
    outcomes: tuple[Outcome, Outcome]

    def __str__(self) -> str:
        width = max(map(len, self.sides))
        lines = [f"seed {self.script.seed}: step {self.step} of {len(self.script.steps)} was answered"]
        lines += [f"  {name:{width}}  {found}" for name, found in zip(self.sides, self.outcomes, strict=True)]
        lines += ["the script up to there:"]
        lines += [f"  {number:2} {step}" for number, step in enumerate(self.script.steps[: self.step + 1])]
        return "\n".join(lines)


def _said(request: Any) -> str:
    """Return a request on one line, without what is always the same."""
    if isinstance(request, Batch):
        return f"Batch({', '.join(map(_said, request.parts))})"
    return re.sub(r"request_|, '(target|result)': '\w+'", "", str(request))


def replay(script: Script, side: Side) -> Replay:
    """Ask all of a script, one step after the other."""
    began = time.monotonic()
    side.begin(script)
    outcomes: list[Outcome] = []
    try:
        for number, step in enumerate(script.steps):
            outcomes.append(side.ask(number, step.connection, step.request))
    finally:
        outcomes = side.end(outcomes)
    return Replay(outcomes, time.monotonic() - began)


def compare(script: Script, model: Replay, real: Replay, sides: tuple[str, str]) -> Difference | None:
    """Return where the replays part first."""
    for number, pair in enumerate(zip(model.outcomes, real.outcomes, strict=True)):
        expected, found = pair
        if expected.reply != found.reply or not _same(expected.told, found.told):
            return Difference(script, number, sides, pair)
    return None


def _same(model: Sequence[Told], real: Sequence[Told]) -> bool:
    """Say whether the same was told in the same order; what one request set off comes in any order."""
    if len(model) != len(real):
        return False
    position = 0
    for group in _groups(model):
        end = position + len(group)
        if sorted(map(str, group)) != sorted(map(str, real[position:end])):
            return False
        position = end
    return True


def _groups(told: Sequence[Told]) -> list[list[Told]]:
    groups: list[list[Told]] = []
    for one in told:
        if groups and groups[-1][0].step == one.step:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
