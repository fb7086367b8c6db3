"""The exit codes of the command ``recipes``; those of `recipes run` leave the low numbers to its command.

A command may end with any of 0 to 255, those below too: it is then said on standard error, and in
``--report``, that the code is its own.
"""

from __future__ import annotations

__all__ = [
    "CANNOT_RUN",
    "FAILED",
    "LOST",
    "MEANINGS",
    "MEANINGS_OF_ELECT",
    "NOT_ACQUIRED",
    "NOT_FOUND",
    "OK",
    "SIGNALLED",
    "UNREACHABLE",
    "USAGE",
    "WRONG",
]

OK = 0
FAILED = 1
"""The question was answered, and the answer is no."""
USAGE = 2
"""Wrong arguments; of `recipes run` they are `WRONG`, for many programs end with 2."""
UNREACHABLE = 122
LOST = 123
NOT_ACQUIRED = 124
WRONG = 125
CANNOT_RUN = 126
NOT_FOUND = 127
SIGNALLED = 128
"""To which the number of the signal is added."""

MEANINGS = {
    UNREACHABLE: "the store gave no answer, or refused",
    LOST: "the lock was lost, and the command was ended",
    NOT_ACQUIRED: "the lock was not acquired in time",
    WRONG: "wrong arguments, or recipes run itself failed",
    CANNOT_RUN: "the command was found, and could not be started",
    NOT_FOUND: "the command was not found",
}
"""What `recipes run` itself ends with; all others are the command's."""

MEANINGS_OF_ELECT = {
    **MEANINGS,
    LOST: "it leads no more, and what is left of the command could not be ended",
    NOT_ACQUIRED: "not elected in time",
    WRONG: "wrong arguments, or recipes elect itself failed",
}
"""The same of `recipes elect`."""
