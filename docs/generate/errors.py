"""The table of errors: from their classes, and from what their messages say is to be done."""

from __future__ import annotations

import recipes
from docs.generate.tables import code, table
from recipes.errors import RecipesError

__all__ = ["errors"]

SAMPLES: dict[str, dict[str, object]] = {
    "ClientClosed": {},
    "Closed": {},
    "BarrierBroken": {"name": "nightly/parts", "generation": 3, "reason": "a party that waited has gone"},
    "BarrierMismatch": {"name": "nightly/parts", "parties": 3, "others": 4},
    "LatchMismatch": {"name": "release-42/ready", "count": 4, "stored": 3},
    "LockLost": {"lock": "reports", "token": 41, "reason": "its session was lost"},
    "AlreadyJoined": {"lock": "workers", "member_id": "worker-7", "timeout_s": 20.0, "position": 1},
    "LockTimeout": {"lock": "reports", "timeout_s": 5.0, "position": 2},
    "OutcomeUnknown": {
        "store": "etcd1:2379",
        "detail": "no answer within the request timeout",
        "recipe": "counter",
        "name": "orders",
    },
    "QueueFull": {"lock": "reports", "max_waiters": 1, "position": 2},
    "ReentrantCall": {},
    "SessionLost": {"reason": "no renewal was confirmed in time", "lock": "reports"},
    "StaleToken": {"name": "reports", "token": 41, "seen": 43},
    "StoreDenied": {"store": "etcd1:2379", "detail": "..."},
    "StoreFull": {"store": "etcd1:2379", "detail": "..."},
    "StoreRefused": {"store": "etcd1:2379", "detail": "..."},
    "StoreUnavailable": {"store": "etcd1:2379", "detail": "..."},
    "StoreTimeout": {
        "lock": "reports",
        "timeout_s": 5.0,
        "position": 2,
        "silent": recipes.StoreUnavailable("etcd1:2379", "..."),
    },
    "StoreUntrusted": {"store": "etcd1:2379", "detail": "..."},
    "TooWeak": {
        "store": "sqlite://",
        "missing": ("many_machines",),
        "use": ("zookeeper://", "etcd://", "postgresql://", "mysql://", "redis://"),
    },
    "UpgradeError": {"lock": "catalog", "token": 41},
    "WouldDeadlock": {"lock": "reports", "token": 41},
}
"""An error of each class that is raised; the others are bases."""


def errors() -> str:
    """Return the table, in the order of the tree, and the classes."""
    kinds = list(dict.fromkeys(_tree(RecipesError)))  # one that is two kinds of error is there twice
    rows = [(f"`{kind.__name__}`", _bases(kind), _advice(kind)) for kind in kinds]
    heads = ("error", "is also", "what to do, as its message says it")
    classes = "\n".join(f".. autoexception:: recipes.{kind.__name__}()" for kind in kinds)
    return f"{table(heads, rows)}\n\n```{{eval-rst}}\n{classes}\n```"


def _tree(kind: type[RecipesError]) -> list[type[RecipesError]]:
    below = sorted(kind.__subclasses__(), key=lambda one: one.__name__)
    ours = [one for one in below if one.__name__ in recipes.__all__]
    return [kind, *(found for one in ours for found in _tree(one))]


def _bases(kind: type[RecipesError]) -> str:
    """Return the classes right above it."""
    return code(base.__name__ for base in kind.__bases__ if base not in (Exception, RecipesError))


def _advice(kind: type[RecipesError]) -> str:
    facts = SAMPLES.get(kind.__name__)
    if facts is None:
        return "a base: catch it to catch those below it"
    return str(kind(**facts)).rpartition("; ")[2]
