"""The contract under uvloop, on real servers: what waits and renews always, the rest when asked."""

from __future__ import annotations

import pytest

from tests.contract.barrier import Barriers
from tests.contract.calling_back import CallingBack
from tests.contract.decorating import Decorating
from tests.contract.election import Elections
from tests.contract.exclusion import Exclusion
from tests.contract.fixtures import OnUvloop
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


@pytest.mark.long
class TestExclusion(OnUvloop, Exclusion):
    """See the base."""


class TestHanging(OnUvloop, Hanging):
    """See the base."""


@pytest.mark.long
class TestInspecting(OnUvloop, Inspecting):
    """See the base."""


class TestInterrupts(OnUvloop, Interrupts):
    """See the base."""


@pytest.mark.long
class TestListings(OnUvloop, Listings):
    """See the base."""


class TestManners(OnUvloop, Manners):
    """See the base."""


@pytest.mark.long
class TestNaming(OnUvloop, Naming):
    """See the base."""


@pytest.mark.long
class TestReading(OnUvloop, Reading):
    """See the base."""


@pytest.mark.long
class TestReentry(OnUvloop, Reentry):
    """See the base."""


class TestSessions(OnUvloop, Sessions):
    """See the base."""


class TestForeign(OnUvloop, Foreign):
    """See the base."""


class TestTelling(OnUvloop, Telling):
    """See the base."""


@pytest.mark.long
class TestTiming(OnUvloop, Timing):
    """See the base."""


class TestWaiting(OnUvloop, Waiting):
    """See the base."""


class TestCounters(OnUvloop, Counters):
    """Every addition counts once."""


class TestGuarded(OnUvloop, Guarded):
    """A write that is done only if a grant stands."""


class TestLatches(OnUvloop, Latches):
    """Closed until counted down, then open for good."""


class TestValues(OnUvloop, Values):
    """Bytes that stay, each write done once."""


class TestWatchedValues(OnUvloop, WatchedValues):
    """The value now, and after every change."""


@pytest.mark.long
class TestBarriers(OnUvloop, Barriers):
    """See the base."""


class TestCallingBack(OnUvloop, CallingBack):
    """See the base."""


@pytest.mark.long
class TestDecorating(OnUvloop, Decorating):
    """See the base."""


@pytest.mark.long
class TestElections(OnUvloop, Elections):
    """See the base."""


@pytest.mark.long
class TestGroups(OnUvloop, Groups):
    """See the base."""


@pytest.mark.long
class TestHandingOn(OnUvloop, HandingOn):
    """See the base."""


@pytest.mark.long
class TestMultiLocks(OnUvloop, MultiLocks):
    """See the base."""


@pytest.mark.long
class TestObservations(OnUvloop, Observations):
    """See the base."""


@pytest.mark.long
class TestPartitions(OnUvloop, Partitions):
    """See the base."""


@pytest.mark.long
class TestPermits(OnUvloop, Permits):
    """See the base."""
