"""Faults 23 and 24: clocks at different rates, and clocks that go on while the machine is suspended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pytest

from tests.simulation import bugs
from tests.simulation.run import Schedule, Verdict, run
from tests.simulation.world import World

STORES = ("etcd", "zookeeper")
SLOW = (0.95, 1.045)  # the store's clock is a tenth faster than each client's (A3)
SOUND = 40
FROM = {"etcd": 0, "zookeeper": 400}  # near where the missing margin shows
ENOUGH = 300


def first(
    store: str, plant: Callable[[], list[Any]], rates: tuple[float, float] | None = None
) -> Verdict | None:
    """Run schedules with a bug planted; returns the first in which a promise is broken."""
    with ExitStack() as planted:
        for patch in plant():
            planted.enter_context(patch)
        for seed in range(FROM[store], FROM[store] + ENOUGH):
            verdict = run(Schedule(store, seed, flavour="aimed", rates=rates))
            if verdict.violation is not None:
                return verdict
    return None


def stands_still() -> list[Any]:
    """Plant a clock that does not count suspended time, as CLOCK_MONOTONIC."""

    def move_to(self: World, now: float) -> None:
        suspended = [(client, client.local) for client in self.clients if client.paused]
        original(self, now)
        for client, local in suspended:
            client.offset -= client.local - local
            client.local = local

    original = World.move_to
    return [mock.patch.object(World, "move_to", move_to)]


@pytest.mark.parametrize("store", STORES)
def test_fault_23_clock_rates_a_tenth_apart(store: str) -> None:
    for seed in range(SOUND):
        assert run(Schedule(store, seed, flavour="aimed", rates=SLOW)).violation is None


@pytest.mark.parametrize("store", STORES)
def test_fault_23_without_a_margin_they_would_be_too_far_apart(store: str) -> None:
    found = first(store, bugs.deadline_without_margin, SLOW)
    assert found is not None
    assert str(found.violation).startswith("S2")


@pytest.mark.parametrize("store", STORES)
def test_fault_24_suspended_time_counts(store: str) -> None:
    """Schedules of this flavour stop a process that waits for a renewal, for longer than a session."""
    verdicts = [run(Schedule(store, seed, flavour="aimed")) for seed in range(SOUND)]
    assert [verdict.violation for verdict in verdicts if verdict.violation] == []
    assert sum("pause" in fault for verdict in verdicts for fault in verdict.faults) > SOUND / 4
    found = first(store, stands_still)
    assert found is not None
    assert str(found.violation).startswith(("S2", "S4"))
