"""When a session is renewed, doubted and given up: as its clock reckons, store by store."""

from __future__ import annotations

from docs.generate.tables import table
from recipes._programs.lease import SessionClock
from recipes.stores._kit.queue import QueueProtocol
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.memory import MemoryProtocol
from recipes.stores.redis.protocol import RedisProtocol
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol

__all__ = ["session"]

PROTOCOLS = {
    "ZooKeeper": ZooKeeperProtocol,
    "etcd": EtcdProtocol,
    "Redis": RedisProtocol,
    "SQLite": QueueProtocol,
    "memory": MemoryProtocol,
}
TTL_S = 15.0


def session() -> str:
    """Return the table, for the session that ``connect`` asks for if it is told nothing else."""
    rows = []
    for store, protocol in PROTOCOLS.items():
        clock = SessionClock(TTL_S, 0.0, per_ttl=protocol.renewals_per_ttl, lag=protocol.renewal_lag)
        moments = (clock.interval_s, clock.suspect_at, clock.deadline)
        behind = protocol.renewal_lag * TTL_S
        rows.append((store, *(f"{moment:.4g}" for moment in moments), f"{behind:.4g}" if behind else "0"))
    heads = (
        "seconds, of a session of 15",
        "renewed every",
        "suspect after",
        "lost after",
        "counted from a renewal sent so much before the last",
    )
    return table(heads, rows)
