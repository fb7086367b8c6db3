"""Locks of several packages behind one API, so that the same check runs on each.

A subject is one client; its `Handle` is one lock object of it, used as its documentation says.
"""

from __future__ import annotations

import contextlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import etcd3gw
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout as KazooTimeout

import recipes
from integration.harness.process import url_of

__all__ = [
    "SUBJECTS",
    "Counting",
    "Etcd3gw",
    "Handle",
    "Kazoo",
    "OursOnEtcd",
    "OursOnZooKeeper",
    "Subject",
    "Tooz",
]

PATIENCE_S = 30
TTL_S = 15


@dataclass(frozen=True)
class Counting:
    """One counter.

    Attributes:
        add: Adds one.
        get: Reads it.
    """

    add: Callable[[], object]
    get: Callable[[], int]


class Handle(ABC):
    """One lock object."""

    @abstractmethod
    def acquire(self, timeout: float | None) -> bool:
        """Wait for the lock as long as that."""

    @abstractmethod
    def try_acquire(self) -> bool:
        """Take it if it is free."""

    @abstractmethod
    def release(self) -> None:
        """Give it back."""

    @abstractmethod
    def says_held(self) -> bool:
        """Return what the object says about itself."""

    @abstractmethod
    def inside(self, body: Callable[[], None]) -> None:
        """Run ``body`` in its ``with`` statement."""

    def renew(self) -> None:  # noqa: B027 - most do it by themselves
        """Do what a user has to do to keep it."""


class Subject(ABC):
    """One client of one package.

    Attributes:
        label: How the documentation calls it, in Markdown.
        backend: Which store it is for.
        waits: It can wait at all.
        queues: Its waiters stand in a queue on the store.
        shares: It has a shared lock beside the exclusive one.
    """

    label: ClassVar[str]
    backend: ClassVar[str]
    waits: ClassVar[bool] = True
    queues: ClassVar[bool] = True
    shares: ClassVar[bool] = True

    @abstractmethod
    def __init__(self, address: str, prefix: str, ttl_s: float = TTL_S) -> None:
        """Connect to the server at ``address``."""

    @abstractmethod
    def lock(self, name: str) -> Handle:
        """Return a lock object."""

    def reader(self, name: str) -> Handle:
        """Return a shared lock object of the name."""
        raise AssertionError(f"{type(self).__name__} should not be asked for a reader of {name}")

    def counter(self, name: str) -> Counting | None:
        """Return a counter of the name; None: the package has none."""
        del name
        return None

    @abstractmethod
    def close(self) -> None:
        """End it."""


class _Ours(Subject):
    scheme: ClassVar[str]

    def __init__(self, address: str, prefix: str, ttl_s: float = TTL_S) -> None:
        self.client = recipes.connect(url_of(self.scheme, [address], prefix), session_timeout=ttl_s)
        self.client.open()

    def lock(self, name: str) -> Handle:
        return _OurHandle(self.client.lock(name))

    def reader(self, name: str) -> Handle:
        return _OurHandle(self.client.rwlock(name).reader)

    def counter(self, name: str) -> Counting:
        one = self.client.counter(name)
        return Counting(one.add, one.get)

    def close(self) -> None:
        self.client.close()


class _OurHandle(Handle):
    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._grant: recipes.Grant | None = None

    def acquire(self, timeout: float | None) -> bool:
        try:
            self._grant = self._lock.acquire(timeout=timeout)
        except recipes.LockTimeout:
            return False
        return True

    def try_acquire(self) -> bool:
        grant = self._lock.try_acquire()
        self._grant = grant or self._grant
        return grant is not None

    def release(self) -> None:
        assert self._grant is not None
        self._grant.release()

    def says_held(self) -> bool:
        return self._grant is not None and self._grant.held

    def inside(self, body: Callable[[], None]) -> None:
        with self._lock:
            body()


class OursOnZooKeeper(_Ours):
    """This package, on ZooKeeper."""

    label = "`recipes` on ZooKeeper"
    backend = "ZooKeeper"
    scheme = "zookeeper"


class OursOnEtcd(_Ours):
    """This package, on etcd."""

    label = "`recipes` on etcd"
    backend = "etcd"
    scheme = "etcd"


class Kazoo(Subject):
    """kazoo's ``Lock``; a name is the last part of its path."""

    label = "kazoo `Lock`"
    backend = "ZooKeeper"

    def __init__(self, address: str, prefix: str, ttl_s: float = TTL_S) -> None:
        self._root = f"/{prefix}"
        self.client = KazooClient(address, timeout=ttl_s)
        self.client.start(PATIENCE_S)

    def lock(self, name: str) -> Handle:
        return _KazooHandle(self.client.Lock(self._path(name)))

    def reader(self, name: str) -> Handle:
        return _KazooHandle(self.client.ReadLock(self._path(name)))

    def counter(self, name: str) -> Counting:
        one = self.client.Counter(self._path(name))
        return Counting(lambda: one.__add__(1), lambda: int(one.value))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else ""

    def close(self) -> None:
        self.client.stop()
        self.client.close()


