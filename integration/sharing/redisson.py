"""Redisson's ``RLock``, by what its scripts do: a hash at the key, with a count for each client and thread.

It was read in ``RedissonLock.java``: EXISTS, HEXISTS, HINCRBY and PEXPIRE take it; HINCRBY, DEL and a message
on a channel release it.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

__all__ = ["RLock"]

TAKE = """
local mine = redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
if not mine then return redis.call('PTTL', KEYS[1]) end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return false
"""

GIVE_BACK = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
local left = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if left > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], 0)
end
return left
"""


class RLock:
    """One thread's re-entrant lock; it waits on a channel, and for the time that the key has left."""

    def __init__(self, server: Any, name: str, ttl_s: float) -> None:
        self._server = server
        self._keys = (name, f"redisson_lock__channel:{{{name}}}")
        self._owner = f"{uuid.uuid4()}:1"
        self._ttl_ms = int(ttl_s * 1000)

    def acquire(self, timeout_s: float) -> bool:
        """Take it, or wait.

        Raises:
            redis.ResponseError: WRONGTYPE, the key holds no hash.
        """
        end = time.monotonic() + timeout_s
        if self._take() is None:
            return True
        with self._server.pubsub() as listening:
            listening.subscribe(self._keys[1])
            while (left_ms := self._take()) is not None:
                left_s = end - time.monotonic()
                if left_s <= 0:
                    return False
                listening.get_message(timeout=min(left_s, left_ms / 1000 if left_ms >= 0 else left_s))
        return True

    def release(self) -> bool:
        """Whether it was still its own."""
        return self._server.eval(GIVE_BACK, 2, *self._keys, self._owner, self._ttl_ms) is not None

    def _take(self) -> int | None:
        left_ms: int | None = self._server.eval(TAKE, 1, self._keys[0], self._owner, self._ttl_ms)
        return left_ms
