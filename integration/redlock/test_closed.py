"""Other code of the process closes descriptors of the package."""

from __future__ import annotations

from integration import servers
from integration.faults.closer import closed_behind
from integration.faults.workers import Worker
from integration.opening import opened
from integration.redlock.store import url_to

SESSION_S = 3


def test_fault_43_all_descriptors_are_closed_behind_its_back(five: list[servers.Redis], prefix: str) -> None:
    url = url_to(five, prefix)
    with (
        opened(url, session_timeout=SESSION_S) as other,
        other.lock("x, of another").acquire(timeout=60) as theirs,
        Worker("faults.closer", "blocking", url, SESSION_S, "x") as closer,
    ):
        closed_behind(closer, theirs.token, lambda: other.lock("x").try_acquire() is None, theirs.release)
