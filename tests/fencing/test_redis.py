"""What the gate for Redis makes of a connection that breaks, and of another holder that comes in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

    def _answer(self, found: Any = None) -> Any:
        async def answered() -> Any:
            return found

        return answered() if self._asynchronous else found

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
        if self.meets:
            self.meets.pop(0)()
        return self._answer([1, 5])


def changed() -> None:
    raise WatchError("Watched variable changed.")


def broken() -> None:
    """As redis-py says it: the commands may have been run."""
    error = WatchError("A ConnectionResetError occurred while watching one or more keys")
    error.__context__ = ConnectionResetError("reset by peer")
    raise error


@pytest.fixture(params=["blocking", "asyncio"])
def transaction(request: pytest.FixtureRequest) -> Any:
    def carried_out(*meets: Callable[[], None]) -> tuple[Any, Pipe]:
        asynchronous = request.param == "asyncio"
        pipe = Pipe([*meets], asynchronous=asynchronous)
        client = type("Client", (), {"pipeline": pipe})
        if asynchronous:
            return asyncio.run(AsyncRedisGate(client).transaction("r", 7, Pipe.incr)), pipe  # type: ignore[arg-type]
        return RedisGate(client).transaction("r", 7, Pipe.incr), pipe

    return carried_out


def test_where_another_holder_came_in_between_it_is_begun_again(transaction: Any) -> None:
    found, pipe = transaction(changed, changed)
    assert (found, pipe.queued) == ([5], 3)


def test_where_the_connection_broke_it_is_not_begun_again(transaction: Any) -> None:
    """The commands may have been run, and were once more."""
    with pytest.raises(ConnectionResetError, match="reset by peer"):
        transaction(broken)
