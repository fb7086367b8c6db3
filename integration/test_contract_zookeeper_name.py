"""The contract on ZooKeeper with ``layout="name"``, as far as it is about one holder and no queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration import servers
from integration.stores import ZooKeeperNameStore
from tests.contract.calling_back import CallingBack
from tests.contract.exclusion import Exclusion
from tests.contract.foreign import Foreign
from tests.contract.hanging import Hanging
from tests.contract.inspecting import Inspecting
from tests.contract.interrupts import Interrupts
from tests.contract.manners import Manners
from tests.contract.multilock import MultiLocks
from tests.contract.naming import Naming
from tests.contract.reentry import Reentry
from tests.contract.sessions import Sessions
from tests.contract.telling import Telling
from tests.contract.timing import Timing
from tests.contract.waiting import Waiting

pytestmark = pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True)


@pytest.fixture
def store(server: servers.Server, prefix: str) -> Iterator[ZooKeeperNameStore]:
    """Yield a root as the contract sees it."""
    one = ZooKeeperNameStore(server, prefix)
    yield one
    one.close()


class TestCallingBack(CallingBack):
    """See the base."""


class TestExclusion(Exclusion):
    """See the base."""


class TestForeign(Foreign):
    """See the base."""


class TestHanging(Hanging):
    """See the base."""


class TestInspecting(Inspecting):
    """See the base."""


class TestInterrupts(Interrupts):
    """See the base."""


class TestManners(Manners):
    """See the base."""


class TestMultiLocks(MultiLocks):
    """See the base."""


class TestNaming(Naming):
    """See the base."""


class TestReentry(Reentry):
    """See the base."""


class TestSessions(Sessions):
    """See the base."""


class TestTelling(Telling):
    """See the base."""


class TestTiming(Timing):
    """See the base."""


class TestWaiting(Waiting):
    """See the base."""
