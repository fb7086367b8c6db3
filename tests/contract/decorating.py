"""What programs expect of a lock beside `acquire`: a decorator, `locked`, and an error for ``blocking=``."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.contract.world import LONG, Party, World


def decorated(party: Party, decorator: Any, body: Any) -> Any:
    """Return a function of either API around which is ``decorator``; its body runs as the party's own."""
    if not party.api.is_async:

        @decorator
        def work(first: int, *, second: int) -> Any:
            """Do it."""
            return body(first, second)

        return work

    @decorator
    async def work_async(first: int, *, second: int) -> Any:
        """Do it."""
        return body(first, second)

    return work_async


class Decorating:
    """A lock around a function, and whether it is free."""

    def test_each_call_of_a_decorated_function_holds_it(self, world: World) -> None:
        a = world.client(**LONG)
        lock = a.client.lock("x")
        seen: list[tuple[int, int, int]] = []

        def body(first: int, second: int) -> str:
            seen.append((first, second, len(a.client.grants)))
            if second == 4:
                raise KeyError(second)
            return "done"

        work = decorated(a, lock, body)
        assert work.__doc__ == "Do it."
        assert work.__name__.startswith("work")
        for second in (2, 3):
            assert a.api.do(lambda second=second: work(1, second=second)) == "done"
        with pytest.raises(KeyError):
            a.api.do(lambda: work(1, second=4))
        assert seen == [(1, 2, 1), (1, 3, 1), (1, 4, 1)]
        assert not a.client.grants
        assert world.heard.names(name="x") == ["lock.acquired", "lock.released"] * 3

    def test_a_decorated_function_waits_for_its_turn(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        grant = a.acquire("x")
        work = decorated(b, b.client.lock("x"), lambda first, second: first + second)
        running = b.api.start(lambda: work(1, second=2))
        world.heard.wait("lock.queued", name="x")
        assert not running.done
        a.release(grant)
        assert running.result() == 3

    def test_what_runs_after_its_call_is_refused(self, world: World) -> None:
        """It would run without the lock."""

        class Rows:
            def __call__(self) -> Iterator[int]:
                yield 1

        def rows() -> Iterator[int]:
            yield 1

        async def rows_async() -> AsyncIterator[int]:
            yield 1

        lock = world.client(is_open=False).client.lock("x")
        managers = [contextlib.contextmanager(rows), contextlib.asynccontextmanager(rows_async)]
        for function in (rows, rows_async, Rows(), *managers):
            with pytest.raises(TypeError, match="before the body runs"):
                lock(function)

    def test_a_lock_says_whether_it_is_held(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        lock = b.client.lock("x")
        assert b.api.do(lock.locked) is False
        grant = a.acquire("x")
        with b.tap.counting() as asked:
            assert b.api.do(lock.locked) is True
        assert len(asked) <= 3
        assert a.api.do(a.client.lock("x").locked) is True
        assert b.api.do(b.client.rlock("x").locked) is True
        assert b.api.do(b.client.lock("y").locked) is False
        a.release(grant)
        assert b.api.do(lock.locked) is False

    def test_a_reader_is_locked_out_by_writers_only(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        catalog = b.client.rwlock("x")
        grant = a.reader.acquire("x")
        assert b.api.do(catalog.reader.locked) is False
        assert b.api.do(catalog.writer.locked) is True
        waiting = a.writer.queue_up("x")
        assert b.api.do(catalog.reader.locked) is True
        a.release(grant)
        written = waiting.result()
        assert b.api.do(catalog.reader.locked) is True
        a.downgrade(written)
        assert b.api.do(catalog.reader.locked) is False

    def test_a_semaphore_is_locked_when_too_few_permits_are_free(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        permits = b.client.semaphore("x", 3)
        assert b.api.do(permits.locked) is False
        grant = a.api.do(lambda: a.client.semaphore("x", 3).acquire(2, timeout=10))
        assert b.api.do(permits.locked) is False
        assert b.api.do(permits.of(2).locked) is True
        a.release(grant)
        assert b.api.do(permits.of(3).locked) is False

    @pytest.mark.parametrize(
        ("given", "said"), [("blocking", "try_acquire"), ("timout", "timeout="), ("zzz", "no option")]
    )
    def test_an_unknown_option_is_refused_with_what_to_use(self, world: World, given: str, said: str) -> None:
        a = world.client(is_open=False)
        for one in (a.client.lock("x"), a.client.semaphore("x", 2), a.client.rwlock("x").reader):
            with pytest.raises(TypeError, match=said):
                a.api.do(lambda one=one: one.acquire(**{given: False}))
        assert not a.tap.asked
