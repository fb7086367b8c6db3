"""Coordination recipes on ZooKeeper, etcd, Redis, databases and files, behind one API, blocking and asyncio.

::

    import recipes

    with recipes.connect("etcd://127.0.0.1:2379/app") as client:
        with client.lock("reports/nightly") as grant:
            publish(report, fence=grant.token)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recipes._version import __version__

if TYPE_CHECKING:
    from recipes import errors as errors
    from recipes import etcd as etcd
    from recipes import events as events
    from recipes import fencing as fencing
    from recipes import guarantees as guarantees
    from recipes import sql as sql
    from recipes import telemetry as telemetry
    from recipes import testing as testing
    from recipes import zookeeper as zookeeper
    from recipes._api.observing import AsyncObserving, Observing
    from recipes.barrier import AsyncBarrier, Barrier
    from recipes.client import AsyncClient, Client, connect, connect_async
    from recipes.counter import AsyncCounter, Counter
    from recipes.election import AsyncElection, AsyncLeadership, Election, Leader, Leadership
    from recipes.errors import (
        AlreadyJoined,
        BarrierBroken,
        BarrierMismatch,
        ClientClosed,
        Closed,
        LatchMismatch,
        LockError,
        LockLost,
        LockTimeout,
        OutcomeUnknown,
        QueueFull,
        RecipesError,
        ReentrantCall,
        SessionLost,
        StaleToken,
        StoreDenied,
        StoreError,
        StoreFull,
        StoreRefused,
        StoreTimeout,
        StoreUnavailable,
        StoreUntrusted,
        TooWeak,
        UpgradeError,
        WouldDeadlock,
    )
    from recipes.grant import (
        AsyncGrant,
        AsyncSemaphoreGrant,
        AsyncWriteGrant,
        Grant,
        SemaphoreGrant,
        WriteGrant,
    )
    from recipes.group import AsyncGroup, AsyncMembership, Group, Member, Membership
    from recipes.guarantees import Guarantees
    from recipes.inspection import ContenderInfo
    from recipes.latch import AsyncLatch, Latch
    from recipes.lock import AsyncLock, Lock
    from recipes.multilock import AsyncMultiGrant, AsyncMultiLock, MultiGrant, MultiLock
    from recipes.partition import Assignment, AsyncPartitions, Partitions
    from recipes.rlock import AsyncRLock, RLock
    from recipes.rwlock import (
        AsyncReadLock,
        AsyncReadWriteLock,
        AsyncWriteLock,
        ReadLock,
        ReadWriteLock,
        WriteLock,
    )
    from recipes.semaphore import AsyncSemaphore, Semaphore
    from recipes.session import Session
    from recipes.value import AsyncValue, Value, Versioned

__all__ = [
    "AlreadyJoined",
    "Assignment",
    "AsyncBarrier",
    "AsyncClient",
    "AsyncCounter",
    "AsyncElection",
    "AsyncGrant",
    "AsyncGroup",
    "AsyncLatch",
    "AsyncLeadership",
    "AsyncLock",
    "AsyncMembership",
    "AsyncMultiGrant",
    "AsyncMultiLock",
    "AsyncObserving",
    "AsyncPartitions",
    "AsyncRLock",
    "AsyncReadLock",
    "AsyncReadWriteLock",
    "AsyncSemaphore",
    "AsyncSemaphoreGrant",
    "AsyncValue",
    "AsyncWriteGrant",
    "AsyncWriteLock",
    "Barrier",
    "BarrierBroken",
    "BarrierMismatch",
    "Client",
    "ClientClosed",
    "Closed",
    "ContenderInfo",
    "Counter",
    "Election",
    "Grant",
    "Group",
    "Guarantees",
    "Latch",
    "LatchMismatch",
    "Leader",
    "Leadership",
    "Lock",
    "LockError",
    "LockLost",
    "LockTimeout",
    "Member",
    "Membership",
    "MultiGrant",
    "MultiLock",
    "Observing",
    "OutcomeUnknown",
    "Partitions",
    "QueueFull",
    "RLock",
    "ReadLock",
    "ReadWriteLock",
    "RecipesError",
    "ReentrantCall",
    "Semaphore",
    "SemaphoreGrant",
    "Session",
    "SessionLost",
    "StaleToken",
    "StoreDenied",
    "StoreError",
    "StoreFull",
    "StoreRefused",
    "StoreTimeout",
    "StoreUnavailable",
    "StoreUntrusted",
    "TooWeak",
    "UpgradeError",
    "Value",
    "Versioned",
    "WouldDeadlock",
    "WriteGrant",
    "WriteLock",
    "__version__",
    "connect",
    "connect_async",
]

_WHERE = {
    "_api.observing": ("AsyncObserving", "Observing"),
    "barrier": ("AsyncBarrier", "Barrier"),
    "client": ("AsyncClient", "Client", "connect", "connect_async"),
    "counter": ("AsyncCounter", "Counter"),
    "election": ("AsyncElection", "AsyncLeadership", "Election", "Leader", "Leadership"),
    "errors": (
        "AlreadyJoined",
        "BarrierBroken",
        "BarrierMismatch",
        "ClientClosed",
        "Closed",
        "LatchMismatch",
        "LockError",
        "LockLost",
        "LockTimeout",
        "OutcomeUnknown",
        "QueueFull",
        "RecipesError",
        "ReentrantCall",
        "SessionLost",
        "StaleToken",
        "StoreDenied",
        "StoreError",
        "StoreFull",
        "StoreRefused",
        "StoreTimeout",
        "StoreUnavailable",
        "StoreUntrusted",
        "TooWeak",
        "UpgradeError",
        "WouldDeadlock",
    ),
    "grant": (
        "AsyncGrant",
        "AsyncSemaphoreGrant",
        "AsyncWriteGrant",
        "Grant",
        "SemaphoreGrant",
        "WriteGrant",
    ),
    "group": ("AsyncGroup", "AsyncMembership", "Group", "Member", "Membership"),
    "guarantees": ("Guarantees",),
    "inspection": ("ContenderInfo",),
    "latch": ("AsyncLatch", "Latch"),
    "lock": ("AsyncLock", "Lock"),
    "multilock": ("AsyncMultiGrant", "AsyncMultiLock", "MultiGrant", "MultiLock"),
    "partition": ("Assignment", "AsyncPartitions", "Partitions"),
    "rlock": ("AsyncRLock", "RLock"),
    "rwlock": (
        "AsyncReadLock",
        "AsyncReadWriteLock",
        "AsyncWriteLock",
        "ReadLock",
        "ReadWriteLock",
        "WriteLock",
    ),
    "semaphore": ("AsyncSemaphore", "Semaphore"),
    "session": ("Session",),
    "value": ("AsyncValue", "Value", "Versioned"),
}
"""Where each name is: the module is imported when one of its names is first used.

``import recipes`` then costs a program nothing that it does not use, and ``from recipes import fencing``
no client.
"""

_MODULES = ("errors", "etcd", "events", "fencing", "guarantees", "sql", "telemetry", "testing", "zookeeper")
"""Modules that are an attribute after ``import recipes``, as those of `_WHERE` are."""


if not TYPE_CHECKING:  # else every misspelt name would have a type

    def __getattr__(name: str) -> Any:
        for module, names in _WHERE.items():
            if name in names:
                found = getattr(import_module(f"recipes.{module}"), name)
                globals()[name] = found  # asked once
                return found
        if name in _WHERE or name in _MODULES:
            try:
                return import_module(f"recipes.{name}")
            except ImportError as missing:  # what looks through a module expects nothing else
                raise AttributeError(f"recipes.{name} cannot be imported: {missing}") from missing
        raise AttributeError(f"module 'recipes' has no attribute {name!r}")


def __dir__() -> list[str]:
    public = (module for module in _WHERE if not module.startswith("_"))
    return sorted({*globals(), *__all__, *public, *_MODULES})
