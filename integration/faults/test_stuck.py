"""A holder hangs, and its session does not: ``max_hold`` has the next one served all the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from integration import servers
from integration.faults.labs import Lab, at_once
from recipes._run.clock import boot_time

MAX_HOLD_S = 1.0
SOON_S = 2.0  # of a process beside others
HANGS_S = 7.0
SESSION_S = 10.0  # whose end would come too late


@at_once(how=("busy loop", "blocked read"))
def test_a_stuck_holder_is_replaced(lab: Lab, how: str) -> None:
    waiting = lab.actor(session_timeout=SESSION_S)
    holder = lab.worker("stuck", how, MAX_HOLD_S, HANGS_S, session_s=SESSION_S)
    asked_at, acquired_at = json.loads(holder.next_line())
    grant = waiting.acquire("stuck", timeout=30)
    replaced_at = boot_time()
    took_s = replaced_at - acquired_at
    lab.figure(f"{how}: replaced {took_s:.2f} s after it acquired (max_hold {MAX_HOLD_S} s)")
    assert replaced_at - asked_at >= MAX_HOLD_S  # nobody beside it while it may be at work
    bound_s = MAX_HOLD_S + SOON_S * (1 if lab.api == "blocking" else 2)  # its watchdog has to connect
    assert took_s <= bound_s + lab.pace.late_s(acquired_at)

    found = json.loads(holder.next_line())
    assert found["held"] is False
    assert "max_hold" in found["reason"]
    assert found["token"] < grant.token
    assert json.loads(holder.next_line()) is False
    assert grant.verify()


@pytest.fixture(scope="module")
def files() -> Iterator[servers.Files]:
    """Yield a directory of files."""
    with servers.Files() as made:
        yield made


def test_a_stuck_holder_is_replaced_on_a_file(
    files: servers.Files, prefix: str, figure: Callable[[str], None]
) -> None:
    test_a_stuck_holder_is_replaced(files, prefix, figure)
