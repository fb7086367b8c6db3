"""The other programs' locks, behind one interface: each is one contender for the key of one lock."""

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import redis

from integration import servers
from integration.sharing import small_programs as small
from integration.sharing.redisson import RLock

__all__ = [
    "ALL",
    "SHARED",
    "EmptyMulti",
    "Other",
    "PythonRedisLock",
    "RedisPy",
    "Redisson",
    "SetNxPx",
    "SetnxThenExpire",
]

TTL_S = 60.0


class Other(ABC):
    """One contender of another program. Its calls block, as its own users' do.

    Attributes:
        label: How the documentation calls it, in Markdown.
        prefix: What its keys begin with, and so has to be the `prefix=` of our client.
        key: Its key.
    """

    label: ClassVar[str]
    prefix: ClassVar[str] = "lock:"

    def __init__(self, server: servers.Redis, name: str, ttl_s: float = TTL_S) -> None:
        self.name = name
        self.key = self.prefix + name
        self.ttl_s = ttl_s
        self.server: Any = redis.Redis(server.host, server.port)
        self.prepare()

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Make whatever its library wants to have been made."""

    @abstractmethod
    def acquire(self, timeout_s: float) -> bool:
        """Wait until it holds, for so long at most; 0: try once."""

    @abstractmethod
    def release(self) -> bool:
        """Release; whether it was still its own."""

    def close(self) -> None:
        """Close its connections, and release nothing: as a crash does."""
        self.server.close()


class RedisPy(Other):
    """redis-py's own lock."""

    label = "redis-py `Lock`"

    def prepare(self) -> None:
        self._lock = self.server.lock(self.key, timeout=self.ttl_s, thread_local=False)

    def acquire(self, timeout_s: float) -> bool:
        return bool(self._lock.acquire(blocking=timeout_s > 0, blocking_timeout=timeout_s))

    def release(self) -> bool:
        return _did(self._lock.release, redis.exceptions.LockError)


class RedisPyAsyncio(Other):
    """redis-py's lock for asyncio, in a loop of its own."""

    label = "redis-py `asyncio.Lock`"

    def prepare(self) -> None:
        kwargs = self.server.get_connection_kwargs()
        self._runner = asyncio.Runner()
        self._client: Any = redis.asyncio.Redis(host=kwargs["host"], port=kwargs["port"])
        self._lock = self._client.lock(self.key, timeout=self.ttl_s, thread_local=False)

    def acquire(self, timeout_s: float) -> bool:
        return bool(self._runner.run(self._lock.acquire(blocking=timeout_s > 0, blocking_timeout=timeout_s)))

    def release(self) -> bool:
        return _did(lambda: self._runner.run(self._lock.release()), redis.exceptions.LockError)

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        super().close()


class PythonRedisLock(Other):
    """python-redis-lock, whose waiters sleep in BLPOP until a release of its own, or for ``expire``."""

    label = "python-redis-lock `Lock`"

    def prepare(self) -> None:
        import redis_lock

        self._lock = redis_lock.Lock(self.server, self.name, expire=math.ceil(self.ttl_s))

    def acquire(self, timeout_s: float) -> bool:
        if not timeout_s:
            return bool(self._lock.acquire(blocking=False))
        return bool(self._lock.acquire(timeout=math.ceil(min(timeout_s, self.ttl_s))))

    def release(self) -> bool:
        import redis_lock

        return _did(self._lock.release, redis_lock.NotAcquired)


class RedlockPy(Other):
    """redlock-py on one server."""

    label = "redlock-py `Redlock`, one server"

    def prepare(self) -> None:
        import redlock

        self._every_s = 0.01
        self._redlock = redlock.Redlock([self.server])
        self._held: Any = None

    def acquire(self, timeout_s: float) -> bool:
        self._redlock.retry_count = 1 + int(timeout_s / self._every_s)
        self._redlock.retry_delay = self._every_s
        self._held = self._redlock.lock(self.key, int(self.ttl_s * 1000))
        return bool(self._held)

    def release(self) -> bool:
        mine = self.server.get(self.key) == self._held.key
        self._redlock.unlock(self._held)
        return bool(mine)


