"""Clusters in place of the single servers; tests may do to members what they like, and leave them healed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest

from integration import servers
from integration.clusters.labs import MADE, cluster_of

Cluster = servers.EtcdCluster | servers.ZooKeeperCluster


@pytest.fixture(scope="package")
def clusters() -> Iterator[Callable[..., Cluster]]:
    """Yield what returns a cluster of a kind, started when it is first asked for."""
    made: dict[tuple[str, bool], Cluster] = {}

    def get(kind: str, *, hub: bool = False) -> Cluster:
        known = made.get((kind, hub))
        if known is not None:
            if known.hub is not None:
                known.hub.heal()
            if not _agrees(known.start()):
                print(f"another {kind} is started: the members of the last one disagree", file=sys.stderr)
                made.pop((kind, hub)).close()
        if (kind, hub) not in made:
            made[kind, hub] = cluster_of(kind, hub=hub)
            made[kind, hub].__enter__()
        return made[kind, hub]

    yield get
    for cluster in made.values():
        cluster.close()


def _agrees(cluster: Cluster) -> bool:
    """Whether its members say that they agree; one that does not say so is not used again."""
    try:
        return cluster.agrees()
    except Exception:
        return False


@pytest.fixture(params=MADE)
def server(request: pytest.FixtureRequest, clusters: Callable[..., Cluster]) -> Cluster:
    """Return a cluster of each kind in turn, whole; on a hub if the test is marked so."""
    kind, hub = request.param, request.node.get_closest_marker("hub") is not None
    try:
        cluster = clusters(kind, hub=hub)
    except servers.ServerUnavailable as reason:
        if os.environ.get("CI"):
            pytest.fail(f"{kind} is needed in CI: {reason}")
        pytest.skip(f"NOT TESTED on {kind}: {reason}")
    cluster.leader()
    return cluster
