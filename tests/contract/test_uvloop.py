"""The contract under uvloop, in memory and on a file: what waits always, the rest when asked."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from integration import test_contract_uvloop as on_servers
from tests.contract import test_memory
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
from tests.contract.stores import MemoryStore, SqliteStore, Store
from tests.contract.telling import Telling
from tests.contract.timing import Timing
from tests.contract.values import Counters, Guarded, Latches, Values, WatchedValues
from tests.contract.waiting import Waiting


@pytest.fixture(params=[MemoryStore, SqliteStore], ids=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    one: Store = request.param()
    yield one
    one.close()


@pytest.mark.long
class TestElections(OnUvloop, Elections):
    """See the base."""


@pytest.mark.long
class TestExclusion(OnUvloop, Exclusion):
    """See the base."""


class TestHandingOn(OnUvloop, HandingOn):
    """See the base."""


@pytest.mark.long
class TestHanging(OnUvloop, Hanging):
    """See the base."""


@pytest.mark.long
class TestInspecting(OnUvloop, Inspecting):
    """See the base."""


@pytest.mark.long
class TestInterrupts(OnUvloop, Interrupts):
    """See the base."""


@pytest.mark.long
class TestListings(OnUvloop, Listings):
    """See the base."""


@pytest.mark.long
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


@pytest.mark.long
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
    pass


class TestGuarded(OnUvloop, Guarded):
    pass


class TestLatches(OnUvloop, Latches):
    pass


class TestValues(OnUvloop, Values):
    pass


class TestWatchedValues(OnUvloop, WatchedValues):
    pass


@pytest.mark.long
class TestBarriers(OnUvloop, Barriers):
    """See the base."""


class TestCallingBack(OnUvloop, CallingBack):
    """See the base."""


@pytest.mark.long
class TestDecorating(OnUvloop, Decorating):
    """See the base."""


@pytest.mark.long
class TestGroups(OnUvloop, Groups):
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


@pytest.mark.parametrize("there", [sys.modules[__name__], on_servers], ids=["here", "on servers"])
def test_all_of_the_contract_runs_under_uvloop(there: ModuleType) -> None:
    kinds = [one for name, one in vars(there).items() if name.startswith("Test")]
    under_uvloop = {base for kind in kinds if issubclass(kind, OnUvloop) for base in kind.__mro__}
    contract = {kind.__mro__[1] for name, kind in vars(test_memory).items() if name.startswith("Test")}
    assert contract - under_uvloop == set()