class Pottery(Other):
    """pottery's Redlock on one server; it puts ``redlock:`` before its keys."""

    label = "pottery `Redlock`, one server"
    prefix = "redlock:"

    def prepare(self) -> None:
        import pottery

        self._lock = pottery.Redlock(key=self.name, masters={self.server}, auto_release_time=self.ttl_s)

    def acquire(self, timeout_s: float) -> bool:
        if not timeout_s:
            return bool(self._lock.acquire(blocking=False))
        return bool(self._lock.acquire(timeout=timeout_s))

    def release(self) -> bool:
        import pottery

        return _did(self._lock.release, pottery.ReleaseUnlockedLock)


class Small(Other):
    """A program of a few lines."""

    value = ""

    @abstractmethod
    def take(self, timeout_s: float) -> str | None:
        """Return the value that it set, or None."""

    def acquire(self, timeout_s: float) -> bool:
        taken = self.take(timeout_s)
        self.value = taken or ""
        return taken is not None

    def release(self) -> bool:
        return small.release_by_script(self.server, self.key, self.value)


class SetNxPx(Small):
    """SET NX PX, and a script that compares and deletes."""

    label = "`SET NX PX`, deleted by a script"

    def take(self, timeout_s: float) -> str | None:
        return small.set_nx_px(self.server, self.key, self.ttl_s, timeout_s)


class SetNxPxWatch(SetNxPx):
    """SET NX PX, released by a transaction."""

    label = "`SET NX PX`, deleted by `WATCH`, `MULTI`, `EXEC`"

    def release(self) -> bool:
        return small.release_by_watch(self.server, self.key, self.value)


class SetnxThenExpire(Small):
    """SETNX, EXPIRE, and waiters that expire the key if TTL says 0."""

    label = "`SETNX`, then `EXPIRE`; waiters `EXPIRE` if `TTL` is 0"

    prolonged: Callable[[], None] = staticmethod(lambda: None)

    def take(self, timeout_s: float) -> str | None:
        return small.setnx_then_expire(self.server, self.key, self.ttl_s, timeout_s, self.prolonged)


class EntersAgain(Other):
    """A script that enters once more, if the value is its own."""

    label = "re-entrant by a script"

    def acquire(self, timeout_s: float) -> bool:
        value = f"worker-{id(self)}"
        return small.enter_again(self.server, self.key, value, self.ttl_s, timeout_s) is not None

    def release(self) -> bool:
        return small.enter_less(self.server, self.key, f"worker-{id(self)}") == 0


class EmptyMulti(Other):
    """WATCH, and an EXEC of nothing."""

    label = "`WATCH`, an empty `MULTI`, `EXEC`"

    def acquire(self, timeout_s: float) -> bool:
        return small.empty_multi(self.server, self.key, timeout_s)

    def release(self) -> bool:
        return True


class Redisson(Other):
    """Redisson's ``RLock``: a hash at the key."""

    label = "Redisson `RLock`"

    def prepare(self) -> None:
        self._lock = RLock(self.server, self.key, self.ttl_s)

    def acquire(self, timeout_s: float) -> bool:
        return self._lock.acquire(timeout_s)

    def release(self) -> bool:
        try:
            return self._lock.release()
        except redis.ResponseError:  # WRONGTYPE: ours holds
            return False


SHARED: tuple[type[Other], ...] = (
    RedisPy,
    RedisPyAsyncio,
    PythonRedisLock,
    RedlockPy,
    Pottery,
    SetNxPx,
    SetNxPxWatch,
    SetnxThenExpire,
    EntersAgain,
)
"""Those that share a lock with ours."""

ALL: tuple[type[Other], ...] = (*SHARED, Redisson, EmptyMulti)


def _did(release: Callable[[], Any], refused: type[Exception]) -> bool:
    with contextlib.suppress(refused):
        release()
        return True
    return False
