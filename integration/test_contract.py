"""The contract, on real servers: what ``tests/contract/test_memory.py`` runs in memory."""

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
    """See the base."""


class TestCallingBack(CallingBack):
    """See the base."""


class TestDecorating(Decorating):
    """See the base."""


class TestElections(Elections):
    """See the base."""


class TestExclusion(Exclusion):
    """See the base."""


class TestGroups(Groups):
    """See the base."""


class TestHandingOn(HandingOn):
    """See the base."""


class TestHanging(Hanging):
    """See the base."""


class TestInspecting(Inspecting):
    """See the base."""


class TestInterrupts(Interrupts):
    """See the base."""


class TestListings(Listings):
    """See the base."""


class TestManners(Manners):
    """See the base."""


class TestMultiLocks(MultiLocks):
    """See the base."""


class TestNaming(Naming):
    """See the base."""


class TestObservations(Observations):
    """See the base."""


class TestPartitions(Partitions):
    """See the base."""


class TestPermits(Permits):
    """See the base."""


class TestReading(Reading):
    """See the base."""


class TestReentry(Reentry):
    """See the base."""


class TestSessions(Sessions):
    """See the base."""


class TestForeign(Foreign):
    """See the base."""


class TestTelling(Telling):
    """See the base."""


class TestWaiting(Waiting):
    """See the base."""


class TestTiming(Timing):
    """See the base."""


class TestWritersExclusion(Exclusion):
    """See the base; each lock is the exclusive side of a read-write lock."""

    @pytest.fixture
    def side(self) -> str:
        return "writer"


class TestWritersInterrupts(Interrupts):
    """See the base; each lock is the exclusive side of a read-write lock."""

    @pytest.fixture
    def side(self) -> str:
        return "writer"


class TestPermitsInterrupts(Interrupts):
    """See the base; each lock is a semaphore of one permit."""

    @pytest.fixture
    def side(self) -> str:
        return "semaphore"


class TestMultiLocksInterrupts(Interrupts):
    """See the base; each lock is a lock and a permit together."""

    @pytest.fixture
    def side(self) -> str:
        return "multilock"


class TestCounters(Counters):
    """Every addition counts once."""


class TestGuarded(Guarded):
    """A write that is done only if a grant stands."""


class TestLatches(Latches):
    """Closed until counted down, then open for good."""


class TestValues(Values):
    """Bytes that stay, each write done once."""


class TestWatchedValues(WatchedValues):
    """The value now, and after every change."""
