"""What a lock decorates, and what it refuses."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

import recipes


async def coroutine_function() -> None:
    """Return at the first await."""


def plain() -> None:
    """Return at once."""


def generator() -> Iterator[int]:
    """Run its body later."""
    yield 1


async def async_generator() -> AsyncIterator[int]:
    """Run its body later."""
    yield 1


class Called:
    async def __call__(self) -> None:
        """Be called as a coroutine function."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (coroutine_function, "connect_async"),
        (partial(coroutine_function), "connect_async"),
        (Called(), "connect_async"),
        (generator, "generator"),
        (async_generator, "generator"),
        (None, "decorates a function"),
        (int, "decorates a function"),
        (staticmethod(coroutine_function), "connect_async"),
        (classmethod(lambda kind: None), "decorates a function"),
    ],
)
def test_what_the_blocking_api_cannot_decorate(function: Any, said: str) -> None:
    with recipes.connect("memory://") as client, pytest.raises(TypeError, match=said):
        client.lock("x")(function)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (plain, r"recipes\.connect\(\)"),
        (generator, "generator"),
        (async_generator, "generator"),
        (None, "decorates a function"),
    ],
)
def test_what_the_asyncio_api_cannot_decorate(function: Any, said: str) -> None:
    client = recipes.connect_async("memory://")
    with pytest.raises(TypeError, match=said):
        client.lock("x")(function)


def test_methods_and_what_is_already_wrapped() -> None:
    with recipes.connect("memory://") as client:
        lock = client.rlock("x")

        class Work:
            @lock
            def twice(self, number: int) -> int:
                """Double it."""
                return self.once(number) * 2

            @staticmethod
            @lock
            def once(number: int) -> int:
                return number if len(client.grants) == 2 else 0  # one of `twice`, one of its own

        assert Work().twice(2) == 4
        assert list(inspect.signature(Work.twice).parameters) == ["self", "number"]
        assert not client.grants


@pytest.mark.parametrize("recipe", ["lock", "rlock", "semaphore", "reader", "multilock"])
def test_everything_that_is_entered_decorates(recipe: str) -> None:
    makes: dict[str, Callable[[Any], Any]] = {
        "lock": lambda client: client.lock("x"),
        "rlock": lambda client: client.rlock("x"),
        "semaphore": lambda client: client.semaphore("x", 3).of(2),
        "reader": lambda client: client.rwlock("x").reader,
        "multilock": lambda client: client.multilock(client.lock("x"), client.lock("y")),
    }

    async def use() -> None:
        async with recipes.connect_async("memory://") as client:

            @makes[recipe](client)
            async def work() -> list[str]:
                return [grant.name for grant in client.grants]

            assert "x" in await work()
            assert not client.grants

    asyncio.run(use())
    with recipes.connect("memory://") as client:

        @makes[recipe](client)
        def work() -> list[str]:
            return [grant.name for grant in client.grants]

        assert "x" in work()
        assert not client.grants
