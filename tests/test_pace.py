from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from tests import pace as pace_module
from tests.pace import NAPPER, Pace, taking
from tests.threads import named


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that runs every thread that is ready."""
    monkeypatch.setattr(pace_module, "put_off", dict)


class Punctual(pace_module._Napper):
    """As on a machine that wakes every thread at once."""

    def __init__(self) -> None:
        super().__init__()
        self._thread.join()  # no nap of it is due from here on

    def _nap(self) -> None:
        self.due_at = math.inf


class Stalled(pace_module._Napper):
    """As on a machine that wakes a thread ten seconds too late."""

    def _nap(self) -> None:
        self.overdue.append((self.due_at, self.due_at + 10))
        self.due_at = math.inf


@pytest.mark.usefixtures("idle")
def test_what_takes_too_long_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "_Napper", Punctual)
    with pytest.raises(AssertionError, match=r"0\.01 s at most, and the machine was 0\.000 s late"):  # noqa: SIM117
        with taking(0.01):
            pause(0.05)


def test_an_idle_machine_is_not_late() -> None:
    with Pace() as pace:
        for _ in range(50):  # until it was idle for a moment
            before, late_s = pace.seconds, pace.late_s()
            pause(0.1)
            if pace.late_s() - late_s < (pace.seconds - before) / 2:
                return
    pytest.fail("a thread that naps was late for half of the time")


def test_what_ends_too_soon_is_seen() -> None:
    with pytest.raises(AssertionError, match="60 s at least"), taking(5, at_least_s=60):
        pass


def test_what_the_machine_adds_is_allowed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "_Napper", Stalled)
    with taking(0.01):
        pause(0.1)


def test_only_what_lies_between_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "_Napper", Stalled)
    with Pace() as pace:
        while pace._mine.due_at < math.inf:
            pause(0.001)
        ((due_at, _),) = pace._mine.overdue
        assert pace.late_s(due_at + 1, due_at + 3) == pytest.approx(2)
        assert pace.late_s(due_at - 3, due_at) == 0
        assert pace.late_s(due_at + 9, due_at + 19) == pytest.approx(1)


def test_only_what_is_long_counts_as_a_standstill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stalled, "_nap", lambda self: None)
    monkeypatch.setattr(pace_module, "_Napper", Stalled)
    with Pace() as pace:
        began = pace._began_at
        pace._mine.overdue = [(began - 3, began - 1), (began - 1, began + 1.5), (began + 2, began + 2.05)]
        pace._mine.due_at = math.inf
        assert pace.stood_s(0.1) == pytest.approx(1.5)


class Seen(list[tuple[float, float]]):
    """Naps that count how many of them are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        self.looks += len(found) if isinstance(at, slice) else 1
        return found


def test_an_hour_of_naps_is_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stalled, "_nap", lambda self: None)
    monkeypatch.setattr(pace_module, "_Napper", Stalled)
    with Pace() as pace:
        naps = pace._mine.overdue = Seen((at, at + 0.25) for at in range(10**5))
        assert pace.late_s(1000.125, 1003.125) == pytest.approx(0.75)
        assert naps.looks < 50


@pytest.mark.usefixtures("idle")
def test_a_nap_that_is_not_over_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stalled, "_nap", lambda self: None)
    monkeypatch.setattr(pace_module, "_Napper", Stalled)
    with Pace() as pace:
        pause(0.1)
        assert 0.1 - pace_module.NAP_S <= pace.late_s() <= pace.seconds


def test_one_thread_for_all_that_are_open() -> None:
    assert not named(NAPPER)
    with Pace(), Pace():
        assert len(named(NAPPER)) == 1
    assert not named(NAPPER)


def test_for_how_long_other_threads_were_ready_and_did_not_run_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pace_module, "_Napper", Punctual)
    said = iter([{"1": 1.0, "2": 3.0}, {"1": 1.5, "3": 0.25}])  # one has ended, and one has begun
    monkeypatch.setattr(pace_module, "put_off", lambda: next(said))
    with Pace() as pace:
        assert pace.late_s() == pytest.approx(0.75)
        assert pace.late_s(since=0) == pace.late_s(until=math.inf) == 0, "the kernel tells of now alone"


def test_that_of_the_thread_that_naps_is_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace_module, "_Napper", Punctual)
    with Pace() as pace:
        monkeypatch.setattr(pace_module, "put_off", lambda: {pace._mine.thread_id: 10.0})
        assert pace.late_s() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not say")
def test_the_kernel_says_for_how_long_a_thread_was_ready_and_did_not_run() -> None:
    allowed = os.sched_getaffinity(0)
    core = {min(allowed)}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            os.sched_setaffinity(busy.pid, core)
            os.sched_setaffinity(0, core)  # this thread
            me = str(threading.get_native_id())
            before = pace_module.put_off()[me]
            while pace_module.put_off()[me] < before + 0.01:
                pass
        finally:
            os.sched_setaffinity(0, allowed)
            busy.kill()
