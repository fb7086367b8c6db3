"""Many scripts, each on a model and on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from integration.differential.etcd_scripts import etcd_script
from integration.differential.etcd_sides import EtcdModel, RealEtcd, floor_of
from integration.differential.redis_scripts import redis_script
from integration.differential.redis_sides import RealRedis, RedisModel, Times
from integration.differential.script import Difference, Replay, Script, Side, compare, replay
from integration.differential.zookeeper_scripts import zookeeper_script
from integration.differential.zookeeper_sides import RealZooKeeper, ZooKeeperModel
from integration.servers import ALL, Etcd, Redis, Server, ZooKeeper

__all__ = ["NAMES", "SCRIPTS", "Run", "differ", "differences", "started"]

NAMES = tuple(name for name in ALL if name != "etcd-grpc")  # an etcd that is there already, asked by gRPC
SCRIPTS: dict[str, Callable[[int], Script]] = {
    "etcd": etcd_script,
    "zookeeper": zookeeper_script,
    "redis": redis_script,
}
ELECTION_MS = 1000
"""As etcd's default: with it, the shortest lease is two seconds."""
MOST_AGAIN = 3
"""A script for Redis that differs is replayed so often: a lease may end between the question for the time
and the act. A mistake differs every time."""
STALL_S = 1.8
"""A script that took longer may have outlived such a lease; it is replayed if it differs."""


@dataclass(slots=True)
class Run:
    """What came of many scripts."""

    scripts: int = 0
    steps: int = 0
    events: int = 0
    again: int = 0
    differences: list[Difference] = field(default_factory=list)


def started(name: str) -> Server:
    """Start a server of our own, on which nobody else writes; ServerUnavailable if there is none."""
    server = ALL[name].make()
    if isinstance(server, Etcd):
        server._election_ms = ELECTION_MS
    return server.start()


def differ(server: Server, seeds: Iterable[int], *, show: Callable[[str], Any] | None = None) -> Run:
    """Replay the scripts of these seeds on a server that runs and on its model."""
    with _sides(server) as (model, real):
        return differences(server.scheme, model, real, seeds, ("model", server.label), show=show)


def differences(
    scheme: str,
    model: Side,
    other: Side,
    seeds: Iterable[int],
    names: tuple[str, str],
    *,
    show: Callable[[str], Any] | None = None,
) -> Run:
    """Replay scripts on two sides."""
    run = Run()
    for seed in seeds:
        script = SCRIPTS[scheme](seed)
        found, expected = replay(script, other), replay(script, model)
        difference = compare(script, expected, found, names)
        for _ in range(MOST_AGAIN if scheme == "redis" else int(found.took_s > STALL_S)):
            if difference is None:
                break
            run.again += 1
            found, expected = replay(script, other), replay(script, model)
            difference = compare(script, expected, found, names)
        run.scripts += 1
        run.steps += len(script.steps)
        run.events += sum(len(outcome.told) for outcome in expected.outcomes)
        if difference is not None:
            run.differences.append(difference)
        if show is not None:
            _show(script, found, show)
    return run


def _show(script: Script, found: Replay, show: Callable[[str], Any]) -> None:
    show(f"seed {script.seed}")
    for number, (step, outcome) in enumerate(zip(script.steps, found.outcomes, strict=True)):
        show(f"  {number:2} {step}\n       {outcome}")


@contextmanager
def _sides(server: Server) -> Iterator[tuple[Side, Side]]:
    if isinstance(server, Etcd):
        etcd = RealEtcd(server)
        try:
            yield EtcdModel(floor_of(server)), etcd
        finally:
            etcd.shut()
    elif isinstance(server, Redis):
        times = Times()
        redis = RealRedis(server, times)
        try:
            yield RedisModel(times), redis
        finally:
            redis.shut()
    else:
        assert isinstance(server, ZooKeeper)
        yield ZooKeeperModel(), RealZooKeeper(server)
