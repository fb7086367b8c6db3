"""Processes at one lock: nothing is lost, order is kept, waiting is cheap, and filelock is slower."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from tests.pace import Pace
from tests.stores.sqlite.crowd import Crowd, count_together, wait_long

PROCESSES, ROUNDS, TRIES = 8, 25, 3
STANDSTILL_S = 0.1
"""A thread that only sleeps is woken so late when the machine stands still, and not when it is busy."""


def counted(kind: str, folder: Path) -> Crowd:
    """Return what came of processes that counted together, if the machine did not stand still meanwhile.

    Else of the last of several tries.
    """
    for number in range(TRIES):
        place = folder / f"{kind}-{number}"
        place.mkdir()
        with Pace() as pace:
            crowd = count_together(kind, place, PROCESSES, ROUNDS, think_s=0.02, hold_s=0.005)
            if not pace.stood_s(STANDSTILL_S):
                break
    return crowd


def test_processes_lose_nothing_and_take_turns_in_order_of_arrival(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = counted("sqlite", tmp_path)
    assert ours.counted == PROCESSES * ROUNDS
    # A token is a place in the queue: if they rise from grant to grant, grants go in order of arrival.
    assert ours.tokens == sorted(set(ours.tokens))
    assert len(ours.tokens) == PROCESSES * ROUNDS
    theirs = counted("filelock", tmp_path)
    with capsys.disabled():
        print(
            f"\n  {PROCESSES} x {ROUNDS}: {ours.took_s:.2f} s, longest wait {ours.longest_s:.3f} s "
            f"({ours.stretch:.1f} times what it is with a processor each); "
            f"filelock: {theirs.took_s:.2f} s, {theirs.longest_s:.3f} s"
        )
    # filelock sleeps most of the time, and a busy machine slows only what computes.
    assert ours.took_s / ours.stretch < theirs.took_s
    assert ours.longest_s / ours.stretch < theirs.longest_s


def test_waiting_is_cheap_and_ends_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waits = wait_long(tmp_path, waiters=5, wait_s=2.0)
    hands, cores, naps = map(median, (waits.handovers_s, waits.cores, waits.naps))
    with capsys.disabled():
        print(f"\n  hand-over after 2 s: p50 {hands * 1000:.2f} ms; waiting: {cores:.3%} of a core")
    # 3 ms in integration/test_sqlite_crowd.py: here others are at work. One that is not notified looks every
    # 400 ms, or a hundred times a second.
    assert hands <= 0.05 + 4 * median(waits.wakes_s)
    assert naps < 50
    assert cores < 0.01
