"""Tests that count what is asked, or what it costs, and that a machine which stalls for seconds may disturb.

A client that does not run for seconds asks, reads and renews again, as it has to, and the counts are others.
No bound tells that from a mistake. So a test that is marked ``counts`` and fails while the machine woke
threads late is run once more, twice at most. On a machine that keeps pace a failure is a failure at once.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

from tests.pace import Pace

__all__ = ["LATE_S", "TRIES", "pytest_runtest_protocol"]

TRIES = 3
LATE_S = 0.25
"""For so long, in all, a thread that only sleeps is overdue during a test that was disturbed."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that counts, again if it failed on a machine that stalled meanwhile."""
    if item.get_closest_marker("counts") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for left in reversed(range(TRIES)):
        with Pace() as pace:
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
            late_s = pace.late_s()
        if not left or late_s < LATE_S or not any(report.failed for report in reports):
            break
        item._initrequest()  # type: ignore[attr-defined]
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
