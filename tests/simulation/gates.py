"""How many schedules of each kind the default run has; ``nox -s simulate`` has as many as are asked for."""

from __future__ import annotations

__all__ = ["GATE", "OF", "by_default"]

GATE = {"etcd": 4_000, "zookeeper": 4_400, "redis": 1_000, "sql": 300, "sql-polling": 400, "cell": 600}
"""Schedules of locks on each store."""
OF = {
    "mixed": (200, 6, 0),
    "permits": (800, 6, 0),
    "election": (300, 6, 6),
    "group": (300, 6, 6),
    "partitions": (40, 20, 6),
    "multilock": (300, 12, 0),
    "values": (200, 2, 5),
    "barrier": (200, 1, 0),
}
"""Schedules of other recipes on each store, and how many grants and observed states each has on average."""
_SHARE = {"etcd": 1, "zookeeper": 1, "redis": 4, "sql": 20, "sql-polling": 20}
"""One of so many schedules of other recipes on each store; a store of cells has locks alone."""
_LEAST = {"barrier": 100, "values": 40, "partitions": 5}
"""So many of these on each store at least: fewer on SQL once let a barrier pass that should not have."""


def by_default(store: str, of: str) -> int:
    """Return how many schedules of a kind the default run has on a store."""
    if of == "locks":
        return GATE[store]
    return max(OF[of][0] // _SHARE[store], _LEAST.get(of, 0)) if store in _SHARE else 0
