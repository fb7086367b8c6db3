"""The whole contract on the master that sentinels name, and on a cluster of six nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from integration import servers
from integration.harness.process import eventually
from integration.needing import needed
from integration.stores import RedisGroupStore
from integration.test_contract import (  # noqa: F401 - the same tests, on the stores of this file
    TestBarriers,
    TestCallingBack,
    TestCounters,
    TestDecorating,
    TestElections,
    TestExclusion,
    TestForeign,
    TestGroups,
    TestHanging,
    TestInspecting,
    TestInterrupts,
    TestLatches,
    TestListings,
    TestManners,
    TestMultiLocks,
    TestMultiLocksInterrupts,
    TestNaming,
    TestObservations,
    TestPartitions,
    TestPermits,
    TestPermitsInterrupts,
    TestReading,
    TestReentry,
    TestSessions,
    TestTelling,
    TestTiming,
    TestValues,
    TestWaiting,
    TestWatchedValues,
    TestWritersExclusion,
    TestWritersInterrupts,
)
from tests.contract.values import Guarded

pytestmark = pytest.mark.long

DOWN_MS = 10_000
"""Longer than a busy machine keeps a master silent: a failover nobody asked for would stop all grants."""
Group = servers.RedisSentinels | servers.RedisCluster
MADE: dict[str, Callable[[], Group]] = {
    "redis-sentinels": partial(servers.redis_sentinels, down_ms=DOWN_MS),
    "redis-cluster": partial(servers.redis_cluster, down_ms=DOWN_MS),
}


@pytest.fixture(scope="module", params=list(MADE))
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """Yield servers that have been up for as long as they grant nothing after a start."""
    with needed(request.param, lambda: MADE[request.param]().__enter__()) as one:
        assert eventually(
            lambda: all(map(_settled, one.members)), 2 * RedisGroupStore.restart_grace, every_s=1
        )
        yield one


@pytest.fixture
def store(group: Group, prefix: str) -> Iterator[RedisGroupStore]:
    one = RedisGroupStore(group, prefix)
    yield one
    one.close()


class TestGuarded(Guarded):
    """See the base; a cluster writes under a grant where one hash tag has both in one slot."""

    @pytest.fixture
    def prefix(self, prefix: str) -> str:
        return f"{{{prefix}}}"


def _settled(member: servers.Redis) -> bool:
    return int(member.info("server")["uptime_in_seconds"]) > RedisGroupStore.restart_grace + 1