class _KazooHandle(Handle):
    def __init__(self, lock: Any) -> None:
        self._lock = lock

    def acquire(self, timeout: float | None) -> bool:
        try:
            return bool(self._lock.acquire(timeout=timeout))
        except KazooTimeout:
            return False

    def try_acquire(self) -> bool:
        return bool(self._lock.acquire(blocking=False))

    def release(self) -> None:
        self._lock.release()

    def says_held(self) -> bool:
        return bool(self._lock.is_acquired)

    def inside(self, body: Callable[[], None]) -> None:
        with self._lock:
            body()


class Etcd3gw(Subject):
    """etcd3gw's ``Lock``, which its user keeps alive by ``refresh()``."""

    label = "etcd3gw `Lock`"
    backend = "etcd"
    waits = queues = shares = False

    def __init__(self, address: str, prefix: str, ttl_s: float = TTL_S) -> None:
        host, _, port = address.partition(":")
        self._prefix, self._ttl_s = prefix, int(ttl_s)
        self.client = etcd3gw.Etcd3Client(host, int(port), api_path="/v3/", timeout=PATIENCE_S)

    def lock(self, name: str) -> Handle:
        return _Etcd3gwHandle(self.client.lock(f"{self._prefix}/{name}" if name else "", self._ttl_s))

    def close(self) -> None:
        self.client.session.close()


class _Etcd3gwHandle(Handle):
    def __init__(self, lock: Any) -> None:
        self.inner = lock

    def acquire(self, timeout: float | None) -> bool:
        return bool(self.inner.acquire())

    def try_acquire(self) -> bool:
        return bool(self.inner.acquire())

    def release(self) -> None:
        self.inner.release()

    def says_held(self) -> bool:
        return bool(self.inner.is_acquired())

    def inside(self, body: Callable[[], None]) -> None:
        with self.inner:
            body()

    def renew(self) -> None:
        self.inner.refresh()

    @property
    def lease(self) -> str:
        """The lease of the last attempt."""
        return str(self.inner.lease.id)


class Tooz(Subject):
    """tooz's lock by its driver for etcd, which its user keeps alive by ``heartbeat()``."""

    label = "tooz on etcd"
    backend = "etcd"
    queues = shares = False

    def __init__(self, address: str, prefix: str, ttl_s: float = TTL_S) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it loads its drivers by pkg_resources
            from tooz import coordination
        url = f"etcd3+http://{address}?api_version=v3&timeout={PATIENCE_S}&lock_timeout={int(ttl_s)}"
        self._prefix = prefix
        self.coordinator = coordination.get_coordinator(url, prefix.encode())
        self.coordinator.start()

    def lock(self, name: str) -> Handle:
        full = f"/{self._prefix}/{name}".encode() if name else b""
        return _ToozHandle(self.coordinator, self.coordinator.get_lock(full))

    def close(self) -> None:
        with contextlib.suppress(Exception):  # it revokes what may be gone
            self.coordinator.stop()
        self.coordinator.client.session.close()


class _ToozHandle(Handle):
    def __init__(self, coordinator: Any, lock: Any) -> None:
        self._coordinator, self.inner = coordinator, lock

    def acquire(self, timeout: float | None) -> bool:
        from tenacity import RetryError

        try:
            return bool(self.inner.acquire(blocking=True if timeout is None else timeout))
        except RetryError:
            return False

    def acquire_by_its_timeout(self, timeout: float | None) -> bool:
        """Acquire by the parameter of that name: "timeout to acquire a lock", says the base class."""
        return bool(self.inner.acquire(timeout=timeout))

    def try_acquire(self) -> bool:
        return bool(self.inner.acquire(blocking=False))

    def release(self) -> None:
        self.inner.release()

    def says_held(self) -> bool:
        return bool(self.inner.acquired)

    def inside(self, body: Callable[[], None]) -> None:
        with self.inner:
            body()

    def renew(self) -> None:
        self._coordinator.heartbeat()

    @property
    def lease(self) -> str:
        """The lease of the last attempt."""
        return str(self.inner._lease.id)


SUBJECTS: dict[str, type[Subject]] = {
    "ours-zookeeper": OursOnZooKeeper,
    "ours-etcd": OursOnEtcd,
    "kazoo": Kazoo,
    "etcd3gw": Etcd3gw,
    "tooz": Tooz,
}
