"""What the gate for Redis makes of a connection that breaks, and of another holder that comes in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import pytest

from recipes.fencing import AsyncRedisGate, RedisGate


class WatchError(Exception):
    """As each client of Redis has one."""


class Pipe:
    """A pipeline; each try to run what is queued meets one of these, and then succeeds."""

    def __init__(self, meets: list[Callable[[], None]], *, asynchronous: bool) -> None:
        self.meets, self.queued, self._asynchronous = meets, 0, asynchronous

    def __call__(self, transaction: bool) -> Pipe:
        assert transaction
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __await__(self) -> Any:
        raise AssertionError("it should be run, and not awaited")

    def _answer(self, found: Any = None, meet: Callable[[], None] = lambda: None) -> Any:
        async def answered() -> Any:
            await asyncio.sleep(0)
            meet()
            return found

        if self._asynchronous:
            return answered()
        meet()
        return found

    def watch(self, key: str) -> Any:
        assert key == "fence:r"
        return self._answer()

    def hmget(self, key: str, fields: Any) -> Any:
        return self._answer([None for _ in fields])

    def multi(self) -> None:
        pass

    def hset(self, key: str, mapping: Any) -> None:
        assert mapping["newest"] == 7

    def incr(self) -> None:
        self.queued += 1

    def execute(self) -> Any:
        return self._answer([1, 5], self.meets.pop(0) if self.meets else lambda: None)


def changed() -> None:
    raise WatchError("Watched variable changed.")


def reset() -> None:
    raise ConnectionResetError("reset by peer")


def broken() -> None:
    """As redis-py says it: the commands may have been run."""
    try:
        reset()
    except ConnectionResetError:
        raise WatchError("A ConnectionResetError occurred while watching one or more keys")  # noqa: B904


@pytest.fixture(params=["blocking", "asyncio"])
def transaction(request: pytest.FixtureRequest) -> Any:
    def carried_out(
        *meets: Callable[[], None], write: Any = Pipe.incr, pipe: Pipe | None = None
    ) -> tuple[Any, Pipe]:
        asynchronous = request.param == "asyncio"
        pipe = pipe or Pipe([*meets], asynchronous=asynchronous)
        client = type("Client", (), {"pipeline": pipe})
        if asynchronous:
            return asyncio.run(AsyncRedisGate(client).transaction("r", 7, write)), pipe
        return RedisGate(client).transaction("r", 7, write), pipe

    return carried_out


def test_where_another_holder_came_in_between_it_is_begun_again(transaction: Any) -> None:
    found, pipe = transaction(changed, changed)
    assert (found, pipe.queued) == ([5], 3)


def test_where_the_connection_broke_it_is_not_begun_again(transaction: Any) -> None:
    """The commands may have been run, and were once more."""
    with pytest.raises(ConnectionResetError, match="reset by peer"):
        transaction(broken)


async def increments(pipe: Pipe) -> None:
    pipe.incr()


def test_what_nobody_would_await_is_refused_before_anything_is_asked(transaction: Any) -> None:
    """It was admitted, and wrote nothing."""
    nobody: Any = object()
    for write in (increments, partial(increments)):
        with pytest.raises(TypeError, match=r"increments.* is a coroutine function"):
            transaction(write=write, pipe=nobody)


class Promise:
    """What is awaited, and no coroutine."""

    def __await__(self) -> Any:
        raise AssertionError("nobody should")


@pytest.mark.parametrize("make", [increments, lambda pipe: Promise()])
def test_what_returns_something_to_be_awaited_is_refused_before_it_is_run(
    transaction: Any, make: Callable[[Pipe], Any]
) -> None:
    def write(pipe: Pipe) -> Any:
        return make(pipe)

    with pytest.raises(
        TypeError, match="write is a coroutine function, or returns an awaitable, which nobody"
    ):
        transaction(fail, write=write)


def test_the_pipeline_itself_may_be_returned(transaction: Any) -> None:
    """As commands on it return it; that of redis.asyncio can be awaited."""
    found, pipe = transaction(write=lambda pipe: pipe.incr() or pipe)
    assert (found, pipe.queued) == ([5], 1)


class CallersError(Exception):
    """What the caller handles as it calls: Python makes it the context of all that is raised meanwhile."""


def fail() -> None:
    raise CallersError


def in_except(call: Callable[[], Any]) -> Any:
    try:
        fail()
    except CallersError:
        return call()


def in_finally(call: Callable[[], Any]) -> Any:
    found = None
    with contextlib.suppress(CallersError):
        try:
            fail()
        finally:
            found = call()
    return found


@pytest.mark.parametrize("place", [in_except, in_finally])
def test_it_is_begun_again_also_where_the_caller_handles_an_error(transaction: Any, place: Any) -> None:
    found, pipe = place(lambda: transaction(changed, changed))
    assert (found, pipe.queued) == ([5], 3)


@pytest.mark.parametrize("place", [in_except, in_finally])
def test_what_broke_the_connection_is_told_from_what_the_caller_handles(transaction: Any, place: Any) -> None:
    with pytest.raises(ConnectionResetError, match="reset by peer"):
        place(lambda: transaction(changed, broken))
