from __future__ import annotations

import pytest

from tests.contract.barrier import Barriers
from tests.contract.calling_back import CallingBack
from tests.contract.decorating import Decorating
from tests.contract.election import Elections
from tests.contract.exclusion import Exclusion
from tests.contract.foreign import Foreign
from tests.contract.group import Groups
from tests.contract.handing import HandingOn
from tests.contract.hanging import Hanging
from tests.contract.inspecting import Inspecting
from tests.contract.interrupts import Interrupts
from tests.contract.listing import Listings
from tests.contract.manners import Manners
from tests.contract.multilock import MultiLocks
from tests.contract.naming import Naming
from tests.contract.observing import Observations
from tests.contract.partitions import Partitions
from tests.contract.permits import Permits
from tests.contract.reading import Reading
from tests.contract.reentry import Reentry
from tests.contract.sessions import Sessions
from tests.contract.telling import Telling
from tests.contract.timing import Timing
from tests.contract.values import Counters, Guarded, Latches, Values, WatchedValues
from tests.contract.waiting import Waiting


class TestBarriers(Barriers):
    pass


class TestCallingBack(CallingBack):
    pass


class TestDecorating(Decorating):
    pass


class TestElections(Elections):
    pass


class TestExclusion(Exclusion):
    pass


class TestGroups(Groups):
    pass


class TestHandingOn(HandingOn):
    pass


class TestHanging(Hanging):
    pass


class TestInspecting(Inspecting):
    pass


class TestInterrupts(Interrupts):
    pass


class TestListings(Listings):
    pass


class TestManners(Manners):
    pass


class TestMultiLocks(MultiLocks):
    pass


class TestNaming(Naming):
    pass


class TestObservations(Observations):
    pass


class TestPartitions(Partitions):
    pass


class TestPermits(Permits):
    pass


class TestReading(Reading):
    pass


class TestReentry(Reentry):
    pass


class TestSessions(Sessions):
    pass


class TestForeign(Foreign):
    pass


class TestTelling(Telling):
    pass


class TestWaiting(Waiting):
    pass


class TestTiming(Timing):
    pass


class TestWritersExclusion(Exclusion):
    @pytest.fixture
    def side(self) -> str:
        return "writer"


class TestWritersInterrupts(Interrupts):
    @pytest.fixture
    def side(self) -> str:
        return "writer"


class TestReentrantInterrupts(Interrupts):
    @pytest.fixture
    def side(self) -> str:
        return "rlock"


class TestPermitsInterrupts(Interrupts):
    @pytest.fixture
    def side(self) -> str:
        return "semaphore"


class TestMultiLocksInterrupts(Interrupts):
    @pytest.fixture
    def side(self) -> str:
        return "multilock"


class TestCounters(Counters):
    pass


class TestGuarded(Guarded):
    pass


class TestLatches(Latches):
    pass


class TestValues(Values):
    pass


class TestWatchedValues(WatchedValues):
    pass
