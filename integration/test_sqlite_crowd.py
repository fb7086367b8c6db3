"""What a crowd of processes does at one lock on a file, and what it waits for; no server is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

from tests.stores.sqlite.crowd import count_together, wait_long


@pytest.mark.long
def test_fifty_processes_count_together(tmp_path: Path, figure: Callable[[str], None]) -> None:
    processes, rounds = 50, 50
    told = {}
    for kind in ("sqlite", "filelock"):
        told[kind] = one = count_together(kind, tmp_path, processes, rounds, think_s=0.02, hold_s=0.002)
        figure(f"{kind}: {one.took_s:.2f} s, longest wait {one.longest_s:.2f} s")
    ours, theirs = told["sqlite"], told["filelock"]
    assert ours.counted == processes * rounds  # no update was lost
    assert ours.tokens == sorted(set(ours.tokens))  # which are places in the queue: first come, first served
    assert len(ours.tokens) == processes * rounds
    # filelock sleeps most of the time, and a busy machine slows only what computes.
    assert ours.longest_s / ours.stretch < theirs.longest_s
    assert ours.took_s / ours.stretch < theirs.took_s


@pytest.mark.measured
def test_a_hand_over_after_ten_seconds(tmp_path: Path, figure: Callable[[str], None]) -> None:
    waits = wait_long(tmp_path, waiters=10, wait_s=10.0)
    hands, cores, naps = map(median, (waits.handovers_s, waits.cores, waits.naps))
    told = f"hand-over p50 {1000 * hands:.2f} ms; while waiting {cores:.3%} of a core"
    figure(f"{told}, {naps:.0f} naps a second")
    assert hands <= 0.003 + 16 * median(waits.wakes_s)  # the second is 0.2 to 0.7 ms on an idle machine
    assert cores < 0.02  # 0.7 to 1.3 % on a slow one
    assert naps < 50  # a waiter that is not notified looks a hundred times a second
