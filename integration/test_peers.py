"""Other clients of the same lock: ours and ``etcdctl lock``, ours and kazoo's ``Lock``, both ways."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import CancelledError

from integration import servers
from integration.conftest import FIXTURES
from integration.stores import ServerStore, store_on
from recipes._contract.names import encode
from tests.contract.world import World, until

NAME = "a name/with a slash"
PEERS = ["etcd-3.4", "etcd-3.5", "zookeeper-3.8"]  # those of Redis are in ``sharing/``
PATIENCE_S = 60


class ForeignNode(ABC):
    """One contender by another client; it stands in the queue, or is about to, when made."""

    @abstractmethod
    def holds(self, within_s: float) -> bool:
        """Wait until it holds the lock; whether it does."""

    @abstractmethod
    def leave(self) -> None:
        """Give up what it holds or waits for."""


class Etcdctl(ForeignNode):
    """``etcdctl lock``, which prints its key when it holds."""

    def __init__(self, store: ServerStore, name: str) -> None:
        name = f"{store.prefix}/{encode(name)}"
        command = [str(servers.find_etcdctl()), f"--endpoints={store.server.address}", "lock", name]
        environment = {**os.environ, "ETCDCTL_API": "3"}
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self._key: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self._key.put(line)

    def holds(self, within_s: float) -> bool:
        try:
            return bool(self._key.get(timeout=within_s))
        except queue.Empty:
            return False

    def leave(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)


class Kazoo(ForeignNode):
    """Kazoo's lock, told to mind our contenders."""

    def __init__(self, store: ServerStore, name: str) -> None:
        self._client = KazooClient(store.server.address)
        self._client.start(PATIENCE_S)
        self._lock = self._client.Lock(f"/{store.prefix}/{encode(name)}", extra_lock_patterns=("-lock-",))
        self._held = threading.Event()
        self._waiter = threading.Thread(target=self._acquire, daemon=True)
        self._waiter.start()

    def _acquire(self) -> None:
        with contextlib.suppress(CancelledError):
            if self._lock.acquire():
                self._held.set()

    def holds(self, within_s: float) -> bool:
        return self._held.wait(within_s)

    def leave(self) -> None:
        if self._held.is_set():
            self._lock.release()
        else:
            self._lock.cancel()
        self._waiter.join(PATIENCE_S)
        self._client.stop()
        self._client.close()


@pytest.fixture(params=PEERS)
def store(request: pytest.FixtureRequest, prefix: str) -> Iterator[ServerStore]:
    """Yield a place on each server."""
    server: servers.Server = request.getfixturevalue(FIXTURES[request.param])
    one = store_on(server.start(), prefix)
    yield one
    one.close()


@pytest.fixture
def foreign(store: ServerStore) -> Iterator[Callable[..., ForeignNode]]:
    """Yield what makes a contender of the other client, which is in the queue when it returns."""
    made: list[ForeignNode] = []

    def make(name: str = NAME) -> ForeignNode:
        before = len(store.contenders(name))
        one = (Etcdctl if isinstance(store.server, servers.Etcd) else Kazoo)(store, name)
        made.append(one)
        assert until(lambda: len(store.contenders(name)) == before + 1, PATIENCE_S)
        return one

    yield make
    for one in made:
        one.leave()


MakeForeign = Callable[..., ForeignNode]


def test_ours_waits_for_theirs(world: World, foreign: MakeForeign) -> None:
    ours = world.client()
    other = foreign()
    assert other.holds(PATIENCE_S)
    assert ours.try_acquire(NAME) is None
    waiting = ours.queue_up(NAME)
    assert not waiting.wait(0.3)
    other.leave()
    assert ours.verify(waiting.result(6))


def test_theirs_does_not_wait_for_idle_clients_of_a_root_inside(
    world: World, store: ServerStore, foreign: MakeForeign
) -> None:
    idle = world.client(url=store.below("app"))
    assert foreign("app").holds(PATIENCE_S)
    assert idle.client.session.id is not None


def test_theirs_waits_for_ours(world: World, foreign: MakeForeign) -> None:
    ours = world.client()
    grant = ours.acquire(NAME)
    other = foreign()
    assert not other.holds(0.3)
    assert ours.release(grant)
    assert other.holds(PATIENCE_S)
    assert ours.try_acquire(NAME) is None


def test_a_mixed_queue_is_served_in_order(world: World, foreign: MakeForeign) -> None:
    a, b = world.client(), world.client()
    grant = a.acquire(NAME)
    second, third, fourth = foreign(), b.queue_up(NAME), foreign()
    fifth = a.queue_up(NAME)
    a.release(grant)
    assert second.holds(PATIENCE_S)
    assert not third.done
    second.leave()
    grant = third.result()
    assert not fourth.holds(0.1)
    b.release(grant)
    assert fourth.holds(PATIENCE_S)
    assert not fifth.done
    fourth.leave()
    assert a.verify(fifth.result())


def test_one_of_theirs_that_gives_up_in_the_middle_holds_up_nobody(
    world: World, foreign: MakeForeign
) -> None:
    a, b = world.client(), world.client()
    grant = a.acquire(NAME)
    other, last = foreign(), b.queue_up(NAME)
    other.leave()
    assert not last.wait(0.2)
    a.release(grant)
    assert last.result(6).held
