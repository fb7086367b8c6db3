"""The contract on the table of ShedLock, as far as it is about one holder of a name and no queue."""

from __future__ import annotations

from tests.contract.test_memory_cell import (  # noqa: F401 - the same tests, on the store of this folder
    TestCallingBack,
    TestExclusion,
    TestForeign,
    TestHanging,
    TestInspecting,
    TestInterrupts,
    TestManners,
    TestMultiLocks,
    TestNaming,
    TestReentrantInterrupts,
    TestReentry,
    TestSessions,
    TestTelling,
    TestTiming,
    TestWaiting,
)
