"""Ours and another program's lock meet on one key: who waits for whom, and until when."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import pytest
import redis

import recipes
from integration import servers
from integration.faults.actors import PATIENCE_S, Actor, Held, actor
from integration.sharing.others import Other

__all__ = [
    "SOON_S",
    "Ground",
    "Waiting",
    "end_of_theirs",
    "fresh",
    "ours_beside",
    "side_of",
    "start",
    "still_waits",
    "theirs_beside",
]

SHORT_S = 0.2
SESSION_S = 120.0
SOON_S = 20.0  # what is granted sooner was not found by the client's own rereading, which begins after 28 s


def side_of(client: Any, name: str, side: str) -> Any:
    """Return a lock of ours, or a side of one."""
    return client.lock(name) if side == "Lock" else getattr(client.rwlock(name), side)


def start(method: Callable[..., Any], *args: Any) -> Future[Any]:
    """Call it in a thread of its own."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(method(*args))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="other").start()
    return future


@dataclass
class Waiting:
    """A call of ours that waits.

    Attributes:
        future: Its outcome.
        at: When that came, on the clock `time.perf_counter`; 0 before.
    """

    owner: Actor
    future: Future[Any]
    at: float = 0.0

    def __post_init__(self) -> None:
        self.future.add_done_callback(self._stamp)

    def _stamp(self, _: Future[Any]) -> None:
        self.at = time.perf_counter()

    def granted(self, within_s: float = PATIENCE_S) -> Held:
        """Return the grant, once it is there."""
        return Held(self.owner, self.future.result(within_s))


class Ground:
    """Three clients of ours on one server or cluster, in one API; and contenders of others."""

    def __init__(self, server: servers.Redis | servers.RedisCluster, api: str) -> None:
        self.server = server
        self.api = api
        self._open = contextlib.ExitStack()
        self._actors: dict[tuple[str, int], Actor] = {}

    def node(self, key: str) -> servers.Redis:
        """Return the server that has a key."""
        return self.server.master_of(key) if isinstance(self.server, servers.RedisCluster) else self.server

    @cached_property
    def operator(self) -> Any:
        """Return a client of redis-py."""
        return self._open.enter_context(self.node("").client())

    def actor(self, prefix: str, number: int = 0) -> Actor:
        """Return a client whose keys begin with a prefix."""
        if (prefix, number) not in self._actors:
            options = {"session_timeout": SESSION_S, "restart_grace": 0}
            self._actors[prefix, number] = self.connect(prefix, **options)
        return self._actors[prefix, number]

    def connect(self, prefix: str = "lock:", **options: Any) -> Actor:
        """Return a client of its own."""
        one = actor(self.api, self.server.url(), prefix=prefix, **{**self.server.options, **options})
        self._open.callback(one.close)
        return one

    @contextlib.contextmanager
    def other(self, kind: type[Other], name: str, ttl_s: float = 60.0) -> Iterator[Other]:
        """Yield a contender of theirs; what it holds at the end is left behind, as by a crash."""
        one = kind(self.node(kind.prefix + name), name, ttl_s)
        try:
            yield one
        finally:
            one.close()

    def acquire(self, one: Actor, name: str, side: str = "Lock", *, within_s: float = PATIENCE_S) -> Held:
        """Acquire, as a client of ours."""
        return Held(one, one.call(side_of(one.client, name, side).acquire, timeout=within_s))

    def try_acquire(self, one: Actor, name: str, side: str = "Lock") -> Held | None:
        """Try, as a client of ours."""
        grant = one.call(side_of(one.client, name, side).try_acquire)
        return None if grant is None else Held(one, grant)

    def queue(self, one: Actor, name: str, side: str = "Lock", *, behind: int) -> Waiting:
        """Have a client of ours wait; it waits, behind so many, when this returns."""
        lock = side_of(one.client, name, side)
        waiting = Waiting(one, one.start(lock.acquire, timeout=PATIENCE_S))
        self.queued(one, name, behind + 1)
        return waiting

    def queued(self, one: Actor, name: str, count: int) -> None:
        """Wait until the queue is so long, strangers included."""
        lock = one.client.lock(name)
        right = servers.eventually(lambda: len(one.call(lock.contenders)) == count, PATIENCE_S, every_s=0.01)
        assert right, f"{count} contenders should stand: {one.call(lock.contenders)}"

    def free(self, key: str) -> None:
        """See that nothing is at the key."""
        assert not self.node(key).ask("EXISTS", key)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def fresh(*parts: object) -> str:
    """Return a name that no other lock has."""
    return "/".join((*map(str, parts), uuid.uuid4().hex[:8]))


def still_waits(future: Future[Any]) -> bool:
    """Whether a call has not returned for a moment."""
    return not concurrent.futures.wait([future], SHORT_S).done


def theirs_beside(ground: Ground, kind: type[Other], side: str) -> str:
    """Have them come while ours holds; returns how they fared."""
    name = fresh(kind.__name__, side)
    ours = ground.actor(kind.prefix)
    with ground.other(kind, name, 1) as theirs:
        grant = ground.acquire(ours, name, side)
        try:
            got = theirs.acquire(0)
        except redis.ResponseError:  # WRONGTYPE
            assert grant.verify()
            assert grant.release()
            assert theirs.acquire(0)
            return "raises an error"
        if got:
            assert grant.verify()
            assert grant.release()
            return "**does not wait**"
        waiting = start(theirs.acquire, PATIENCE_S)
        assert still_waits(waiting) or not waiting.result(), "it got in beside ours"
        assert grant.verify()
        assert grant.release()
        while not waiting.result(PATIENCE_S):  # it gave up in the moment of the release
            waiting = start(theirs.acquire, PATIENCE_S)
        return "waits"


def ours_beside(ground: Ground, kind: type[Other], side: str) -> str:
    """Have ours come while they hold; returns how ours fared."""
    name = fresh(kind.__name__, side)
    ours = ground.actor(kind.prefix)
    before = ground.acquire(ours, name, side)
    assert before.release()
    with ground.other(kind, name) as theirs:
        assert theirs.acquire(0)
        if (grant := ground.try_acquire(ours, name, side)) is not None:
            assert grant.verify()
            assert grant.release()
            return "**does not wait**"
        with pytest.raises(recipes.LockTimeout):
            ours.call(side_of(ours.client, name, side).acquire, timeout=SHORT_S)
        waiting = ground.queue(ours, name, side, behind=1)
        assert still_waits(waiting.future)
        assert theirs.release()
        grant = waiting.granted(SOON_S)
        assert grant.token > before.token
        assert not theirs.release()  # it deletes nothing of ours
        assert grant.verify()
        assert grant.release()
        ground.free(theirs.key)
        return "waits"


def end_of_theirs(ground: Ground, kind: type[Other], side: str) -> float:
    """Have them die while ours waits; returns how long after they took it ours was granted."""
    name = fresh(kind.__name__, side)
    ours = ground.actor(kind.prefix)
    with ground.other(kind, name, 1) as theirs:
        took_at = time.perf_counter()
        assert theirs.acquire(0)
    lock = side_of(ours.client, name, side)
    waiting = Waiting(ours, ours.start(lock.acquire, timeout=PATIENCE_S))  # in time or not: it shows how long
    grant = waiting.granted(SOON_S)
    assert grant.verify()
    assert grant.release()
    return waiting.at - took_at
