"""How late this machine was while a test ran, so that one that failed for a late answer alone is run again.

Where the machine kept a test or one of its servers from running for long, a session that ended or an answer
that did not come says nothing about the code. What a test finds wrong is another matter, however late the
machine was: that fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from integration.harness.family import put_off_with_children
from integration.harness.process import forget_ended, lateness_of_all
from recipes import LockLost, OutcomeUnknown, SessionLost, StoreTimeout, StoreUnavailable
from tests.pace import Pace, grown_s, put_off

__all__ = ["LATE_S", "Lateness", "PutOff"]

LATE_S = 1.0
"""For about as long clients in tests wait for an answer, if not longer."""

TOO_LATE = (LockLost, OutcomeUnknown, SessionLost, StoreTimeout, StoreUnavailable)
SAYS_SO = re.compile(
    r"in time|did not answer|not answered|not renewed|has (ended|expired) on the store"
    r"|nothing within [\d.e+-]+ s\b|the server has ended the session"  # ZooKeeper's client
    r"|servers answered, (too few|and \d+ have to(;? check|$))"  # redlock's; one's own words come after
)
"""Which errors say that an answer or a renewal came too late; others say that something is wrong."""

STOOD_S = 0.1
"""By so much a thread that only naps is overdue where a machine stands still; by less on any busy one."""

TICKS = os.sysconf("SC_CLK_TCK")
STEAL = 8
"""The column in which the kernel says for how long the machine's own processors were taken from it."""

Seen = dict[str, dict[str, float]]


class Lateness:
    """Measures, from its making to its closing, for how long a test, its servers and the machine did not run.

    What the kernel says of a thread goes with it, and it says nothing of a machine that was itself stopped.
    So a thread that only naps tells besides for how long all stood still.
    """

    def __init__(self) -> None:
        forget_ended()
        self._before = _seen()
        self._failed: list[bool] = []
        self._open = ExitStack()
        self._pace = self._open.enter_context(Pace())

    def told(self) -> dict[str, float]:
        """Return for how many seconds each process, its threads taken together, was ready and did not run."""
        seen = _seen()
        seen["the test"].pop(self._pace.thread_id, None)
        grown = {who: grown_s(self._before.get(who, {}), threads) for who, threads in seen.items()}
        return {**grown, "a thread that only naps": self._pace.stood_s(STOOD_S)}

    def close(self) -> None:
        """End the measuring; what was noted stays."""
        self._open.close()

    def failed(self, error: BaseException) -> None:
        """Note how the test, or what comes before or after it, failed just now."""
        self._failed.append(_too_late(error) and max(self.told().values()) >= LATE_S)

    @property
    def explains(self) -> bool:
        """Whether all that failed may have failed for no more than that the machine was late."""
        return all(self._failed) and self._failed != []


class PutOff:
    """Measures, from its making on, for how long processes and all that these started did not run."""

    def __init__(self, *processes: int) -> None:
        self._processes = processes
        self._before = self._now()

    @property
    def seconds(self) -> float:
        """For how many seconds their threads, taken together, were ready and did not run."""
        return grown_s(self._before, self._now())

    def _now(self) -> dict[str, float]:
        return {
            thread: late_s
            for process in self._processes
            for thread, late_s in put_off_with_children(process).items()
        }


def _too_late(error: BaseException) -> bool:
    """Whether it says that an answer or a renewal came too late; of several, whether each does."""
    if any(isinstance(one, AssertionError) for one in _under_way(error)):
        return False  # it came out of a block that something found wrong was leaving
    if isinstance(error, BaseExceptionGroup):
        return all(map(_too_late, error.exceptions))
    return type(error) in TOO_LATE and bool(SAYS_SO.search(str(error)))


def _under_way(error: BaseException) -> Iterator[BaseException]:
    """Yield what was under way as an error was raised, and as that was, whether or not it is the cause."""
    before = error.__context__
    while before is not None:
        yield before
        before = before.__context__


def _seen() -> Seen:
    """Return how late each thread was so far, by the process that it is of."""
    return {"the test": put_off(), "the machine": dict(_taken()), **lateness_of_all()}


def _taken() -> Iterator[tuple[str, float]]:
    """Yield for how long the host took each processor away; only Linux tells."""
    with suppress(OSError):
        for line in Path("/proc/stat").read_text().splitlines():
            if line.startswith("cpu") and not line.startswith("cpu "):
                words = line.split()
                yield words[0], int(words[STEAL]) / TICKS
