"""Bugs to plant where the simulation does not reach: in the drivers and the transports.

Each names the tests that have to notice it; all of them are part of the default run.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recipes._run.blocking import BlockingRuntime
from recipes._run.runtime import Call, Runtime
from recipes._run.tasks import TaskMailbox
from recipes._run.watchdog import Watchdog
from recipes.stores.etcd.pool import Pool
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.stream_book import WatchBook
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.sockets import Conn
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.kazoo_client_watches import Watches
from tests.simulation.bugs import swap

__all__ = ["TRANSPORTS", "TransportMutant"]


@dataclass(frozen=True, slots=True)
class TransportMutant:
    """One planted bug.

    Attributes:
        name: What is wrong with it.
        where: Which part of the package.
        tests: The file of tests that has to notice.
        plant: Returns the patches, by way of ``mock.patch``.
    """

    name: str
    where: str
    tests: str
    plant: Callable[[], list[Any]]


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _in_own_thread_only() -> list[Any]:
    def post(self: Any, event: Any) -> None:
        self._deliver(event)

    return swap(TaskMailbox, "post", post)


def _an_ended_keepalive_counts() -> list[Any]:
    """Whoever had a keepalive loop has one: of what tells that it has ended, one thing would be enough."""
    begun: weakref.WeakSet[BlockingRuntime] = weakref.WeakSet()

    def keep_on(self: Any) -> None:
        begun.add(self)
        original(self)

    original = BlockingRuntime._keep_on
    return [
        *swap(BlockingRuntime, "_keep_on", keep_on),
        *swap(BlockingRuntime, "_keeping", lambda self: self in begun),
    ]


def _used_again() -> list[Any]:
    return swap(Pool, "give_up", lambda self, pipeline, talk, *, reads: self.give(pipeline, talk))


BLOCKING, TASKS = "blocking driver", "asyncio driver"
ETCD, KAZOO = "etcd transport", "ZooKeeper transport"
TRANSPORTS = [
    TransportMutant(
        "a call that has ended goes on hearing of events",
        BLOCKING,
        "tests/run/test_blocking.py",
        lambda: swap(Call, "finish", nothing),
    ),
    TransportMutant(
        "an exception leaves what the call had made",
        BLOCKING,
        "tests/run/test_blocking.py",
        lambda: swap(Call, "unwind", nothing),
    ),
    TransportMutant(
        "a keeper that was ended is not replaced",
        BLOCKING,
        "tests/run/test_blocking.py",
        _an_ended_keepalive_counts,
    ),
    TransportMutant(
        "a session that nobody keeps is not given up",
        BLOCKING,
        "tests/run/test_blocking.py",
        lambda: swap(Runtime, "give_up", nothing),
    ),
    TransportMutant(
        "a fork holds what its parent holds",
        BLOCKING,
        "tests/run/test_fork.py",
        lambda: swap(Runtime, "after_fork", nothing),
    ),
    TransportMutant(
        "events of other threads do not wake the loop",
        TASKS,
        "tests/run/test_tasks.py",
        _in_own_thread_only,
    ),
    TransportMutant(
        "the watchdog watches nobody",
        TASKS,
        "tests/run/test_watchdog.py",
        lambda: swap(Watchdog, "_take_back", nothing),
    ),
    TransportMutant(
        "a cancelled watch is not told",
        ETCD,
        "tests/stores/etcd/test_stream_book.py",
        lambda: swap(WatchBook, "_cancelled", nothing),
    ),
    TransportMutant(
        "a watch that nobody needs stays",
        ETCD,
        "tests/stores/etcd/test_stream_book.py",
        lambda: swap(WatchBook, "forget", lambda self, mailbox: []),
    ),
    TransportMutant(
        "a lost stream disturbs nobody",
        ETCD,
        "tests/stores/etcd/test_stream_book.py",
        lambda: swap(WatchBook, "lose", nothing),
    ),
    TransportMutant(
        "a silent stream is not left",
        ETCD,
        "tests/stores/etcd/test_stream_multiplexer.py",
        lambda: swap(Multiplexer, "tick", nothing),
    ),
    TransportMutant(
        "a broken stream is not noticed",
        ETCD,
        "tests/stores/etcd/test_stream_multiplexer.py",
        lambda: swap(Multiplexer, "broken", nothing),
    ),
    TransportMutant(
        "a connection that the server closed is used again",
        ETCD,
        "tests/stores/etcd/test_pool.py",
        lambda: swap(Conn, "stale", lambda self: False),
    ),
    TransportMutant(
        "the connection of an interrupted call is used again",
        ETCD,
        "tests/stores/etcd/test_pool.py",
        _used_again,
    ),
    TransportMutant(
        "a store that went back is not noticed",
        ETCD,
        "tests/stores/test_etcd_protocol.py",
        lambda: swap(EtcdProtocol, "_take", nothing),
    ),
    TransportMutant(
        "a lost connection disturbs nobody",
        KAZOO,
        "tests/stores/zookeeper/test_watches.py",
        lambda: swap(Watches, "disturb", nothing),
    ),
    TransportMutant(
        "who gives up is watched for all the same",
        KAZOO,
        "tests/stores/zookeeper/test_watches.py",
        lambda: swap(Watches, "forget", nothing),
    ),
    TransportMutant(
        "a request that was given up is answered",
        KAZOO,
        "tests/stores/zookeeper/test_life.py",
        lambda: swap(KazooSession, "abandon", lambda self, call: False),
    ),
    TransportMutant(
        "the end of a session is not told",
        KAZOO,
        "tests/stores/zookeeper/test_life.py",
        lambda: swap(KazooSession, "_end", lambda self, reason: False),
    ),
    TransportMutant(
        "a server that does not reach the leader is kept",
        KAZOO,
        "tests/stores/zookeeper/test_requests.py",
        lambda: swap(KazooSession, "_leave_if_cut_off", nothing),
    ),
]
