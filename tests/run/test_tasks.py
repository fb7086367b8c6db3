"""The asyncio API and its driver on a store in memory, with faults where they hurt."""

from __future__ import annotations

import asyncio
import functools
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, Never

import pytest

from recipes._contract.wakeups import Disturbed
from recipes._programs.cleaner import Job
from recipes._run.tasks import TaskMailbox
from recipes.client import AsyncClient
from recipes.errors import (
    ClientClosed,
    LockLost,
    LockTimeout,
    StoreRefused,
    StoreUnavailable,
    WouldDeadlock,
)
from recipes.events import subscribe
from tests.run.doubles import FAST, SETTINGS, FaultyBackend
from tests.run.test_blocking import ASKED_BY_WAITERS, REMOVALS, SOON_S, cut, on, refusing, reported


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in a loop of its own, at most so long; asynchronous exceptions nobody saw are failures."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def main() -> None:
            unseen: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: unseen.append(context))
            async with asyncio.timeout(SOON_S):
                await test(*args, **kwargs)
            assert unseen == []

        asyncio.run(main())

    return run


@pytest.fixture
def backend() -> FaultyBackend:
    return FaultyBackend()


@asynccontextmanager
async def using(backend: FaultyBackend, settings: Any = SETTINGS) -> AsyncIterator[AsyncClient]:
    client = AsyncClient(backend, settings)
    try:
        yield client
    finally:
        backend.before = backend.after = lambda request: None
        await client.close()


async def until(condition: Callable[[], Any]) -> None:
    """Let everybody else run until this is so; ends by the test's own time limit."""
    while not condition():  # noqa: ASYNC110 - nobody tells, and it takes a few turns of the loop
        await asyncio.sleep(0)


async def cleaned(client: AsyncClient) -> None:
    await until(lambda: client.pending_cleanups == 0)


def lose(client: AsyncClient, reason: str = "revoked") -> None:
    client._runtime.session_gone(client._runtime.state.session, reason)  # type: ignore[arg-type]


async def queued(backend: FaultyBackend, client: AsyncClient, name: str = "x") -> asyncio.Task[Any]:
    """A waiter that has got as far as waiting."""
    waiting = asyncio.Event()
    runtime = client._runtime
    period = runtime.reread_period

    def noted(session: Any) -> float:
        waiting.set()
        return period(session)

    runtime.reread_period = noted  # type: ignore[method-assign]

    async def acquire() -> Any:
        return await client.lock(name).acquire()

    waiter = asyncio.create_task(acquire())
    await waiting.wait()
    return waiter


# The plain life of a lock.


@in_loop
async def test_acquire_and_release(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        lock = client.lock("x")
        grant = await lock.acquire()
        assert grant.held
        assert client.grants == [grant]
        assert await grant.verify()
        assert await grant.release()
        assert not await grant.release()
        assert not await grant.verify()
        assert client.grants == []
        assert backend.server.contenders() == []
        assert repr(lock) == "<AsyncLock 'x' on memory://>"


@in_loop
async def test_uncontended_is_one_request_each(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        await client.open()
        backend.asked.clear()
        await (await client.lock("x").acquire()).release()
        assert backend.asked == ["Enqueue", "Withdraw"]


@in_loop
async def test_many_tasks_one_at_a_time_in_order(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        inside: list[int] = []
        order: list[int] = []

        async def work(number: int) -> None:
            async with client.lock("x") as grant:
                inside.append(number)
                assert inside == [number]
                order.append(grant.token)
                await asyncio.sleep(0)
                inside.remove(number)

        await asyncio.gather(*(work(number) for number in range(20)))
        assert order == sorted(order)
        assert backend.server.contenders() == []


@pytest.mark.parametrize("timeout", [0, 0.0, 1.0])
@in_loop
async def test_a_timeout_leaves_nothing_behind(backend: FaultyBackend, timeout: Any) -> Never:
    async with using(backend) as client, using(backend) as other:
        await (
            await client.lock("y").acquire()
        ).release()  # to begin a session may take long on a busy machine
        grant = await other.lock("x").acquire()
        with pytest.raises(LockTimeout) as raised:
            await client.lock("x").acquire(timeout=timeout)
        assert raised.value.position == 1
        with pytest.raises(LockTimeout):
            async with client.lock("x").acquire(timeout=timeout):
                raise AssertionError("the body was entered")
        await cleaned(client)
        assert [c.ref for c in backend.server.contenders()] == [grant._hold.entry.ref]


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), True, "1"])
@in_loop
async def test_bad_timeouts_raise_before_anything_is_awaited(backend: FaultyBackend, bad: Any) -> None:
    async with using(backend) as client:
        with pytest.raises((ValueError, TypeError), match="timeout"):
            client.lock("x").acquire(timeout=bad)
        assert backend.asked == []


def test_bad_options() -> None:
    client = AsyncClient(FaultyBackend(), SETTINGS)
    with pytest.raises(ValueError, match="on_lost is 'cancel' or 'tell', not 'ignore'"):
        client.lock("x", on_lost="ignore")  # type: ignore[arg-type]


