"""How a command under a lock ended, in words, in fields, and as an exit code."""

from __future__ import annotations

import enum
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from recipes.cli import codes

__all__ = ["Ending", "Outcome", "ending_of"]


class Outcome(enum.Enum):
    """What happened, as ``--report`` says it."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    LOST = "lost"
    NOT_ACQUIRED = "not-acquired"
    UNREACHABLE = "unreachable"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not-started"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended.

    Attributes:
        outcome: What happened.
        code: The exit code of ``recipes run``.
        reason: Why, in a few words.
        command_code: What the command itself ended with, 128 and more for a signal; None if it was
            not started.
        token: The fencing token of the grant, None if there was none.
        left: How many processes the command left behind.
        stuck: Those of its processes that could not be ended, and may run on without the lock.
    """

    outcome: Outcome
    code: int
    reason: str | None = None
    command_code: int | None = None
    token: int | None = None
    left: int = 0
    stuck: tuple[int, ...] = ()

    def but_lost(self, reason: str | None) -> Ending:
        """Return the same, now that it turned out that the lock was not held to the end."""
        if self.outcome in (Outcome.LOST, Outcome.NOT_STARTED, Outcome.FAILED):
            return self
        return replace(self, outcome=Outcome.LOST, code=codes.LOST, reason=reason)

    def as_fields(self) -> dict[str, Any]:
        """Return it as it is reported."""
        return {
            "outcome": self.outcome.value,
            "code": self.code,
            "command_code": self.command_code,
            "token": self.token,
            "reason": self.reason,
            "left": self.left,
            "stuck": list(self.stuck),
        }

    def words(self, title: str, command: Sequence[str]) -> str:
        """Return a line for people; nothing where the exit code says all.

        Args:
            title: What was to be held: "lock 'x'".
            command: What was to run.
        """
        match self.outcome:
            case Outcome.LOST:
                ended = "" if self.command_code is None else f"; {command[0]} {_fate(self.command_code)}"
                return f"{title} was lost: {self.reason or 'its proof ran out'}{ended}"
            case Outcome.NOT_ACQUIRED | Outcome.UNREACHABLE:
                if self.reason and self.reason.startswith(title):
                    return self.reason  # it says what it is about
                won = "won" if title.startswith("election ") else "acquired"
                return f"{title} was not {won}: {self.reason}"
            case Outcome.INTERRUPTED:
                name = signal.Signals(self.code - codes.SIGNALLED).name
                ran = self.command_code is not None
                what = f"as {title} was lost" if ran else f"while waiting for {title}"
                return f"{name} {what}; {command[0]} {_fate(self.command_code)}"
            case Outcome.NOT_STARTED | Outcome.FAILED:
                return self.reason or ""
            case Outcome.EXITED | Outcome.SIGNALLED:
                return _reserved(self.code, command[0])


def _reserved(code: int, command: str) -> str:
    """Return what to say when a command ends with a code that has a meaning here."""
    return f"{code} is the exit code of {command} itself" if code in codes.MEANINGS else ""


def _fate(code: int | None) -> str:
    if code is None:
        return "was not started"
    if code > codes.SIGNALLED:
        return f"was ended by {_signal(code - codes.SIGNALLED)}"
    return f"ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def ending_of(status: int, token: int | None, left: int, stuck: tuple[int, ...] = ()) -> Ending:
    """Return how a command ended, from its wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        number = codes.SIGNALLED - code
        return Ending(Outcome.SIGNALLED, number, command_code=number, token=token, left=left, stuck=stuck)
    return Ending(Outcome.EXITED, code, command_code=code, token=token, left=left, stuck=stuck)
