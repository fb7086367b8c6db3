"""A gate for what a Redis server holds: a few lines before the script, or the transaction, that writes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict
from inspect import isawaitable, iscoroutine
from typing import Any

from recipes._callback import is_coroutine_function, named
from recipes._rules.fence import FIELDS, Pass, Proof, Seen, ask

__all__ = ["AsyncRedisGate", "RedisGate"]

LUA = """
local KEYS, ARGV, fence, asking = (function(keys, given)
  local k, a = {}, {}
  for i = 2, #keys do k[i - 1] = keys[i] end
  for i = 5, #given do a[i - 4] = given[i] end
  return k, a, keys[1], given
end)(KEYS, ARGV)
local refused = (function(token, floor, ...)
  local function less(a, b) return #a < #b or (#a == #b and a < b) end
  local seen = {}
  for _, field in ipairs({'newest', 'writer'}) do seen[field] = redis.call('HGET', fence, field) or '0' end
  if less(token, seen[floor]) then
    return redis.error_reply('STALETOKEN ' .. seen.newest .. ' ' .. seen.writer)
  end
  for _, field in ipairs({...}) do
    if field ~= '' and not less(token, seen[field]) then redis.call('HSET', fence, field, token) end
  end
end)(asking[1], asking[2], asking[3], asking[4])
if refused then return refused end
"""
PRELUDE = re.sub(r"\s+", " ", LUA)
"""Goes before a script of the user's, on its first line: errors name the right one.

Tokens are compared as text, for Lua's numbers are exact up to 2**53 only.
"""
REFUSED = re.compile(r"STALETOKEN (\d+) (\d+)")


class _BaseRedisGate:
    """What both APIs share."""

    def __init__(self, client: Any, *, prefix: str = "fence:") -> None:
        """Use a client; no I/O.

        Args:
            client: Of redis-py, or what is like it.
            prefix: What the keys of the gate begin with; the resource's name follows.
        """
        self._client = client
        self._prefix = prefix

    def key(self, resource: str) -> str:
        """Return the key of what the gate has seen for a resource.

        Args:
            resource: Its name.
        """
        return f"{self._prefix}{resource}"

    def _script(self, script: str) -> Any:
        return self._client.register_script(f"{PRELUDE} {script}")

    def _asked(self, asking: Pass, keys: Iterable[Any], args: Iterable[Any]) -> dict[str, list[Any]]:
        """Return what goes before the user's own keys and arguments."""
        raised = (*asking.rule.raises, "")[:2]
        return {
            "keys": [self.key(asking.name), *keys],
            "args": [str(asking.token), asking.rule.floor, *raised, *args],
        }


class RedisGate(_BaseRedisGate):
    """A gate for what a Redis server holds, through a client of redis-py.

    What it has seen is a hash beside the data, ``fence:<resource>``: it must not expire nor
    be evicted, and on a cluster it has to lie where the data does (a resource named
    ``{reports}`` lies with all keys of that tag).
    """

    def eval(
        self,
        resource: str,
        grant: Proof,
        script: str,
        *,
        keys: Iterable[Any] = (),
        args: Iterable[Any] = (),
        shared: bool = False,
    ) -> Any:
        """Run a script of yours on the server, unless the token is stale; one round trip.

        Args:
            resource: The name of what is written or read, up to 255 characters.
            grant: A grant, or a token.
            script: In Lua, as for ``EVAL``: its ``KEYS`` and ``ARGV`` are yours alone.
            keys: Its keys.
            args: Its arguments.
            shared: As a reader: the script writes nothing.

        Returns:
            What the script returns.

        Raises:
            StaleToken: A later holder was there before; the script did not run.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant asks to write; a bad name or token.
            Exception: What the client raises.
        """
        asking = ask(resource, grant, shared=shared)
        with _judged(asking):
            return self._script(script)(**self._asked(asking, keys, args))

    def transaction(
        self, resource: str, grant: Proof, write: Callable[[Any], object], *, shared: bool = False
    ) -> list[Any]:
        """Run commands of yours as one MULTI, unless the token is stale; three round trips.

        Args:
            resource: The name of what is written or read, up to 255 characters.
            grant: A grant, or a token.
            write: Called with a pipeline, on which it calls commands; again if another holder
                came in between. A plain function, which awaits nothing.
            shared: As a reader: the commands write nothing.

        Returns:
            The answers to the commands.

        Raises:
            StaleToken: A later holder was there before; no command was run.
            LockLost: The grant is lost, or released.
            TooWeak: The grant has no token.
            ValueError: A shared grant asks to write; a bad name or token.
            TypeError: ``write`` is a coroutine function, or returns an awaitable; no command was run.
            Exception: What the client raises. Where the connection broke, the commands were run, or not.
        """
        if is_coroutine_function(write):
            raise _nobody_awaits(write)
        asking = ask(resource, grant, shared=shared)
        key, handled = self.key(resource), sys.exception()
        with self._client.pipeline(True) as pipe:
            while True:
                try:
                    pipe.watch(key)
                    _queue(pipe, key, _remembered(pipe.hmget(key, FIELDS)).after(asking), write)
                    return _answers(pipe.execute())
                except Exception as error:
                    if not _came_between(error, handled):
                        raise


