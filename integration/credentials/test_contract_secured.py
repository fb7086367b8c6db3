"""The whole contract with TLS, user and password on: what ``integration/test_contract.py`` runs without."""

from __future__ import annotations

import pytest

from integration.test_contract import (  # noqa: F401 - the same tests, on the servers of this folder
    TestExclusion,
    TestForeign,
    TestGuarded,
    TestInterrupts,
    TestListings,
    TestManners,
    TestNaming,
    TestObservations,
    TestPermits,
    TestReading,
    TestSessions,
    TestTiming,
    TestWatchedValues,
    TestWritersExclusion,
    TestWritersInterrupts,
)

pytestmark = pytest.mark.long
