"""Programs that lock on several Redis servers, beside ``redlock://`` on the same, both ways."""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import pottery
import pytest
import redis
import redlock

import recipes
from integration import servers
from integration.harness.process import eventually
from integration.needing import needed
from integration.redlock.store import url_to
from integration.sharing.redisson import RLock
from recipes import LockTimeout

TURNS = 10


class Theirs(ABC):
    """One contender of another program, on all servers."""

    prefix: ClassVar[str] = "lock:"

    def __init__(self, clients: Sequence[Any], name: str, ttl_s: float) -> None:
        self.clients, self.name, self.ttl_s = clients, name, ttl_s
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Make what its library wants to have been made."""

    @abstractmethod
    def acquire(self) -> bool:
        """Try once."""

    @abstractmethod
    def release(self) -> None:
        """Release what it has."""


class RedlockPy(Theirs):
    """redlock-py."""

    def prepare(self) -> None:
        self._lock = redlock.Redlock(self.clients, retry_count=1, retry_delay=0.001)
        self._held: Any = None

    def acquire(self) -> bool:
        self._held = self._lock.lock(self.prefix + self.name, int(self.ttl_s * 1000))
        return bool(self._held)

    def release(self) -> None:
        self._lock.unlock(self._held)


class Pottery(Theirs):
    """pottery's Redlock."""

    prefix = "redlock:"

    def prepare(self) -> None:
        masters = frozenset(self.clients)
        self._lock = pottery.Redlock(key=self.name, masters=masters, auto_release_time=self.ttl_s)

    def acquire(self) -> bool:
        return bool(self._lock.acquire(blocking=False))

    def release(self) -> None:
        self._lock.release()


class RedissonRedLock(Theirs):
    """Redisson's: its ``RLock`` on each server; one that raises is one that it did not get.

    Read in ``RedissonMultiLock.java`` (``tryLock``) and ``RedissonRedLock.java``.
    """

    def prepare(self) -> None:
        self._locks = [RLock(one, self.prefix + self.name, self.ttl_s) for one in self.clients]
        self._got: list[RLock] = []

    def acquire(self) -> bool:
        for one in self._locks:
            with contextlib.suppress(redis.ResponseError):
                if one.acquire(0):
                    self._got.append(one)
        if len(self._got) > len(self._locks) // 2:
            return True
        self.release()
        return False

    def release(self) -> None:
        while self._got:
            self._got.pop().release()


KINDS = pytest.mark.parametrize("kind", [RedlockPy, Pottery, RedissonRedLock], ids=lambda kind: kind.__name__)


@pytest.fixture(scope="module")
def five() -> Iterator[list[servers.Redis]]:
    """Yield five independent servers."""
    with contextlib.ExitStack() as running:
        yield [needed("redis-7", lambda: running.enter_context(servers.redis())) for _ in range(5)]


@pytest.fixture(scope="module")
def clients(five: list[servers.Redis]) -> Iterator[list[Any]]:
    """Yield a client of redis-py for each."""
    with contextlib.ExitStack() as opened:
        yield [opened.enter_context(redis.Redis(one.host, one.port)) for one in five]


def connected(five: list[servers.Redis], kind: type[Theirs]) -> recipes.Client:
    """Return a client of ours for their keys."""
    return recipes.connect(
        url_to(five, "").removesuffix("/"), prefix=kind.prefix, restart_grace=0, session_timeout=5
    )


@KINDS
def test_either_waits_for_the_other(
    five: list[servers.Redis], clients: list[Any], kind: type[Theirs], prefix: str
) -> None:
    theirs = kind(clients, prefix, 60)
    with connected(five, kind) as client:
        lock = client.lock(prefix)
        with lock:
            assert not theirs.acquire()
        assert theirs.acquire()
        assert lock.try_acquire() is None
        with pytest.raises(LockTimeout):
            lock.acquire(timeout=0.3)
        releasing = threading.Timer(0.3, theirs.release)
        releasing.start()
        with lock.acquire(timeout=30) as grant:
            assert grant.held
        releasing.join()
        assert theirs.acquire(), "nothing of ours is left"
        theirs.release()


@KINDS
def test_what_they_left_is_taken_when_its_time_is_over(
    five: list[servers.Redis], clients: list[Any], kind: type[Theirs], prefix: str
) -> None:
    with connected(five, kind) as client:
        before = client.lock(prefix).acquire(timeout=30)
        assert before.release()
        assert kind(clients, prefix, 1.0).acquire()
        with client.lock(prefix).acquire(timeout=30) as grant:
            assert grant.token > before.token


@KINDS
def test_they_take_turns(
    five: list[servers.Redis], clients: list[Any], kind: type[Theirs], prefix: str
) -> None:
    inside, most, turns, errors = 0, 0, 0, []

    def enter() -> None:
        nonlocal inside, most, turns
        inside += 1
        most = max(most, inside)
        time.sleep(0.002)
        turns += 1
        inside -= 1

    def ours() -> None:
        with connected(five, kind) as client:
            for _ in range(TURNS):
                with client.lock(prefix).acquire(timeout=120):
                    enter()

    def theirs() -> None:
        one = kind(clients, prefix, 60)
        for _ in range(TURNS):
            assert eventually(one.acquire, 120, every_s=0.003)
            enter()
            one.release()

    def noted(work: Any) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=noted, args=(one,)) for one in (ours, ours, theirs, theirs)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert errors == []
    assert (most, turns) == (1, 4 * TURNS)
