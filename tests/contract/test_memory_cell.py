"""The contract on a cell store in memory, as far as it is about one holder of a name and no queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.calling_back import CallingBack
from tests.contract.exclusion import Exclusion
from tests.contract.foreign import Foreign
from tests.contract.handing import HandingOn
from tests.contract.hanging import Hanging
from tests.contract.inspecting import Inspecting
from tests.contract.interrupts import Interrupts
from tests.contract.manners import Manners
from tests.contract.multilock import MultiLocks
from tests.contract.naming import Naming
from tests.contract.reentry import Reentry
from tests.contract.sessions import Sessions
from tests.contract.stores import MemoryCellStore, Store
from tests.contract.telling import Telling
from tests.contract.timing import Timing
from tests.contract.waiting import Waiting


@pytest.fixture
def store() -> Iterator[Store]:
    one = MemoryCellStore()
    yield one
    one.close()


class TestCallingBack(CallingBack):
    pass


class TestExclusion(Exclusion):
    pass


class TestForeign(Foreign):
    pass


class TestHandingOn(HandingOn):
    pass


class TestHanging(Hanging):
    pass


class TestInspecting(Inspecting):
    pass


class TestInterrupts(Interrupts):
    pass


class TestManners(Manners):
    pass


class TestMultiLocks(MultiLocks):
    pass


class TestNaming(Naming):
    pass


class TestReentry(Reentry):
    pass


class TestReentrantInterrupts(Interrupts):
    @pytest.fixture
    def side(self) -> str:
        return "rlock"


class TestSessions(Sessions):
    pass


class TestTelling(Telling):
    pass


class TestTiming(Timing):
    pass


class TestWaiting(Waiting):
    pass
