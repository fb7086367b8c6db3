"""How a command under a lock ended: the exit code, the report, and the words."""

from __future__ import annotations

import signal

import pytest

from recipes.cli import codes
from recipes.cli.running.ending import Ending, Outcome, ending_of

COMMAND = ("backup", "--all")


@pytest.mark.parametrize(
    ("status", "outcome", "code"),
    [
        (0, Outcome.EXITED, 0),
        (3 << 8, Outcome.EXITED, 3),
        (255 << 8, Outcome.EXITED, 255),
        (int(signal.SIGKILL), Outcome.SIGNALLED, 137),
        (signal.SIGSEGV | 0x80, Outcome.SIGNALLED, 139),  # with a core dump
        (int(signal.SIGRTMIN), Outcome.SIGNALLED, 128 + signal.SIGRTMIN),
    ],
)
def test_the_exit_code_is_that_of_a_shell(status: int, outcome: Outcome, code: int) -> None:
    ending = ending_of(status, 7, 2, (11, 12))
    assert (ending.outcome, ending.code, ending.command_code, ending.reason) == (outcome, code, code, None)
    assert (ending.token, ending.left, ending.stuck) == (7, 2, (11, 12))


def test_the_report_says_all() -> None:
    assert ending_of(3 << 8, 7, 2, (11,)).as_fields() == {
        "outcome": "exited",
        "code": 3,
        "command_code": 3,
        "token": 7,
        "reason": None,
        "left": 2,
        "stuck": [11],
    }


@pytest.mark.parametrize("status", [0, int(signal.SIGTERM)])
def test_a_lock_that_was_not_held_to_the_end_is_lost(status: int) -> None:
    ending = ending_of(status, 7, 0)
    lost = ending.but_lost("session lost")
    assert (lost.outcome, lost.code, lost.reason) == (Outcome.LOST, codes.LOST, "session lost")
    assert (lost.command_code, lost.token) == (ending.command_code, 7)


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.NOT_STARTED, Outcome.FAILED])
def test_what_is_known_to_be_worse_stays(outcome: Outcome) -> None:
    ending = Ending(outcome, 9, reason="this")
    assert ending.but_lost("that") is ending


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (
            Ending(Outcome.LOST, 122, "expired", 3),
            "lock 'x' was lost: expired; backup ended with exit code 3",
        ),
        (
            Ending(Outcome.LOST, 122, None, 143),
            "lock 'x' was lost: its proof ran out; backup was ended by SIGTERM",
        ),
        (Ending(Outcome.LOST, 122, "expired", 128 + 50), "lock 'x' was lost: expired; backup was ended by"),
        (Ending(Outcome.LOST, 122, "expired"), "lock 'x' was lost: expired"),
        (Ending(Outcome.NOT_ACQUIRED, 124, "late"), "lock 'x' was not acquired: late"),
        (Ending(Outcome.UNREACHABLE, 123, "gone"), "lock 'x' was not acquired: gone"),
        (
            Ending(Outcome.INTERRUPTED, 143, "expired", 143),
            "SIGTERM as lock 'x' was lost; backup was ended by SIGTERM",
        ),
        (
            Ending(Outcome.INTERRUPTED, 143),
            "SIGTERM while waiting for lock 'x'; backup was not started",
        ),
        (Ending(Outcome.NOT_STARTED, 127, "no such file"), "no such file"),
        (Ending(Outcome.EXITED, codes.LOST), f"{codes.LOST} is the exit code of backup itself"),
        (Ending(Outcome.EXITED, 3), ""),
        (Ending(Outcome.SIGNALLED, 143), ""),
    ],
)
def test_it_is_said_where_the_code_does_not_say_all(ending: Ending, words: str) -> None:
    said = ending.words("lock 'x'", COMMAND)
    assert said.startswith(words)
    assert bool(said) is bool(words)