class AsyncRedisGate(_BaseRedisGate):
    """Same as `RedisGate`, but for a client of ``redis.asyncio``."""

    async def eval(
        self,
        resource: str,
        grant: Proof,
        script: str,
        *,
        keys: Iterable[Any] = (),
        args: Iterable[Any] = (),
        shared: bool = False,
    ) -> Any:
        """Same as `RedisGate.eval`, but awaits."""
        asking = ask(resource, grant, shared=shared)
        with _judged(asking):
            return await self._script(script)(**self._asked(asking, keys, args))

    async def transaction(
        self, resource: str, grant: Proof, write: Callable[[Any], object], *, shared: bool = False
    ) -> list[Any]:
        """Same as `RedisGate.transaction`, but awaits; ``write`` is a plain function."""
        if is_coroutine_function(write):
            raise _nobody_awaits(write)
        asking = ask(resource, grant, shared=shared)
        key, handled = self.key(resource), sys.exception()
        async with self._client.pipeline(True) as pipe:
            while True:
                try:
                    await pipe.watch(key)
                    _queue(pipe, key, _remembered(await pipe.hmget(key, FIELDS)).after(asking), write)
                    return _answers(await pipe.execute())
                except Exception as error:
                    if not _came_between(error, handled):
                        raise


@contextmanager
def _judged(asking: Pass) -> Generator[None, None, None]:
    """Turn the script's refusal, which each client wraps in an error of its own, into ours."""
    try:
        yield
    except Exception as error:
        refused = REFUSED.match(str(error))
        if refused is None:
            raise
        seen = _remembered(refused.groups())
    else:
        return
    seen.after(asking)
    raise AssertionError(f"{seen} should refuse {asking}, as the script did")


def _remembered(found: Iterable[Any]) -> Seen:
    return Seen(*(int(number or 0) for number in found))


def _queue(pipe: Any, key: str, seen: Seen, write: Callable[[Any], object]) -> None:
    pipe.multi()
    pipe.hset(key, mapping=asdict(seen))
    returned = write(pipe)
    if isawaitable(returned) and not isinstance(returned, type(pipe)):  # that of redis.asyncio is one itself
        if iscoroutine(returned):
            returned.close()
        raise _nobody_awaits(write)


def _nobody_awaits(write: Any) -> TypeError:
    return TypeError(
        f"write calls commands on the pipeline, and {named(write)} is a coroutine function, or returns an"
        " awaitable, which nobody awaits: nothing would be written; make it a plain function"
    )


def _came_between(error: Exception, handled: BaseException | None) -> bool:
    """Return whether another holder did; raises what broke the connection, of which the client says the same.

    redis-py's own loop (`Redis.transaction`) goes on then, though the commands may have been run: twice.

    Args:
        error: What the client raised.
        handled: What the caller was handling as it called. Python makes it the context of an error that has
            no other, so it says nothing of the connection.
    """
    if type(error).__name__ != "WatchError":  # of whichever client
        return False
    broke = error.__context__
    if isinstance(broke, Exception) and broke is not handled:
        raise broke from None
    return True


def _answers(answers: Any) -> list[Any]:
    return list(answers)[1:]  # the first is the gate's own
