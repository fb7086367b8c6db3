"""A part of the contract on ZooKeeper with a kazoo whose inside is another, see `another_kazoo`."""

from __future__ import annotations

import pytest

from tests.contract.exclusion import Exclusion
from tests.contract.sessions import Sessions
from tests.contract.waiting import Waiting
from tests.stores.zookeeper.another_kazoo import another_kazoo  # noqa: F401 - a fixture

pytestmark = [
    pytest.mark.usefixtures("another_kazoo"),
    pytest.mark.parametrize("server", ["zookeeper-3.8"], indirect=True),
]


class TestExclusion(Exclusion):
    """See the base."""


class TestSessions(Sessions):
    """See the base."""


class TestWaiting(Waiting):
    """See the base."""
