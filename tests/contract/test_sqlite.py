"""The contract on a file, see ``test_memory.py``: the clients of one test share a process.

`Timing`, which mostly waits, is in ``integration/test_sqlite_timing.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from tests.contract.stores import SqliteStore, Store
from tests.contract.telling import Telling
from tests.contract.values import Counters, Guarded, Latches, Values, WatchedValues
from tests.contract.waiting import Waiting


@pytest.fixture
def store() -> Iterator[Store]:
    one = SqliteStore()
    yield one
    one.close()


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
