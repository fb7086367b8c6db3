"""Locks on Redis as many services have written them: a try in a loop, with a short sleep.

Their flaws are part of them, and named: the tests show that ours is not harmed by them.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import redis

__all__ = [
    "empty_multi",
    "enter_again",
    "enter_less",
    "release_by_script",
    "release_by_watch",
    "repeated",
    "set_nx_px",
    "setnx_then_expire",
]

T = TypeVar("T")
Server = Any
"""A client of redis-py."""

PAUSE_S = 0.001

RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""

ENTER = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
"""

LEAVE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
local left = redis.call('HINCRBY', KEYS[2], ARGV[1], -1)
if left == 0 then redis.call('DEL', KEYS[1], KEYS[2]) end
return left
"""


def repeated(attempt: Callable[[], T | None], timeout_s: float) -> T | None:
    """Try once or more often, until it returns something, for so long at most."""
    end = time.monotonic() + timeout_s
    while (got := attempt()) is None and time.monotonic() < end:
        time.sleep(PAUSE_S)
    return got


def setnx_then_expire(
    server: Server, key: str, ttl_s: float, timeout_s: float, prolonged: Callable[[], None] = lambda: None
) -> str | None:
    """Take the key by SETNX, then EXPIRE it; a waiter does that too if TTL is 0, and calls ``prolonged``.

    Flaws: a crash between the two leaves the key for ever; TTL is rounded, and 0 in the last half second, so
    waiters put the end of a dead holder's key off again and again.
    """
    value, whole_s = str(uuid.uuid4()), math.ceil(ttl_s)

    def attempt() -> str | None:
        if server.setnx(key, value):
            server.expire(key, whole_s)
            return value
        if server.ttl(key) == 0:
            server.expire(key, whole_s)
            prolonged()
        return None

    return repeated(attempt, timeout_s)


def set_nx_px(server: Server, key: str, ttl_s: float, timeout_s: float) -> str | None:
    """Take the key and its expiry in one command. Nothing renews it."""
    value = str(uuid.uuid4())

    def attempt() -> str | None:
        return value if server.set(key, value, nx=True, px=int(ttl_s * 1000)) else None

    return repeated(attempt, timeout_s)


def release_by_script(server: Server, key: str, value: str) -> bool:
    """Delete the key if it has this value."""
    return bool(server.eval(RELEASE, 1, key, value))


def release_by_watch(server: Server, key: str, value: str) -> bool:
    """Delete the key if it has this value, by WATCH, MULTI and EXEC."""
    with server.pipeline() as pipe:
        while True:
            try:
                pipe.watch(key)
                if pipe.get(key) != value.encode():
                    return False
                pipe.multi()
                pipe.delete(key)
                return bool(pipe.execute()[0])
            except redis.WatchError:
                continue


def empty_multi(server: Server, key: str, timeout_s: float) -> bool:
    """WATCH the key, and EXEC nothing. Flaw: it always succeeds, and excludes nobody."""

    def attempt() -> bool | None:
        with server.pipeline() as pipe:
            try:
                pipe.watch(key)
                pipe.multi()
                pipe.execute()
            except redis.WatchError:
                return None
            return True

    return bool(repeated(attempt, timeout_s))


def enter_again(server: Server, key: str, value: str, ttl_s: float, timeout_s: float) -> int | None:
    """Take the key, or enter it once more if it has this value; returns how often it was entered."""

    def attempt() -> int | None:
        return server.eval(ENTER, 2, key, f"{key}:entered", value, int(ttl_s * 1000)) or None

    return repeated(attempt, timeout_s)


def enter_less(server: Server, key: str, value: str) -> int:
    """Leave once; the last one deletes the key. Returns how many are left, -1 if it is not held."""
    left: int = server.eval(LEAVE, 2, key, f"{key}:entered", value)
    return left
