"""How late this machine was while a test ran: what failed for an answer that came too late is then run again.

Clients in tests wait for an answer for a second or longer. Where the machine kept the test or one of its
servers from running for as long as that, a session that ended or an answer that did not come says nothing
about the code. What a test finds wrong is another matter, however late the machine was: that fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from integration.harness.process import alive
from recipes import LockLost, OutcomeUnknown, SessionLost, StoreTimeout, StoreUnavailable
from tests.pace import put_off

__all__ = ["LATE_S", "Lateness"]

LATE_S = 1.0
"""The shortest time for which a client in a test waits for an answer."""

TOO_LATE = (LockLost, OutcomeUnknown, SessionLost, StoreTimeout, StoreUnavailable)
"""What comes out of a call, and means that an answer or a renewal came too late."""

TICKS = os.sysconf("SC_CLK_TCK")
STEAL = 8
"""The column in which the kernel says for how long the machine's own processors were taken from it."""

Seen = dict[str, dict[str, float]]


class Lateness:
    """Measures, from its making on, for how long a test, its servers and the machine did not run."""

    def __init__(self) -> None:
        self._before = _seen()

    def told(self) -> dict[str, float]:
        """Return for how many seconds each process, its threads taken together, was ready and did not run."""
        late = {}
        for who, threads in _seen().items():
            before = self._before.get(who, {})
            late[who] = sum(max(0.0, now_s - before.get(thread, 0.0)) for thread, now_s in threads.items())
        return late

    def explains(self, error: BaseException) -> bool:
        """Whether a test may have failed with ``error`` for no more than that the machine was late."""
        return _too_late(error) and max(self.told().values()) >= LATE_S


def _too_late(error: BaseException) -> bool:
    """Whether it says that an answer or a renewal came too late; of several, whether each does."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_too_late, error.exceptions))
    return type(error) in TOO_LATE


def _seen() -> Seen:
    """Return how late each thread was so far, by the process that it is of."""
    seen = {"the test": put_off(), "the machine": dict(_taken())}
    for server in alive():
        seen[f"{server.label} at {server.port}"] = {
            f"{process}/{thread}": late_s
            for process in _family(server.pid)
            for thread, late_s in put_off(process).items()
        }
    return seen


def _family(process: int) -> Iterator[int]:
    """Yield a process and all that it started, as a database does for each connection."""
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has ended
            for child in children.read_text().split():
                yield from _family(int(child))


def _taken() -> Iterator[tuple[str, float]]:
    """Yield for how long the host took each processor away; only Linux tells."""
    with suppress(OSError):
        for line in Path("/proc/stat").read_text().splitlines():
            if line.startswith("cpu") and not line.startswith("cpu "):
                words = line.split()
                yield words[0], int(words[STEAL]) / TICKS