@in_loop
async def test_free_is_granted_with_any_timeout(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        for timeout in (0, 0.05, None):
            async with client.lock("x").acquire(timeout=timeout) as grant:
                assert grant.held
        assert (await client.lock("x").try_acquire()) is not None
        assert (await client.lock("x").try_acquire()) is None


@in_loop
async def test_waiting_for_oneself_is_refused(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        lock = client.lock("x")
        async with lock as grant:
            with pytest.raises(WouldDeadlock) as raised:
                await lock.acquire()
            assert raised.value.token == grant.token
            waiter = await queued(backend, client)
        await (await waiter).release()


@in_loop
async def test_open_fails_fast_and_refusals_are_raised(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        backend.before = on("Open", cut, times=10**9)
        with pytest.raises(StoreUnavailable):
            await client.open()
        with pytest.raises(LockTimeout) as raised:
            await client.lock("x").acquire(timeout=0.05)
        assert isinstance(raised.value.__cause__, StoreUnavailable)
    async with using(backend) as client:
        backend.before = on("Open", lambda: StoreRefused("memory://", "no"), times=10**9)
        for _ in range(2):
            with pytest.raises(StoreRefused):
                await client.lock("x").acquire()
        assert client._runtime._keepalive is not None
        assert not client._runtime._keepalive.done()
        backend.before = lambda request: None
        await client.open()


@in_loop
async def test_verify_in_an_outage(backend: FaultyBackend) -> None:
    async with using(backend, FAST) as client:
        grant = await client.lock("x").acquire()
        backend.before = on("Check", cut, times=10**9)
        with pytest.raises(StoreUnavailable):
            await grant.verify()


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("kind", ["Open", "Enqueue", "Withdraw", "Watch", "Check"])
@in_loop
async def test_a_lost_answer_is_no_lost_lock(backend: FaultyBackend, kind: str, where: str) -> None:
    async with using(backend) as client, using(backend) as other:
        holder = await other.lock("x").acquire()
        setattr(backend, where, on(kind, cut, times=2))
        waiter = await queued(backend, client)
        await holder.release()
        grant = await waiter
        assert await grant.verify()
        assert await grant.release()
        await cleaned(client)
        assert backend.server.contenders() == []


# Cancellation.


class Stops:
    """Has the ``number``-th request of ``task`` wait for ever, until the task is cancelled there."""

    task: asyncio.Task[Any] | None = None

    def __init__(self, number: int, *, late: bool) -> None:
        self.reached = asyncio.Event()
        self._number = number
        self._late = late

    def install(self, client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
        async def ask(connection: Any, request: Any, timeout_s: float) -> Any:
            return await self._ask(connection, request, timeout_s)

        session = client._runtime.state.session
        assert session is not None
        monkeypatch.setattr(type(session.connection), "ask", ask)

    async def _ask(self, connection: Any, request: Any, timeout_s: float) -> Any:
        if asyncio.current_task() is not self.task:
            return connection._blocking.ask(request, timeout_s)
        self._number -= 1
        reply = connection._blocking.ask(request, timeout_s) if self._late or self._number else None
        if not self._number:
            self.reached.set()
            await asyncio.Event().wait()
        return reply


@pytest.mark.parametrize("late", [False, True], ids=["before it is asked", "after it was answered"])
@pytest.mark.parametrize("number", [1, 2, 3])
@in_loop
async def test_cancelled_at_any_request_leaves_no_contender(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch, number: int, late: Any
) -> None:
    """Enqueue, watch, check."""
    async with using(backend) as client, using(backend) as other:
        holder = await other.lock("x").acquire()
        await client.open()
        stops = Stops(number, late=late)
        stops.install(client, monkeypatch)
        waiting = asyncio.Event()
        period = client._runtime.reread_period
        client._runtime.reread_period = lambda session: (waiting.set(), period(session))[1]  # type: ignore[method-assign]

        async def acquire() -> Any:
            return await client.lock("x").acquire()

        stops.task = asyncio.create_task(acquire())
        if number == 3:
            await waiting.wait()
            await holder.release()
        await stops.reached.wait()
        stops.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stops.task
        await holder.release()
        await cleaned(client)
        assert backend.server.contenders() == []
        assert client.grants == []


@in_loop
async def test_cancelled_while_waiting(backend: FaultyBackend) -> None:
    async with using(backend) as client, using(backend) as other:
        holder = await other.lock("x").acquire()
        waiter = await queued(backend, client)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await cleaned(client)
        assert len(backend.server.contenders()) == 1
        await holder.release()


@in_loop
async def test_cancelled_while_waiting_for_a_session(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        backend.before = on("Open", cut, times=10**9)
        task = asyncio.create_task(client.lock("x").acquire())
        await until(lambda: backend.asked.count("Open") > 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client._runtime.state.calls.keys() <= {client._runtime.state.keepalive}


@in_loop
async def test_cancelled_by_a_timeout_of_the_standard_library(backend: FaultyBackend) -> None:
    async with using(backend) as client, using(backend) as other:
        holder = await other.lock("x").acquire()
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.02):
                await client.lock("x").acquire()
        assert not isinstance(raised.value, LockTimeout)
        await cleaned(client)
        assert len(backend.server.contenders()) == 1
        await holder.release()


@in_loop
async def test_release_cancelled_is_settled_behind(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        stops = Stops(1, late=False)
        stops.install(client, monkeypatch)
        stops.task = asyncio.create_task(grant.release())
        await stops.reached.wait()
        stops.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stops.task
        assert not grant.held
        await cleaned(client)
        assert backend.server.contenders() == []


@in_loop
async def test_what_is_given_up_while_a_renewal_times_out_is_withdrawn(backend: FaultyBackend) -> None:
    """Until its own timeout has ended a task is being cancelled, as one is whose loop ends."""
    async with using(backend) as client:
        grant, runtime = await client.lock("x").acquire(), client._runtime
        keepalive, counts = runtime._keepalive, [1, 1]
        assert keepalive is not None
        runtime._keepalive = SimpleNamespace(  # type: ignore[assignment]
            cancelling=lambda: counts.pop() if counts else 0,
            done=lambda: False,
            get_loop=asyncio.get_running_loop,
        )
        hold = grant._hold
        runtime.schedule(Job(hold.session, hold.entry.ticket, hold.entry))
        await cleaned(client)
        runtime._keepalive = keepalive
        assert counts == []
        assert not await grant.verify()


@in_loop
async def test_an_interrupt_before_the_grant_is_made(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise asyncio.CancelledError

    async with using(backend) as client:
        monkeypatch.setattr("recipes.AsyncLock._grant", interrupted)
        with pytest.raises(asyncio.CancelledError):
            await client.lock("x").acquire()
        await cleaned(client)
        assert backend.server.contenders() == []


@in_loop
async def test_a_cancellation_before_the_grant_is_made_leaves_nothing_entered(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: Any, **options: Any) -> None:
        raise asyncio.CancelledError

    async with using(backend) as client:
        async with client.rlock("x") as outer:
            for entry in ("recipes.AsyncRLock._grant", "recipes.rlock.Reentries.enter"):
                for name in "xy":
                    monkeypatch.setattr(entry, interrupted)
                    with pytest.raises(asyncio.CancelledError):
                        await client.rlock(name).acquire()
                    monkeypatch.undo()
            assert client.grants == [outer]
        assert client.grants == []
        await cleaned(client)
        assert backend.server.contenders() == []
        await asyncio.create_task(client.rlock("y").acquire())  # its task goes without leaving
        backend.server.remove(backend.server.contenders()[0].ref)
        assert not await client.grants[0].verify()
        async with client.rlock("x") as other:
            assert [reentries.grants for reentries in client._runtime.reentries.values()] == [[other]]


# async with, and loss.


@in_loop
async def test_the_body_is_cancelled_on_loss_and_leaves_as_lock_lost(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.raises(LockLost, match="revoked") as raised:  # noqa: PT012
            async with client.lock("x"):
                lose(client)
                await asyncio.Event().wait()
        assert isinstance(raised.value.__cause__, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0), "and nothing is left pending"


@in_loop
async def test_a_clean_body_and_a_loss(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.raises(LockLost, match="revoked"):
            async with client.lock("x"):
                lose(client)


@in_loop
async def test_a_body_that_swallows_the_cancellation(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.raises(LockLost, match="revoked"):  # noqa: PT012
            async with client.lock("x"):
                lose(client)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@in_loop
async def test_a_body_that_fails_on_the_cancellation(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.raises(ZeroDivisionError) as raised:  # noqa: PT012
            async with client.lock("x") as grant:
                lose(client)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ZeroDivisionError from None
        assert raised.value.__notes__ == [f"lock 'x' (token {grant.token}) was lost before this: revoked"]
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@in_loop
async def test_a_timeout_that_strikes_while_the_other_parts_are_withdrawn_is_one(
    backend: FaultyBackend,
) -> None:
    """The task was left cancelled once more than it was, and the timeout around it did not say so."""
    async with using(backend) as client:
        backend.before = on("Withdraw", cut, times=1_000_000)
        part = client.lock("x")
        with pytest.raises(TimeoutError):  # noqa: PT012
            async with asyncio.timeout(None) as bounded, client.multilock(part, client.lock("y")) as grant:
                grant[part]._hold.lose("removed")
                asyncio.get_running_loop().call_later(0.05, bounded.reschedule, 0.0)
                await asyncio.Event().wait()
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@in_loop
async def test_told_only_where_that_is_asked(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.raises(LockLost, match="revoked"):  # noqa: PT012
            async with client.lock("x", on_lost="tell") as grant:
                lose(client)
                assert await grant.lost.wait()
                await asyncio.sleep(0)
                assert grant.lost.is_set()


@in_loop
async def test_a_cancellation_from_outside_stays_one(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        inside = asyncio.Event()

        async def body() -> None:
            async with client.lock("x"):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await inside.wait()
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError):
            await task
        await cleaned(client)
        assert backend.server.contenders() == []


@in_loop
async def test_a_cancellation_from_outside_beside_a_loss_stays_one(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        inside = asyncio.Event()

        async def body() -> None:
            async with client.lock("x"):
                inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(body())
        await inside.wait()
        session = client._runtime.state.session
        assert session is not None
        client._runtime.state.ended(session, "revoked")
        task.cancel("from outside")
        with pytest.raises(asyncio.CancelledError) as raised:
            await task
        assert not isinstance(raised.value, LockLost)


@in_loop
async def test_a_timeout_around_the_body_is_its_own(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02), client.lock("x"):
                await asyncio.Event().wait()
        assert backend.server.contenders() == []


@in_loop
async def test_lost_before_the_body_is_entered(backend: FaultyBackend) -> Never:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        lose(client)
        await until(lambda: grant._hold.ended)
        with pytest.raises(LockLost, match="revoked"):
            async with grant:
                raise AssertionError("the body was entered")


@in_loop
async def test_a_loss_in_the_middle_of_the_release_is_no_interruption(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        async with client.lock("x") as grant:
            await grant.release()
            lose(client)
            await asyncio.sleep(0)
        assert grant.lost_reason is None


@in_loop
async def test_locks_nested_in_one_task_leave_their_own(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        lock = client.lock("x")
        async with lock, client.lock("y"), client.lock("z").acquire():
            assert len(client.grants) == 3
        assert lock._entered == {}
        assert client.grants == []


@in_loop
async def test_lost_wait_and_callbacks(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        assert await grant.lost.wait(0.01) is False
        assert await grant.lost.wait(0) is False
        with pytest.raises(ValueError, match="timeout"):
            await grant.lost.wait(-1)
        told: list[Any] = []
        grant.lost.add_callback(told.append)
        waiter = asyncio.create_task(grant.lost.wait())
        lose(client)
        assert await waiter
        await until(lambda: told)
        assert told == [grant]
        grant.lost.add_callback(told.append)
        await until(lambda: len(told) == 2)
        assert not await grant.release()


@in_loop
async def test_a_release_is_no_loss(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        waiter = asyncio.create_task(grant.lost.wait())
        await asyncio.sleep(0)
        await grant.release()
        assert await waiter is False


@in_loop
async def test_lost_by_the_clock(backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        now = client._runtime.now()
        monkeypatch.setattr(client._runtime, "now", lambda: now + 14.0)
        assert not grant.held
        assert await grant.lost.wait()
        assert not await grant.release()
        monkeypatch.undo()


@in_loop
async def test_a_waiter_queues_again_when_the_session_is_lost(backend: FaultyBackend) -> None:
    async with using(backend) as client, using(backend) as other:
        holder = await other.lock("x").acquire()
        waiter = await queued(backend, client)
        first = client.session.id
        lose(client)
        await until(lambda: client.session.id not in (first, None) and backend.asked.count("Enqueue") == 3)
        await holder.release()
        assert await (await waiter).release()
        await cleaned(client)
        assert backend.server.contenders() == []


async def remove(backend: FaultyBackend, client: AsyncClient, grant: Any, how: str) -> None:
    if how == "removed":
        backend.server.remove(grant._hold.entry.ref)
    else:
        backend.server.end(client.session.id)


@pytest.mark.parametrize("on_lost", ["cancel", "tell"])
@pytest.mark.parametrize(("how", "reason"), REMOVALS)
@in_loop
async def test_a_loss_that_shows_at_the_release(
    backend: FaultyBackend, how: str, reason: str, on_lost: Any
) -> None:
    async with using(backend) as client:
        with pytest.raises(LockLost, match=reason):
            async with client.lock("x", on_lost=on_lost) as grant:
                await remove(backend, client, grant, how)
        assert grant.lost.is_set()
        await nothing_is_pending()
        grant = await client.lock("y").acquire()
        await remove(backend, client, grant, how)
        assert not await grant.release()
        assert reason in (grant.lost_reason or "")


async def nothing_is_pending() -> None:
    """No cancellation strikes behind a block that was left."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("goes_on", [False, True], ids=["leaves at once", "waits for something"])
@pytest.mark.parametrize("finds", ["verify", "release"])
@in_loop
async def test_a_body_that_finds_the_loss_itself(backend: FaultyBackend, finds: str, goes_on: Any) -> None:
    async with using(backend) as client:
        with pytest.raises(LockLost, match="removed from the store"):  # noqa: PT012
            async with client.lock("x") as grant:
                await remove(backend, client, grant, "removed")
                assert not await getattr(grant, finds)()
                if goes_on:
                    await asyncio.Event().wait()
        await nothing_is_pending()


@in_loop
async def test_release_in_another_loop_ends_nothing(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()

        def elsewhere() -> None:
            asyncio.run(grant.release())

        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(elsewhere)
        assert grant.held
        assert await grant.release()


@in_loop
async def test_what_fits_nothing_is_refused_at_once(backend: FaultyBackend) -> None:
    async def stop(grant: Any) -> None:
        raise AssertionError

    async with using(backend) as client:
        async with client.lock("x") as grant:
            with pytest.raises(TypeError, match="stop is a coroutine function"):
                grant.lost.add_callback(stop)
            with pytest.raises(TypeError, match="stop is a coroutine function"):
                await client.lock("y").acquire(on_position=stop)
            with pytest.raises(RuntimeError, match=r"lock 'x' .* is entered already"):
                async with grant:
                    raise AssertionError
            assert grant.held
        with pytest.raises(TypeError, match="is a coroutine function, not 5"):
            await client.election("x").run(5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="returned 5"):
            await client.election("x").run(lambda _: 5)  # type: ignore[arg-type, return-value]
        assert await client.election("x").leader() is None


@in_loop
async def test_a_task_that_observes_lives_as_one_that_waits_for_a_lock_does(backend: FaultyBackend) -> None:
    """Nobody else refers to it."""
    async with using(backend) as client:
        value = client.value("settings")
        await value.set(b"old")
        seen: list[bytes | None] = []
        began = asyncio.Event()

        async def follow() -> None:
            async for change in client.value("settings").changes():
                seen.append(None if change is None else change.data)
                began.set()
                if seen[-1] == b"new":
                    return

        asyncio.create_task(follow())  # noqa: RUF006 - this is what it is about
        await began.wait()
        await asyncio.sleep(0)
        gc.collect()
        await value.set(b"new")
        await until(lambda: seen == [b"old", b"new"])


async def entered(seats: Any) -> AsyncIterator[Any]:
    async with seats as grant:
        yield grant


@in_loop
async def test_a_block_may_be_left_by_another_task(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        lock = client.lock("x")
        begun = entered(lock)
        grant = await anext(begun)
        await asyncio.create_task(begun.aclose())  # as the loop closes what was iterated and left
        assert not grant.held
        assert backend.server.contenders() == []
        assert lock._entered == {}


@in_loop
async def test_a_block_of_another_that_is_left_amid_own_ones_ends_alone(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        seats = client.semaphore("x", 4)
        begun = [entered(seats), entered(seats)]
        theirs = [await anext(begun[0]), await asyncio.create_task(anext(begun[1]))]
        async with seats as mine:
            await asyncio.create_task(begun[0].aclose())  # begun by this task, and closed by another
            await begun[1].aclose()  # the other way round
            assert [grant.held for grant in theirs] == [False, False]
            assert mine.held
        assert not mine.held
        assert seats._entered == {}


@in_loop
async def test_only_a_block_that_was_entered_is_left(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        seats = client.semaphore("x", 2)
        with pytest.raises(RuntimeError, match="semaphore 'x' was not entered by this thread or task"):
            await seats.__aexit__(None, None, None)
        begun = [entered(seats), entered(seats)]
        grants = [await asyncio.create_task(anext(one)) for one in begun]
        with pytest.raises(RuntimeError, match="semaphore 'x' was not entered by this thread or task"):
            await seats.__aexit__(None, None, None)  # of which of the two?
        assert all(grant.held for grant in grants)


@in_loop
async def test_an_acquire_can_be_made_a_task_of(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        acquiring = client.lock("x").acquire()
        assert asyncio.iscoroutine(acquiring)
        grant = await asyncio.create_task(acquiring)
        waiter = asyncio.create_task(client.lock("x").acquire())
        await until(lambda: len(backend.server.contenders()) == 2)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        await cleaned(client)
        assert len(backend.server.contenders()) == 1
        assert await grant.release()
        client.lock("x").acquire().close()  # never begun, and no warning
        with pytest.raises(RuntimeError, match="already"):
            await acquiring


@in_loop
async def test_an_acquire_that_nobody_awaited_is_warned_of(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        with pytest.warns(RuntimeWarning, match="AsyncLock.acquire. was never awaited"):  # noqa: PT031
            client.lock("x").acquire()
            gc.collect()
        assert backend.asked == []


# Loops, threads, closing.


def test_a_loop_that_ends_without_close_says_nothing() -> None:
    """``asyncio.run`` cancels all tasks; what they leave behind must not start others.

    But that the client was not closed: see ``test_leaving.py``.
    """
    script = """
import asyncio, recipes
from recipes.stores.memory import AsyncMemoryConnection

async def slow(connection, request, timeout_s, ask=AsyncMemoryConnection.ask):
    await asyncio.sleep(0.01)
    return await ask(connection, request, timeout_s)

AsyncMemoryConnection.ask = slow

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # a busy machine is no fault
    client = recipes.connect_async("memory://x")
    other = recipes.connect_async("memory://x")
    await other.lock("x").acquire()
    waiter = asyncio.create_task(client.lock("x").acquire())
    while other._runtime.backend.server.contenders()[1:] == []:
        await asyncio.sleep(0)
    await asyncio.sleep(0.03)

asyncio.run(main())
"""
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore:unclosed <AsyncClient:ResourceWarning", "-c", script],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_a_client_belongs_to_one_loop(backend: FaultyBackend) -> None:
    client = AsyncClient(backend, SETTINGS)

    async def use() -> None:
        await client.open()

    async def use_and_close() -> None:
        await client.open()
        await client.close()

    asyncio.run(AsyncClient(backend, SETTINGS).close())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(use())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(use())
    loop.run_until_complete(use_and_close())
    loop.close()
    client._runtime.in_turn()(lambda: None)
    teller = threading.Thread(target=backend.on_ends[-1], args=("nobody is there any more",))
    teller.start()
    teller.join()


@in_loop
async def test_the_connection_may_tell_of_the_end_from_any_thread(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        told = backend.on_ends[0]
        await asyncio.to_thread(told, "expired, said the server")
        assert await grant.lost.wait()
        assert grant.lost_reason == "expired, said the server"
        told("and again, in the loop")
        assert grant.lost_reason == "expired, said the server"


def test_mailboxes_take_events_from_any_thread() -> None:
    async def main() -> TaskMailbox:
        box = TaskMailbox(asyncio.get_running_loop(), threading.get_ident())
        assert await box.receive(0.005) is None
        await asyncio.to_thread(box.post, Disturbed())
        assert await box.receive(None) == Disturbed()
        box.post(Disturbed())
        box.post(Disturbed())
        assert await box.receive(0.0) == Disturbed()
        receiving = asyncio.create_task(box.receive(None))
        assert await receiving == Disturbed()
        return box

    box = asyncio.run(main())
    poster = threading.Thread(target=box.post, args=(Disturbed(),))
    poster.start()  # its loop is closed: nobody waits, and nobody is hurt
    poster.join()


def test_an_event_of_another_thread_comes_by_way_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    delivered: list[int] = []
    monkeypatch.setattr(TaskMailbox, "_deliver", lambda box, event: delivered.append(threading.get_ident()))

    async def main() -> None:
        box = TaskMailbox(asyncio.get_running_loop(), threading.get_ident())
        await asyncio.to_thread(box.post, Disturbed())
        await asyncio.sleep(0)

    asyncio.run(main())
    assert delivered == [threading.get_ident()]


@pytest.mark.parametrize("what", ["observing", "partitions"])
@in_loop
async def test_what_asks_again_and_again_without_waiting_lets_the_loop_run(
    backend: FaultyBackend, what: str
) -> None:
    async with using(backend) as client:
        membership = await client.group("x").join()
        asked: Any = client.group("x").watch() if what == "observing" else membership.partitions(["a", "b"])
        for _ in range(1000):  # a loop that is blocked sees no timeout
            if (state := await asked.next(timeout=0)) is not None:
                break
        assert len(state) == (1 if what == "observing" else 2)


@in_loop
async def test_one_that_has_no_time_to_wait_may_be_cancelled(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        await client.open()
        async with client.election("x").observe() as seen:
            asking = asyncio.create_task(seen.next(0))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking


@in_loop
async def test_close_ends_everything(backend: FaultyBackend) -> None:
    client = AsyncClient(backend, SETTINGS)
    grant = await client.lock("x").acquire()
    waiter = await queued(backend, client)
    runtime = client._runtime
    await client.close()
    await client.close()
    with pytest.raises(ClientClosed):
        await waiter
    with pytest.raises(ClientClosed):
        await client.open()
    assert not grant.held
    assert not await grant.release()
    assert backend.server.sessions == {}
    assert runtime._keepalive is not None
    assert runtime._keepalive.done()


@in_loop
async def test_a_close_that_is_cancelled_ends_the_session_behind(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient(backend, SETTINGS)
    grant = await client.lock("x").acquire()
    asked, answer = asyncio.Event(), asyncio.Event()
    connection = type(backend.async_connection(lambda reason: None))
    ask = connection.ask

    async def slowly(self: Any, request: Any, timeout_s: float) -> Any:
        if type(request.op).__name__ == "End":
            asked.set()
            await answer.wait()
        return await ask(self, request, timeout_s)

    monkeypatch.setattr(connection, "ask", slowly)
    with reported() as seen:
        closing = asyncio.create_task(client.close())
        await asked.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        answer.set()
        await cleaned(client)
        await client.close()
    assert seen == [("lock.released", grant.token)]
    assert (backend.server.sessions, backend.server.contenders()) == ({}, [])
    await until(lambda: backend.closed_connections == 1)


@in_loop
async def test_close_in_another_loop_ends_nothing(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()

        def elsewhere() -> None:
            asyncio.run(client.close())

        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(elsewhere)
        assert grant.held
        await client.close()
        assert backend.server.sessions == {}


def test_the_exit_ends_what_a_cancelled_close_has_left(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its loop ends before the store has answered, and cancels all there is."""
    connection = type(backend.async_connection(lambda reason: None))
    ask = connection.ask

    async def leave_it() -> AsyncClient:
        asked = asyncio.Event()

        async def hang(self: Any, request: Any, timeout_s: float) -> Any:
            if type(request.op).__name__ != "End":
                return await ask(self, request, timeout_s)
            asked.set()
            return await asyncio.Event().wait()

        client = AsyncClient(backend, SETTINGS)
        await client.lock("x").acquire()
        monkeypatch.setattr(connection, "ask", hang)
        closing.append(asyncio.create_task(client.close()))
        await asked.wait()
        assert client._runtime._keepalive is not None
        await asyncio.wait([client._runtime._keepalive])
        return client

    closing: list[asyncio.Task[None]] = []
    with reported() as seen:
        client = asyncio.run(leave_it())
        assert closing[0].cancelled()
        assert backend.closed_connections == 1
        assert len(backend.server.sessions) == 1
        monkeypatch.undo()
        client._runtime.leave()
    assert len(seen) == 1
    assert backend.server.sessions == {}
    gc.collect()
    assert "Task was destroyed" not in caplog.text


def test_who_was_closed_may_be_closed_in_another_loop(backend: FaultyBackend) -> None:
    client = AsyncClient(backend, SETTINGS)

    async def use() -> None:
        async with client:
            await client.lock("x").acquire()

    asyncio.run(use())
    asyncio.run(client.close())


@pytest.mark.parametrize("on_session_lost", ["requeue", "fail"])
@in_loop
async def test_close_ends_who_asks_the_store_as_it_waits(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch, on_session_lost: Any
) -> None:
    client, other = AsyncClient(backend, SETTINGS), AsyncClient(backend, SETTINGS)
    holder = await other.lock("x").acquire()
    waits, asks, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    connection = type(backend.async_connection(lambda reason: None))
    ask = connection.ask

    async def look(self: Any, request: Any, timeout_s: float) -> Any:
        if type(request.op).__name__ in ASKED_BY_WAITERS:
            asks.set()
            await go_on.wait()
        return await ask(self, request, timeout_s)

    seen: list[str] = []
    stop = subscribe(lambda t: seen.append(t.event))
    lock = client.lock("x")
    acquiring = lock.acquire(on_session_lost=on_session_lost, on_queued=lambda _: waits.set())
    waiter = asyncio.ensure_future(acquiring)
    await waits.wait()
    monkeypatch.setattr(connection, "ask", look)
    await holder.release()
    await asks.wait()
    await client.close()
    go_on.set()
    with pytest.raises(ClientClosed):
        await waiter
    stop()
    await other.close()
    assert [one for one in seen if one in ("lock.requeued", "lock.cancelled")] == ["lock.cancelled"]


@in_loop
async def test_close_ends_who_waits_for_a_session(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._run.tasks.CLOSE_WITHIN_S", 0.02)
    client = AsyncClient(backend, SETTINGS)
    opening = asyncio.Event()
    connection = type(backend.async_connection(lambda reason: None))

    async def hang(self: Any, request: Any, timeout_s: float) -> Any:
        opening.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(connection, "ask", hang)

    async def acquire() -> Any:
        return await client.lock("x").acquire()

    waiter = asyncio.create_task(acquire())
    await opening.wait()
    await client.close()
    with pytest.raises(ClientClosed):
        await waiter
    keepalive = client._runtime._keepalive
    assert keepalive is not None
    await until(keepalive.done)
    monkeypatch.undo()


@in_loop
async def test_close_with_the_store_dead(backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recipes._run.tasks.CLOSE_WITHIN_S", 0.05)
    client = AsyncClient(backend, SETTINGS)
    await client.lock("x").acquire()
    backend.before = on("End", cut, times=10**9)
    await client.close()
    assert backend.closed_connections == 1


@in_loop
async def test_a_job_that_cannot_be_done_is_logged_and_dropped(
    backend: FaultyBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        backend.before = on("Withdraw", ZeroDivisionError, times=2)
        with pytest.raises(ZeroDivisionError):
            await grant.release()
        await cleaned(client)
        assert "could not be withdrawn" in caplog.text
        session = client._runtime.state.session
        assert session is not None
        client._runtime.schedule(Job(session, None))
        await cleaned(client)
        assert backend.closed_connections == 1


def hanging_end(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> tuple[asyncio.Event, asyncio.Event]:
    """Whoever ends the first session reaches the first event, and waits for the second."""
    ending, go_on = asyncio.Event(), asyncio.Event()
    connection = type(backend.async_connection(lambda reason: None))
    ask = connection.ask

    async def hang(self: Any, request: Any, timeout_s: float) -> Any:
        if type(request.op).__name__ == "End" and not ending.is_set():
            ending.set()
            await go_on.wait()
        return await ask(self, request, timeout_s)

    monkeypatch.setattr(connection, "ask", hang)
    return ending, go_on


@in_loop
async def test_a_session_that_cannot_be_ended_holds_up_no_withdrawal(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with using(backend) as client:
        await client.open()
        ending, go_on = hanging_end(backend, monkeypatch)
        lose(client)
        await ending.wait()
        backend.after = on("Enqueue", asyncio.CancelledError)
        with pytest.raises(asyncio.CancelledError):
            await client.lock("x").acquire()
        await until(lambda: client.pending_cleanups == 1)
        assert backend.server.contenders() == []
        go_on.set()
        await cleaned(client)
        await until(lambda: not client._runtime._behind)


@in_loop
async def test_close_waits_for_who_ends_a_session(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._run.tasks.CLOSE_WITHIN_S", 0.02)
    async with using(backend) as client:
        await client.open()
        ending, _ = hanging_end(backend, monkeypatch)
        lose(client)
        await ending.wait()
        closers = set(client._runtime._behind)
        await client.close()
        await until(lambda: all(closer.done() for closer in closers))
        assert closers
        await until(lambda: not client._runtime._behind)


@in_loop
async def test_a_ticket_that_is_refused_goes_behind_the_others(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._programs.cleaner.REFUSED_PAUSE_S", 0.005)
    async with using(backend) as client:
        first, second = await client.lock("x").acquire(), await client.lock("y").acquire()
        withdrawn: list[str] = []
        backend.before = refusing("x", withdrawn)
        assert await first.release()
        assert await second.release()
        await cleaned(client)
        assert withdrawn == ["y", "x"]
        assert backend.server.contenders() == []


@in_loop
async def test_what_is_refused_keeps_no_other_job_waiting(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._programs.cleaner.REFUSED_PAUSE_S", 3600.0)
    async with using(backend) as client:
        grants = [await client.lock(name).acquire() for name in "abcx"]

        def refuse(request: Any) -> None:
            if type(request.op).__name__ == "Withdraw" and "x" not in request.op.ticket.queue:
                raise StoreRefused("memory://", "no")

        backend.before = refuse
        for grant in grants[:3]:
            assert await grant.release()
        await until(lambda: len(client._runtime.refused) == 3)
        assert await grants[3].release(wait=False)
        await until(lambda: len(backend.server.contenders()) == 3)
        backend.before = lambda request: None
        lose(client)
        await cleaned(client)


@in_loop
async def test_a_cleaner_that_somebody_cancels_is_replaced(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        backend.before = on("Withdraw", asyncio.CancelledError)
        grant = await client.lock("x").acquire()
        assert await grant.release(wait=False)
        cleaner = client._runtime._cleaner
        assert cleaner is not None
        await until(cleaner.done)
        assert len(backend.server.contenders()) == 1
        client._runtime.renewing()
        await cleaned(client)
        assert backend.server.contenders() == []


@in_loop
async def test_a_mistake_in_opening_a_session_is_told_and_tried_again(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("recipes._run.tasks.KEEPALIVE_PAUSE_S", 0.005)
    async with using(backend) as client:
        backend.before = on("Open", ZeroDivisionError, times=10**9)
        with pytest.raises(StoreUnavailable, match="renewing failed: ZeroDivisionError"):
            await client.open()
        waiter = asyncio.create_task(client.lock("x").acquire(timeout=None))
        await asyncio.sleep(0)
        backend.before = on("Open", ZeroDivisionError, times=3)
        assert await (await waiter).release()
        assert "the keepalive loop of the session failed" in caplog.text


@in_loop
async def test_a_keepalive_loop_that_somebody_cancelled_is_replaced_by_the_next_call(
    backend: FaultyBackend,
) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        runtime, first = client._runtime, client.session.id
        keepalive, session = runtime._keepalive, runtime.state.session
        keepalive.cancel()
        await asyncio.wait({keepalive})
        assert grant.held  # as long as what was confirmed proves it
        session.clock.deadline = runtime.now()
        again = await client.lock("x").acquire(timeout=SOON_S)
        assert grant.lost.is_set()
        assert not grant.held
        assert client.session.id != first
        assert await again.release()


REQUEST: ContextVar[Any] = ContextVar("request", default=None)


class Body:
    """What a request refers to."""


@in_loop
async def test_what_goes_on_behind_has_nothing_of_the_context_of_the_first_call(
    backend: FaultyBackend,
) -> None:
    seen: list[tuple[str, Any]] = []
    stop = subscribe(lambda t: seen.append((t.event, REQUEST.get())))

    async def first(client: AsyncClient) -> weakref.ref[Body]:
        body = Body()
        REQUEST.set(body)
        grant = await client.lock("x").acquire()
        with pytest.raises(LockTimeout):
            await asyncio.create_task(client.lock("x").acquire(timeout=0.01))
        await grant.release()
        await client.lock("y").acquire()
        assert await observing.next() is None  # a timer, even a cancelled one, keeps its context
        return weakref.ref(body)

    async with using(backend) as client:
        observing = client.election("e").observe()
        body = await asyncio.create_task(first(client))
        await cleaned(client)
        lose(client)
        await until(lambda: "lock.lost" in dict(seen))
        of_all = [(event, of is not None) for event, of in seen]
        seen.clear()
        await until(lambda: gc.collect() >= 0 and body() is None)
        observing.close()
    stop()
    of_the_call, of_none = ({event for event, its in of_all if its is of} for of in (True, False))
    assert of_the_call == {"lock.acquired", "lock.queued", "lock.timeout", "lock.released"}
    assert of_none == {"session.started", "session.lost", "lock.lost"}


@pytest.mark.parametrize("goes_on", [True, False])
@in_loop
async def test_a_session_whose_keepalive_loop_was_cancelled_is_given_up_in_time(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    """What is left behind meanwhile is cleaned up at once, or at that time if the loop seemed to end."""
    async with using(backend) as client, using(backend) as other:
        await other.lock("y").acquire()
        grant = await client.lock("x").acquire()
        runtime = client._runtime
        runtime.state.session.clock.deadline = runtime.now() + 1.0
        runtime._keepalive.cancel()
        await until(runtime._keepalive.done)
        if not goes_on:
            monkeypatch.setattr("recipes._run.tasks._goes_on", lambda: False)
        with pytest.raises(LockTimeout):
            await client.lock("y").acquire(timeout=0.02)
        if goes_on:
            await cleaned(client)
            assert len(backend.server.contenders()) == 2
            assert grant.held
        else:
            assert client.pending_cleanups == 1
        assert await grant.lost.wait(SOON_S)
        monkeypatch.undo()
        await cleaned(client)
        assert grant.lost_reason == "the task that renews was ended"
        assert runtime._keepalive is None
        runtime._unkept(None)  # whoever comes later finds it done
        assert await (await client.lock("x").acquire(timeout=SOON_S)).release()


@in_loop
async def test_a_keepalive_loop_that_fails_gives_the_session_up_and_starts_another(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recipes._run.tasks.KEEPALIVE_PAUSE_S", 0.005)
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        first, keepalive = client.session.id, client._runtime._keepalive
        backend.before = on("Renew", ZeroDivisionError)
        session = client._runtime.state.session
        assert session is not None
        assert session.clock is not None
        session.clock.due = 0.0
        client._runtime.state.wake_keepalive()
        assert await grant.lost.wait()
        assert "ZeroDivisionError" in (grant.lost_reason or "")
        assert client.session.state == "lost"
        assert await (await client.lock("x").acquire()).release()
        assert client.session.id != first
        assert client._runtime._keepalive is keepalive


@in_loop
async def test_session_and_repr(backend: FaultyBackend) -> None:
    async with using(backend) as client:
        assert repr(client) == "<AsyncClient of memory://: session none>"
        async with client as same:
            assert same is client
            assert client.session.state == "held"
            grant = await client.lock("x").acquire()
            assert repr(grant) == f"<AsyncGrant of lock 'x' (token {grant.token}): held>"
        assert client.session.state == "closed"


@in_loop
async def test_a_session_that_begins_while_the_client_is_closed_is_ended(
    backend: FaultyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = AsyncClient(backend, SETTINGS)
    opening, go_on = asyncio.Event(), asyncio.Event()
    connection = type(backend.async_connection(lambda reason: None))
    ask = connection.ask

    async def slow(self: Any, request: Any, timeout_s: float) -> Any:
        opening.set()
        await go_on.wait()
        return await ask(self, request, timeout_s)

    monkeypatch.setattr(connection, "ask", slow)
    waiter = asyncio.create_task(client.lock("x").acquire())
    await opening.wait()
    closing = asyncio.create_task(client.close())
    await until(lambda: client._runtime.state.closed is not None)
    go_on.set()
    await closing
    with pytest.raises(ClientClosed):
        await waiter
    assert backend.server.sessions == {}
    assert backend.closed_connections == 1


@in_loop
async def test_what_a_callback_raises_does_not_leave_the_loop(
    backend: FaultyBackend, caplog: pytest.LogCaptureFixture
) -> None:
    async with using(backend) as client:
        grant = await client.lock("x").acquire()
        called = asyncio.Event()

        def leave(_lost: Any) -> None:
            raise SystemExit("mine")

        grant.lost.add_callback(leave)
        grant.lost.add_callback(lambda lost: called.set())
        backend.on_ends[0]("revoked")
        await asyncio.wait_for(called.wait(), 10)
        assert "a callback failed" in caplog.text
