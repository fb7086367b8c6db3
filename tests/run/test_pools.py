"""The threads of a pool, which do a bit of one work and then of another: which of it holds what."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

import pytest

from recipes import Client, WouldDeadlock
from recipes._api.leaving import ENTERED, MOST_ENTERED
from tests.run.doubles import SETTINGS, FaultyBackend

SOON_S = 30.0
KINDS: dict[str, Callable[[Client], Any]] = {
    "lock": lambda client: client.lock("x"),
    "lock.acquire": lambda client: client.lock("x").acquire(timeout=SOON_S),
    "rlock": lambda client: client.rlock("x"),
    "rlock.acquire": lambda client: client.rlock("x").acquire(timeout=SOON_S),
    "writer": lambda client: client.rwlock("x").writer,
    "semaphore": lambda client: client.semaphore("x", 1),
}


@pytest.fixture
def client() -> Iterator[Client]:
    made = Client(FaultyBackend(), SETTINGS)
    yield made
    made.close()


@pytest.fixture
def pool() -> Iterator[Pool]:
    with Pool() as made:
        yield made


class Pool(ThreadPoolExecutor):
    """One thread, which does each call in a context of its own, as ``asyncio.to_thread`` and anyio do."""

    def __init__(self) -> None:
        super().__init__(1)

    def begin(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        return self.submit(copy_context().run, call, *args)

    def do(self, call: Callable[..., Any], *args: Any) -> Any:
        return self.begin(call, *args).result(SOON_S)


def held(client: Client, kind: str) -> Iterator[Any]:
    """Hold it while it is suspended, as a dependency does for the time of a request."""
    with KINDS[kind](client) as grant:
        yield grant


@pytest.mark.parametrize("kind", KINDS)
def test_other_work_of_its_thread_waits_for_what_is_held_by_work_that_is_suspended(
    client: Client, pool: Pool, kind: str
) -> None:
    begun = held(client, kind)
    grant = pool.do(next, begun)
    lock = KINDS[kind.partition(".")[0]](client)
    assert pool.do(lock.try_acquire) is None
    waits = threading.Event()
    waiting = pool.begin(lambda: lock.acquire(timeout=SOON_S, on_queued=lambda _: waits.set()))
    assert waits.wait(SOON_S)
    assert grant.held
    begun.close()
    later = waiting.result(SOON_S)
    assert (grant.held, later.held) == (False, True)
    assert later.id != grant.id
    assert later.release()
    assert client.grants == []
    assert client._runtime.reentries == {}


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("copied", [False, True])
def test_what_a_helper_holds_for_its_caller_is_the_callers(
    client: Client, pool: Pool, copied: bool, again: bool
) -> None:
    """The statement is suspended there too; but it was entered in this context, or before that was copied."""
    entered = contextlib.contextmanager(held)

    def work() -> None:
        with entered(client, "rlock") as outer:
            if again:  # and left again: so it is held once less, and still held
                with entered(client, "rlock"), client.lock("y"):
                    pass
            inner = copy_context().run(inside, outer) if copied else inside(outer)
            assert not inner.held
            assert outer.held

    def inside(outer: Any) -> Any:
        with entered(client, "rlock") as inner:
            assert inner.token == outer.token
            with pytest.raises(WouldDeadlock):
                client.lock("x").acquire(timeout=SOON_S)
        return inner

    pool.do(work)
    pool.submit(work).result(SOON_S)
    assert pool.submit(ENTERED.get).result(SOON_S) == ()


def test_what_a_statement_on_the_stack_holds_is_the_same_works_in_any_context(client: Client) -> None:
    with client.rlock("x") as outer:
        inner = Context().run(client.rlock("x").acquire)
        assert inner.token == outer.token
        with pytest.raises(WouldDeadlock):
            Context().run(client.lock("x").acquire)


def test_what_was_acquired_without_a_block_is_the_threads(client: Client, pool: Pool) -> None:
    grant = pool.do(client.rlock("x").acquire)
    assert pool.do(client.rlock("x").acquire).token == grant.token
    with pytest.raises(WouldDeadlock):
        pool.do(client.lock("x").acquire)
    with contextlib.ExitStack() as stack:
        pool.do(stack.enter_context, client.lock("y"))
        with pytest.raises(WouldDeadlock):
            pool.do(client.lock("y").acquire)


def test_of_a_loop_that_would_block_no_task_is_let_wait_for_another(client: Client) -> None:
    async def hold() -> None:
        with client.lock("x"):
            await asyncio.sleep(SOON_S)

    async def main() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a blocking client, in a loop
            holding = asyncio.create_task(hold())
            await asyncio.sleep(0)
            with pytest.raises(WouldDeadlock):
                client.lock("x").acquire(timeout=SOON_S)
            holding.cancel()
            await asyncio.wait([holding])

    asyncio.run(main())


def test_what_is_noted_of_a_context_has_an_end(client: Client, pool: Pool) -> None:
    """A thread without contexts may enter again and again what other threads leave."""
    for _ in range(MOST_ENTERED + 3):
        begun = held(client, "lock")
        pool.submit(next, begun).result(SOON_S)
        begun.close()
    assert len(pool.submit(ENTERED.get).result(SOON_S)) == MOST_ENTERED
