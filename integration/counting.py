"""Counting what is asked: by a client's calls, where they ask it, and by the client, on the wire.

One round trip is one ``ask`` of a link; a batch is sent back to back and counts once. What
keepalive loop and cleaner ask (renewals) is not counted, except on the wire.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from integration import servers
from integration.proxy import Counts
from integration.stores import ServerStore
from recipes._run import runtime
from tests.contract.tap import Asked
from tests.contract.world import Party, World

__all__ = [
    "COUNTED",
    "GRANTED",
    "GRANTED_LONG",
    "LOOKED",
    "MOVED_UP",
    "MOVED_UP_LONG",
    "RELEASED",
    "kind",
    "no_periodic_reading",
    "on_the_wire",
    "requests",
    "trips",
    "used",
    "writes",
]

COUNTED = servers.CONSENSUS
"""The servers that these are about; Redis, where an operation is one command, has a file of its own."""

LOOKED = {"etcd": [("/kv/txn",)], "zookeeper": [("Create", "Children")]}
RELEASED = {"etcd": [("/kv/deleterange",)], "zookeeper": [("Delete",)]}
GRANTED = {"etcd": [("/kv/range",)], "zookeeper": []}  # there, the event is the proof
MOVED_UP = {"etcd": [], "zookeeper": [("Get", "Children")]}  # in a short queue: the proof is a look
GRANTED_LONG = {"etcd": [("/kv/txn",)], "zookeeper": []}
MOVED_UP_LONG = {"etcd": [("Watch", "/kv/range")], "zookeeper": [("Get", "Children")]}
"""In a queue that is long for etcd; its readers are granted so in any."""


@pytest.fixture
def no_periodic_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put off the re-read that every waiter does every few seconds: a slow machine would count it."""
    monkeypatch.setattr(runtime, "LONGEST_REREAD_S", 60.0)


@pytest.fixture
def kind(store: ServerStore) -> str:
    """Return which kind of store it is."""
    return store.server.kind


def trips(seen: list[Asked]) -> list[tuple[str, ...]]:
    """Return the requests of each round trip."""
    return [asked.parts for asked in seen]


def requests(seen: list[Asked]) -> int:
    """Return how many requests that is, those in batches included."""
    return sum(len(asked.parts) for asked in seen)


def on_the_wire(counts: Counts) -> int:
    """Return how many requests passed the proxy, without the opening of a watch stream."""
    return sum(n for label, n in counts.requests.items() if label != "/v3/watch")


def writes(store: ServerStore) -> str:
    """Return the number of the last write to the whole server."""
    if isinstance(store.server, servers.Etcd):
        return str(store.server.ask("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
    assert isinstance(store.server, servers.ZooKeeper)
    found = re.search(r"^Zxid: (\w+)", store.server.ask("srvr"), re.MULTILINE)
    assert found is not None
    return found[1]


def used(world: World, name: str = "x", **options: Any) -> Party:
    """Return a client whose connections and directories are there."""
    party = world.client(session_timeout=60, **options)
    party.release(party.acquire(name))
    return party
