"""Redlock on simulated servers that forget, and the bugs that this has to notice."""

from __future__ import annotations

import random

import pytest

from tests.simulation.majority import TTL_MS, Majority, Server

GRACE_MS = 2500
SKEW_MS = 2400
RUNS = 30
RUN_MS = 60_000


def runs(*, abstains_ms: int = GRACE_MS, writes_back: bool = True, seeds: int = RUNS) -> list[Majority]:
    """Return what came of so many runs."""
    found = []
    for seed in range(seeds):
        drawn = random.Random(seed)
        servers = [Server(drawn.randrange(SKEW_MS), abstains_ms) for _ in range(5)]
        for one in servers:
            one.writes_back = writes_back
        run = Majority(seed, servers)
        run.run(RUN_MS)
        found.append(run)
    return found


def test_no_two_hold_and_tokens_rise_while_servers_forget() -> None:
    found = runs()
    assert [wrong for run in found for wrong in run.wrong] == []
    assert sum(run.grants for run in found) > 10 * RUNS


@pytest.mark.parametrize(
    ("bug", "seen"),
    [({"writes_back": False}, "token"), ({"abstains_ms": TTL_MS // 8}, "was granted while")],
)
def test_a_bug_is_noticed(bug: dict[str, int], seen: str) -> None:
    found = runs(**bug)  # type: ignore[arg-type]
    assert any(seen in wrong for run in found for wrong in run.wrong)
