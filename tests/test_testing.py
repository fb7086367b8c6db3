"""The test kit: real clients whose time, answers and sessions a test has in hand. Nothing here sleeps."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, get_args

import pytest

import recipes
from recipes import events, testing
from recipes._contract import operations as ops
from recipes._contract.contenders import DOWNGRADED, Contender
from recipes._contract.operations import Write
from recipes._programs.cleaner import Job
from recipes._run.manual import ManualTaskMailbox, ManualTime
from recipes.events import Transition
from recipes.guarantees import STORES
from recipes.stores.memory import MemoryServer
from recipes.testing import clock as clock_module
from recipes.testing import faults
from tests.run.test_tasks import in_loop

SOON_S = 30.0
HOUR_S = 3600.0


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Any]]]:
    """Runs a call in a thread beside the test."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


@pytest.fixture
def store(beside: Any) -> Iterator[testing.Store]:
    """A store that is closed before its threads are waited for."""
    with testing.Store() as store:
        yield store


@pytest.fixture
def told(store: testing.Store) -> Iterator[list[tuple[float, str]]]:
    """What happened, and when."""
    seen: list[tuple[float, str]] = []
    start = store.clock.now

    def hear(transition: Transition) -> None:
        if transition.store == store.url:
            seen.append((store.clock.now - start, transition.event))

    stop = events.subscribe(hear)
    yield seen
    stop()


def awaited(call: Any) -> asyncio.Task[Any]:
    """Run an acquire in a task beside the test."""

    async def wait() -> Any:
        return await call

    return asyncio.create_task(wait())


class TestClock:
    def test_it_stands_still(self, store: testing.Store) -> None:
        with store.connect() as client:
            grant = client.lock("x").acquire()
            first = (store.clock.now, grant.remaining)
            grant.verify()
            assert (store.clock.now, grant.remaining) == first == (store.clock.now, 13.5)
        assert repr(store.clock) == "<Clock at 1000 s>"

    def test_a_healthy_client_keeps_its_session_however_far_it_moves(self, store: testing.Store) -> None:
        with store.connect() as client, client.lock("x") as grant:
            session = client.session.id
            store.clock.advance(10 * HOUR_S)
            assert grant.held
            assert client.session.id == session
            assert grant.remaining > 13.5 - 5  # renewed every 5 s

    def test_everything_happens_in_order(self, store: testing.Store, told: list[Any]) -> None:
        client, other = store.connect(), store.connect()
        client.open()
        client.lock("x").acquire()
        with other:
            told.clear()
            with store.pause(client):
                store.clock.advance(14.5)
                assert [entry for entry in told if entry[1] != "store.retry"] == [
                    (11.25, "session.suspect"),
                    (11.25, "lock.suspect"),
                    (13.5, "session.lost"),
                    (13.5, "lock.lost"),
                ]
                assert len(store.holders("x")) == 1
                store.clock.advance(0.5)
                assert store.holders("x") == []

    def test_an_hour_of_waiting_takes_no_time(self, store: testing.Store, beside: Any) -> None:
        began = time.monotonic()
        with store.connect() as holder, store.connect() as waiter:
            holder.lock("x").acquire()
            waiting = beside(waiter.lock("x").acquire, timeout=HOUR_S)
            store.wait_for_waiters("x")
            store.clock.advance(HOUR_S - 1)
            assert not waiting.done()
            store.clock.advance(1)
            with pytest.raises(recipes.LockTimeout):
                waiting.result(SOON_S)
            assert store.waiters("x") == []
        assert time.monotonic() - began < HOUR_S / 60

    def test_it_looks_at_other_recipes_too(self, store: testing.Store, beside: Any) -> None:
        with store.connect() as client, store.connect() as other:
            gpu, leader = client.semaphore("x", 1).acquire(), client.election("x").campaign()
            waiting = beside(other.semaphore("x", 1).acquire, timeout=HOUR_S)
            assert [one.client for one in store.wait_for_waiters("x", recipe="semaphore")] == [other]
            assert [one.client for one in store.holders("x", recipe="semaphore")] == [client]
            assert [one.token for one in store.holders("x", recipe="election")] == [leader.token]
            assert store.waiters("x", recipe="election") == store.holders("x") == []
            with pytest.raises(TimeoutError, match="2 should wait for semaphore 'x', and there are 1"):
                store.wait_for_waiters("x", 2, recipe="semaphore", timeout=0.01)
            with pytest.raises(
                ValueError, match="recipe='mutex' is none of lock, semaphore, election, group"
            ):
                store.holders("x", recipe="mutex")
            gpu.release()
            waiting.result(SOON_S).release()

    def test_partitions_need_no_time_to_pass(self, store: testing.Store) -> None:
        """A second assignment soon after the first waited for a clock that stood still."""
        with store.connect() as client, store.connect() as other:
            mine = client.group("g").join(id="a").partitions(["x", "y"])
            while len(mine.next(SOON_S) or ()) < 2:
                pass
            other.group("g").join(id="b").partitions(["x", "y"]).next(0)
            found = mine.next(SOON_S)
            assert found is not None
            assert len(found) + len(found.leaving) == 2

    def test_it_jumps_for_a_call_in_the_tests_own_thread(self, store: testing.Store) -> None:
        with store.connect() as holder, store.connect() as waiter:
            grant = holder.lock("x").acquire()
            before = store.clock.now
            with store.clock.jumping(), pytest.raises(recipes.LockTimeout):
                waiter.lock("x").acquire(timeout=HOUR_S)
            assert store.clock.now == before + HOUR_S
            assert grant.held

    def test_it_does_not_jump_while_nobody_waits(self, store: testing.Store) -> None:
        with store.connect() as client, client.lock("x"):
            before = store.clock.now
            with store.clock.jumping():
                store.clock.advance(0)
            assert store.clock.now == before

    @pytest.mark.parametrize("bad", [-1, float("nan"), float("inf")])
    def test_seconds_that_do_not_fit(self, store: testing.Store, bad: float) -> None:
        with pytest.raises(ValueError, match="seconds="):
            store.clock.advance(bad)
        with pytest.raises(TypeError):
            store.clock.advance(None)  # type: ignore[arg-type]

    @in_loop
    async def test_what_would_block_the_loop_is_refused(self) -> None:
        async with testing.Store() as store:
            with pytest.raises(RuntimeError, match="advance_async"):
                store.clock.advance(1)
            with pytest.raises(RuntimeError, match="advance_async"), store.clock.jumping():
                pass
            with pytest.raises(RuntimeError, match="wait_for_waiters_async"):
                store.wait_for_waiters("x")

    def test_waiting_for_a_loss_goes_by_it(self, store: testing.Store) -> None:
        with store.connect() as client:
            grant = client.lock("x").acquire()
            before = store.clock.now
            with store.pause(client), store.clock.jumping():
                assert grant.lost.wait(7) is False
                assert store.clock.now == before + 7
                assert grant.lost.wait() is True
                assert store.clock.now == before + 13.5
            assert grant.lost_reason == "the session was not renewed in time"

    def test_a_call_that_never_rests_is_an_error_and_no_hang(
        self, store: testing.Store, beside: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(clock_module, "REST_WITHIN_S", 0.05)
        blocked, go_on = threading.Event(), threading.Event()

        def block(transition: Transition) -> None:
            if transition.event == "lock.acquired" and transition.store == store.url:
                blocked.set()
                go_on.wait(SOON_S)

        stop = events.subscribe(block)
        with store.connect() as client:
            acquiring = beside(client.lock("x").acquire)
            try:
                assert blocked.wait(SOON_S)
                with pytest.raises(RuntimeError, match="busy"):
                    store.clock.advance(1)
                with pytest.raises(RuntimeError, match="busy"):
                    asyncio.run(store.clock.advance_async(1))
            finally:
                go_on.set()
                stop()
            acquiring.result(SOON_S)


class TestClockInAsyncio:
    @in_loop
    async def test_a_healthy_client_keeps_its_session_however_far_it_moves(self) -> None:
        async with testing.Store() as store, store.connect_async() as client, client.lock("x") as grant:
            session = client.session.id
            await store.clock.advance_async(HOUR_S)
            assert grant.held
            assert client.session.id == session

    @in_loop
    async def test_an_hour_of_waiting_takes_no_time(self) -> None:
        async with testing.Store() as store, store.connect_async() as holder, store.connect_async() as other:
            await holder.lock("x").acquire()
            waiting = awaited(other.lock("x").acquire(timeout=HOUR_S))
            await store.wait_for_waiters_async("x")
            await store.clock.advance_async(HOUR_S - 1)
            assert not waiting.done()
            await store.clock.advance_async(1)
            with pytest.raises(recipes.LockTimeout):
                await waiting

    @in_loop
    async def test_a_task_goes_from_call_to_call_while_it_moves(self) -> None:
        late: list[float] = []

        async def poll(lock: recipes.AsyncLock, clock: testing.Clock) -> None:
            while True:
                try:
                    await lock.acquire(timeout=60)
                except recipes.LockTimeout:
                    late.append(clock.now)

        async with testing.Store() as store, store.connect_async() as holder, store.connect_async() as other:
            await holder.lock("x").acquire()
            polling = asyncio.create_task(poll(other.lock("x"), store.clock))
            await store.clock.advance_async(600)
            assert late == [1000 + 60 * n for n in range(1, 11)]
            polling.cancel()

    @in_loop
    async def test_waiting_for_a_loss_goes_by_it(self) -> None:
        async with testing.Store() as store, store.connect_async() as client:
            grant = await client.lock("x").acquire()
            patient, hasty = awaited(grant.lost.wait()), awaited(grant.lost.wait(7))
            with store.pause(client):
                await store.clock.advance_async(7)
                assert (patient.done(), hasty.result()) == (False, False)
                await store.clock.advance_async(7)
                assert patient.result() is True

    @in_loop
    async def test_the_body_is_cancelled_when_the_grant_is_lost(self) -> None:
        async with testing.Store() as store, store.connect_async() as client:

            async def work() -> None:
                async with client.lock("x"):
                    await asyncio.Event().wait()

            working = asyncio.create_task(work())
            await store.clock.advance_async(0)
            with store.pause(client):
                await store.clock.advance_async(14)
                with pytest.raises(recipes.LockLost):
                    await working

    def test_clients_of_both_apis_share_one_time(self, store: testing.Store) -> None:
        with store.connect() as client, client.lock("x") as grant:

            async def wait() -> None:
                async with store.connect_async() as other:
                    waiting = awaited(other.lock("x").acquire(timeout=20))
                    assert [c.client for c in await store.wait_for_waiters_async("x")] == [other]
                    await store.clock.advance_async(20)
                    with pytest.raises(recipes.LockTimeout):
                        await waiting

            asyncio.run(wait())
            assert grant.held
            store.clock.advance(20)
            assert grant.held


class TestPause:
    def test_held_turns_false_then_the_next_is_granted(self, store: testing.Store, beside: Any) -> None:
        with store.connect() as client, store.connect() as other:
            grant = client.lock("x").acquire()
            waiting = beside(other.lock("x").acquire)
            store.wait_for_waiters("x")
            with store.pause(client):
                store.clock.advance(13)
                assert grant.held
                store.clock.advance(0.5)
                assert grant.remaining == 0
                assert not waiting.done()
                store.clock.advance(1.5)
                after = waiting.result(SOON_S)
            assert after.token > grant.token
            assert grant.release() is False
            assert [holder.token for holder in store.holders("x")] == [after.token]

    def test_a_short_one_costs_nothing(self, store: testing.Store) -> None:
        with store.connect() as client, client.lock("x") as grant:
            session = client.session.id
            with store.pause(client):
                store.clock.advance(9)
            store.clock.advance(HOUR_S)
            assert grant.held
            assert client.session.id == session

    def test_a_request_ends_by_its_timeout_on_the_clock(self, store: testing.Store) -> None:
        with store.connect(request_timeout=3) as client:
            before = store.clock.now
            with store.pause(client), store.clock.jumping(), pytest.raises(recipes.StoreUnavailable):
                client.lock("x").try_acquire()
            assert store.clock.now == before + 3
            store.clock.advance(0)
            assert store.holders("x") == []

    def test_a_request_under_way_at_its_end_is_asked_again(self, store: testing.Store, beside: Any) -> None:
        with store.connect() as client:
            with store.pause(client):
                acquiring = beside(client.lock("x").acquire)
                store.clock.advance(1)
                assert store.holders("x") == []
            acquiring.result(SOON_S)
            assert len(store.holders("x")) == 1

    def test_one_that_shares_partitions_is_told_of_its_loss(self, store: testing.Store, beside: Any) -> None:
        """What waits for an item waits beside others, in one call."""
        client, other = store.connect(), store.connect()
        items = [f"i{number}" for number in range(12)]
        other.group("g").join(id="a").partitions(items).next()
        membership = client.group("g").join(id="b")
        partitions = membership.partitions(items)
        assert len(partitions.next()) == 0
        following = beside(partitions.next)
        with store.pause(client):
            for _ in range(16):
                store.clock.advance(1)
            assert membership.lost.is_set()
            with pytest.raises(recipes.LockLost):
                following.result(SOON_S)

    def test_a_client_that_is_closed_meanwhile_leaves_its_session(self, store: testing.Store) -> None:
        client = store.connect().open()
        client.lock("x").acquire()
        with store.pause(client):
            client.close()
            assert len(store.holders("x")) == 1
        store.clock.advance(15)
        assert store.holders("x") == []

    def test_a_client_that_never_got_through_can_be_closed(self, store: testing.Store, beside: Any) -> None:
        client = store.connect()
        with store.pause(client):
            opening = beside(client.open)
            store.clock.advance(1)
            client.close()
            with pytest.raises(recipes.ClientClosed):
                opening.result(SOON_S)

    def test_opening_fails_fast(self, store: testing.Store) -> None:
        client = store.connect(request_timeout=2)
        with store.pause(client), store.clock.jumping(), pytest.raises(recipes.StoreUnavailable):
            client.open()

    @in_loop
    async def test_the_same_in_asyncio(self) -> None:
        async with testing.Store() as store, store.connect_async() as client, store.connect_async() as other:
            grant = await client.lock("x").acquire()
            with store.pause(client):
                waiting = awaited(other.lock("x").acquire())
                verifying = awaited(grant.verify())
                await store.clock.advance_async(5)
                with pytest.raises(recipes.StoreUnavailable):
                    verifying.result()
                await store.clock.advance_async(10)
                assert not grant.held
                assert waiting.result().token > grant.token
                again = awaited(client.lock("y").acquire())
                await store.clock.advance_async(1)
            assert (await again).held
            with store.pause(client):
                await client.close()


class TestBreaking:
    def test_expire_is_behind_the_clients_back(self, store: testing.Store, beside: Any) -> None:
        with store.connect() as client, store.connect() as other:
            grant = client.lock("x").acquire()
            waiting = beside(other.lock("x").acquire)
            store.wait_for_waiters("x")
            store.expire(client)
            assert waiting.result(SOON_S).token > grant.token
            assert grant.held  # it cannot know
            store.clock.advance(5)
            assert grant.remaining == 0
            assert "ended on the store" in str(grant.lost_reason)

    def test_expire_of_a_waiter_has_it_queue_again(
        self, store: testing.Store, beside: Any, told: list[Any]
    ) -> None:
        with store.connect() as client, store.connect() as other:
            grant = client.lock("x").acquire()
            waiting = beside(other.lock("x").acquire)
            store.wait_for_waiters("x")
            store.expire(other)
            assert store.waiters("x") == []
            store.clock.advance(5)
            store.wait_for_waiters("x")
            assert (5, "lock.requeued") in told
            grant.release()
            assert waiting.result(SOON_S).held

    def test_expire_needs_a_session(self, store: testing.Store) -> None:
        with pytest.raises(ValueError, match="no session yet"):
            store.expire(store.connect())

    def test_remove_is_found_by_verify_or_the_next_renewal(self, store: testing.Store) -> None:
        with store.connect() as client, store.connect() as other:
            asked, unasked = client.lock("x").acquire(), client.lock("y").acquire()
            store.remove(asked)
            store.remove(unasked)
            assert other.lock("x").try_acquire()
            assert asked.verify() is False
            assert unasked.held
            store.clock.advance(5)
            assert unasked.lost_reason == "its contender was removed from the store"
            assert client.lock("z").acquire().held

    @pytest.mark.parametrize("like", ["memory", "cell"])
    def test_remove_is_of_this_grant_and_no_later_one(self, like: str) -> None:
        with testing.Store(like) as store, store.connect() as client, store.connect() as other:
            released = client.lock("x").acquire()
            released.release()
            held = other.lock("x").acquire()
            store.remove(released)
            assert [one.client for one in store.holders("x")] == [other]
            assert held.verify()

    @pytest.mark.parametrize("like", ["memory", "cell"])
    def test_remove_takes_all_parts_of_a_multilock(self, like: str) -> None:
        with testing.Store(like) as store, store.connect() as client, store.connect() as other:
            held = client.multilock(client.lock("x"), client.lock("y")).acquire()
            store.remove(held)
            assert store.holders("x") == store.holders("y") == []
            assert not held.verify()
            assert other.multilock(other.lock("x"), other.lock("y")).try_acquire()

    @pytest.mark.parametrize("like", ["memory", "cell"])
    def test_remove_refuses_a_grant_of_another_store(self, like: str) -> None:
        with (
            testing.Store(like) as store,
            testing.Store(like) as another,
            recipes.connect("memory://") as foreign,
            another.connect() as client,
            store.connect() as mine,
        ):
            held = mine.lock("x").acquire()
            for one in (client, foreign):
                with pytest.raises(ValueError, match="no grant of a client of this store"):
                    store.remove(one.lock("x").acquire())
            assert held.verify()

    def test_a_lost_answer_of_acquire_does_not_double(self, store: testing.Store) -> None:
        with store.connect() as client:
            store.drop_reply(client, "acquire", n=2)
            with client.lock("x") as grant:
                assert [holder.token for holder in store.holders("x")] == [grant.token]
                assert store.waiters("x") == []
            assert store.holders("x") == []

    @pytest.mark.parametrize("lose", ["drop_reply", "drop_request"])
    @pytest.mark.parametrize("operation", ["acquire", "try_acquire", "wait", "release", "verify", "close"])
    def test_whatever_is_lost_is_made_good(
        self, store: testing.Store, beside: Any, lose: Any, operation: Any
    ) -> None:
        client = store.connect()
        getattr(store, lose)(client, operation)
        with store.connect() as other, client:
            grant = client.lock("x").try_acquire()
            assert grant is not None
            assert grant.verify()
            assert grant.release()
            theirs = other.lock("x").acquire()
            waiting = beside(client.lock("x").acquire)
            store.wait_for_waiters("x")
            theirs.release()
            waiting.result(SOON_S).release()
        assert store.holders("x") == []
        assert client._runtime.backend.faults == []  # type: ignore[attr-defined]

    def test_a_write_that_is_to_be_settled_is_work_to_be_done(self, store: testing.Store) -> None:
        client = store.connect().open()
        client.counter("x").add()
        runtime: Any = client._runtime
        assert runtime.rests()
        job = Job(runtime.state.session, None, write=Write("~counter/x", None, 1))
        runtime.cleaning[id(job)] = job  # and the cleaner has not begun
        assert not runtime.rests()
        runtime.cleaned(job)
        assert runtime.rests()

    def test_lost_races_need_nobody_to_move_the_clock(
        self, store: testing.Store, beside: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = store.connect().open()
        counter = client.counter("x")
        assert counter.add() == 1
        put, races = MemoryServer._put, iter(range(5))

        def put_after_another(server: Any, op: Any, command: Any) -> Any:
            if next(races, None) is not None:
                server._write(Write(op.exchange.write.key, b"10", 0), next(server._revision))
            return put(server, op, command)

        monkeypatch.setattr(MemoryServer, "_put", put_after_another)
        assert beside(counter.add).result(SOON_S) == 11

    @pytest.mark.parametrize("lose", ["drop_reply", "drop_request"])
    def test_a_lost_opening_is_made_good_by_a_call_and_told_by_open(
        self, store: testing.Store, lose: Any
    ) -> None:
        client = store.connect()
        getattr(store, lose)(client, "open")
        assert client.lock("x").acquire().held
        other = store.connect()
        getattr(store, lose)(other, "open")
        with pytest.raises(recipes.StoreUnavailable, match="the test has lost"):
            other.open()

    def test_lost_renewals_are_tried_again_in_time(self, store: testing.Store) -> None:
        with store.connect() as client:
            grant = client.lock("x").acquire()
            store.drop_request(client, "renew", n=4)
            store.clock.advance(HOUR_S)
            assert grant.held
            store.drop_request(client, "renew", n=1000)
            store.clock.advance(15)
            assert grant.remaining == 0
            with pytest.raises(recipes.LockLost):
                grant.check()

    @pytest.mark.parametrize("error", [recipes.StoreRefused, recipes.StoreFull])
    def test_the_store_says_no(self, store: testing.Store, error: Any) -> None:
        with store.connect() as client:
            store.fail(client, error(store.url, "no room for you"), "acquire")
            with pytest.raises(error, match="no room for you"):
                client.lock("x").acquire()
            assert store.holders("x") == []
            assert client.lock("x").acquire().held

    def test_any_request_may_fail(self, store: testing.Store) -> None:
        with store.connect() as client:
            client.open()
            store.fail(client, recipes.StoreUnavailable(store.url, "cut"), n=3)
            assert client.lock("x").acquire().held

    def test_what_makes_no_sense_is_refused(self, store: testing.Store) -> None:
        with store.connect() as client, recipes.connect("memory://") as foreign:
            with pytest.raises(ValueError, match="unknown operation 'eat': use one of acquire, "):
                store.drop_reply(client, "eat")  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="StoreError"):
                store.fail(client, ValueError("no"))  # type: ignore[arg-type]
            with pytest.raises(ValueError, match="no client of this store"):
                store.drop_request(foreign, "acquire")
            with pytest.raises(ValueError, match="no client of this store"):
                store.expire(foreign)
            with (
                testing.Store() as another,
                pytest.raises(ValueError, match="no client"),
                another.pause(client),
            ):
                pass

    def test_every_request_there_is_has_a_name(self) -> None:
        there_are = {op for op in vars(ops).values() if isinstance(op, type) and issubclass(op, ops.StoreOp)}
        assert set(faults._OPERATIONS) == there_are - {ops.StoreOp}

    @in_loop
    async def test_the_same_in_asyncio(self) -> None:
        async with testing.Store() as store, store.connect_async() as client, store.connect_async() as other:
            store.drop_reply(client, "acquire")
            grant = await client.lock("x").acquire()
            assert [holder.token for holder in store.holders("x")] == [grant.token]
            store.remove(grant)
            assert await grant.verify() is False
            theirs = await other.lock("x").acquire()
            store.expire(other)
            assert store.holders("x") == []
            await store.clock.advance_async(5)
            assert theirs.lost.is_set()
            store.fail(client, recipes.StoreRefused(store.url, "no"), "try_acquire")
            with pytest.raises(recipes.StoreRefused):
                await client.lock("x").try_acquire()
            waiting = awaited(client.lock("x").acquire())
            await waiting
            waiter = awaited(other.lock("x").acquire())
            await store.wait_for_waiters_async("x")
            waiter.cancel()
            await store.clock.advance_async(0)
            assert store.waiters("x") == []


def in_vain(client: Any, store: testing.Store) -> None:
    """Wait a minute for a lock that another client holds."""
    store.connect().lock("theirs").acquire()
    with store.clock.jumping():
        client.lock("theirs").acquire(timeout=60)


ASKING: dict[testing.Operation, Callable[[Any, Any, testing.Store], object]] = {
    "acquire": lambda client, held, store: client.lock("y").acquire(),
    "try_acquire": lambda client, held, store: client.lock("y").try_acquire(),
    "wait": lambda client, held, store: in_vain(client, store),
    "release": lambda client, held, store: held.release(),
    "downgrade": lambda client, held, store: client.rwlock("y").writer.acquire().downgrade(),
    "verify": lambda client, held, store: held.verify(),
    "look": lambda client, held, store: client.lock("x").holders(),
    "read": lambda client, held, store: client.value("y").get(),
    "write": lambda client, held, store: client.value("y").set(b"new"),
    "renew": lambda client, held, store: store.clock.advance(5),
    "open": lambda client, held, store: client.open(),
    "close": lambda client, held, store: client.close(),
}
ALONG: dict[testing.Operation, set[testing.Operation]] = {
    "wait": {"acquire", "release", "renew"},
    "downgrade": {"acquire"},
    "open": {"close"},  # what may have been opened
}
"""What else these calls ask for."""


class TestFaultsOfEachKind:
    """A fault that is accepted strikes the calls that its name is for, and no other; on every store."""

    @pytest.mark.parametrize("like", [*STORES, "cell"])
    @pytest.mark.parametrize("call", get_args(testing.Operation))
    def test_a_call_is_struck_by_the_faults_of_its_name(self, like: str, call: testing.Operation) -> None:
        with testing.Store(like) as store:
            client = store.connect()
            held = client.lock("x").acquire() if call != "open" else None
            given = set()
            for name in get_args(testing.Operation):
                with suppress(ValueError):
                    store.drop_reply(client, name)
                    given.add(name)
            backend: Any = client._runtime.backend
            if call not in given:
                with pytest.raises(recipes.TooWeak):
                    ASKING[call](client, held, store)
                return
            with suppress(recipes.LockTimeout, recipes.StoreUnavailable):
                ASKING[call](client, held, store)
            struck = given - {fault.operation for fault in backend.faults}
            assert struck - ALONG.get(call, set()) == {call}

    @pytest.mark.parametrize("like", ["redlock", "memcached", "cell"])
    @pytest.mark.parametrize("name", ["downgrade", "read", "write"])
    def test_what_such_a_store_is_never_asked_is_refused(self, like: str, name: Any) -> None:
        with testing.Store(like) as store, store.connect() as client:
            for lose in (store.drop_reply, store.drop_request):
                with pytest.raises(
                    ValueError, match=f"this store is never asked {name!r}: use one of acquire, "
                ):
                    lose(client, name)
            with pytest.raises(ValueError, match="never asked"):
                store.fail(client, recipes.StoreRefused(store.url, "no"), name)

    @pytest.mark.parametrize("like", ["memory", "cell"])
    def test_a_fault_for_an_acquire_is_not_spent_on_a_try(self, like: str) -> None:
        with testing.Store(like) as store, store.connect() as client:
            store.fail(client, recipes.StoreRefused(store.url, "no"), "acquire")
            assert client.lock("x").try_acquire()
            with pytest.raises(recipes.StoreRefused):
                client.lock("y").acquire()

    @in_loop
    async def test_the_same_in_asyncio(self) -> None:
        async with testing.Store("cell") as store, store.connect_async() as client:
            grant = await client.lock("x").acquire()
            for name, call in (
                ("acquire", client.lock("y").acquire),
                ("try_acquire", client.lock("z").try_acquire),
                ("verify", grant.verify),
                ("look", client.lock("x").holders),
            ):
                store.fail(client, recipes.StoreRefused(store.url, "no"), name)
                with pytest.raises(recipes.StoreRefused):
                    await call()


class TestLooking:
    def test_who_holds_and_who_waits_in_order(self, store: testing.Store, beside: Any) -> None:
        with store.connect() as client, store.connect() as one, store.connect() as two:
            grant = client.lock("a/b").acquire()
            waiting = beside(one.lock("a/b").acquire)
            store.wait_for_waiters("a/b", 1)
            behind = beside(two.lock("a/b").acquire)
            assert [waiter.client for waiter in store.wait_for_waiters("a/b", 2)] == [one, two]
            assert store.holders("a/b") == [testing.Contender(grant.token, client)]
            assert store.holders("a") == store.waiters("a") == []
            grant.release()
            waiting.result(SOON_S).release()
            behind.result(SOON_S)
            assert [holder.client for holder in store.holders("a/b")] == [two]

    def test_readers_hold_together(self, store: testing.Store) -> None:
        with store.connect() as client:
            session = client.session.id
            assert session is not None
            for token, kind in enumerate("RRWRW"):
                contender = Contender(str(token), kind=kind, session=session, token=token)
                store._server.queues.setdefault("x", {})[str(token)] = contender
            assert [holder.token for holder in store.holders("x")] == [0, 1]
            assert [waiter.token for waiter in store.waiters("x")] == [2, 3, 4]

    def test_a_writer_that_downgraded_holds_with_its_readers(self, store: testing.Store, beside: Any) -> None:
        with store.connect() as writer, store.connect() as reader, store.connect() as next_writer:
            written = writer.rwlock("x").writer.acquire()
            reading = beside(reader.rwlock("x").reader.acquire)
            store.wait_for_waiters("x", 1)
            waiting = beside(next_writer.rwlock("x").writer.acquire)
            store.wait_for_waiters("x", 2)
            assert [holder.client for holder in store.holders("x")] == [writer]
            written.downgrade()
            read = reading.result(SOON_S)
            assert [holder.token for holder in store.holders("x")] == [written.token, read.token]
            assert [waiter.client for waiter in store.waiters("x")] == [next_writer]
            shown = reader.rwlock("x").reader
            assert [one.token for one in shown.holders()] == [one.token for one in store.holders("x")]
            assert [one.token for one in shown.waiters()] == [one.token for one in store.waiters("x")]
            written.release()
            assert [holder.client for holder in store.holders("x")] == [reader]
            read.release()
            waiting.result(SOON_S).release()
            assert store.holders("x") == store.waiters("x") == []

    @pytest.mark.parametrize("downgraded", [False, True])
    @pytest.mark.parametrize("kinds", [*map("".join, itertools.product("RW", repeat=4))])
    def test_who_holds_is_what_inspection_says(
        self, store: testing.Store, kinds: str, downgraded: bool
    ) -> None:
        with store.connect() as client:
            session = client.session.id
            assert session is not None
            queue = store._server.queues.setdefault("x", {})
            for token, kind in enumerate(kinds, 1):
                mark = DOWNGRADED if downgraded and token == 1 and kind == "W" else ""
                queue[f"x/{token}"] = Contender(f"x/{token}", str(token), kind, session, mark, token)
            found = client.lock("x").contenders()
            assert [one.token for one in store.holders("x")] == [one.token for one in found if one.holds]
            assert [one.token for one in store.waiters("x")] == [one.token for one in found if not one.holds]

    def test_fewer_waiters_than_there_should_be(self, store: testing.Store) -> None:
        with pytest.raises(TimeoutError, match="2 should wait for lock 'x', and there are 0"):
            store.wait_for_waiters("x", 2, timeout=0.01)
        with pytest.raises(TimeoutError, match="1 should wait for lock 'x', and there are 0"):
            asyncio.run(store.wait_for_waiters_async("x", timeout=0.01))

    def test_the_clients_there_are(self, store: testing.Store) -> None:
        mine = store.connect()
        theirs = recipes.connect(store.url, session_timeout=30)
        with pytest.raises(ValueError, match="session_timeout"):
            recipes.connect(store.url, session_timeout=1)
        assert store.clients == [mine, theirs]
        with theirs:
            assert theirs.session.timeout == 30
        assert store.clients == [mine]
        assert repr(store) == f"<Store {store.url}: 1 clients>"


class TestLifetime:
    def test_stores_are_foreign_contenders(self) -> None:
        with (
            testing.Store() as one,
            testing.Store() as two,
            one.connect() as here,
            two.connect() as there,
            here.lock("x"),
        ):
            assert there.lock("x").try_acquire()
            one.clock.advance(5)
            assert two.clock.now == 1000

    def test_closing_ends_calls_in_progress_and_takes_the_url_back(self, beside: Any) -> None:
        store = testing.Store()
        with store:
            client, other = store.connect(), store.connect()
            client.lock("x").acquire()
            waiting = beside(other.lock("x").acquire)
            store.wait_for_waiters("x")
        with pytest.raises(recipes.ClientClosed):
            waiting.result(SOON_S)
        assert store.clients == []
        with recipes.connect(store.url) as foreign:
            assert foreign.lock("x").try_acquire()

    def test_a_closed_store_makes_no_clients(self) -> None:
        with testing.Store() as store:
            pass
        for connect in (store.connect, store.connect_async):
            with pytest.raises(RuntimeError, match=r"this store is closed; make another testing.Store\(\)"):
                connect()
        assert store.clients == []

    @in_loop
    async def test_closing_in_asyncio_closes_clients_of_both_apis(self) -> None:
        async with testing.Store() as store:
            client = await store.connect_async().open()
            blocking = store.connect()
            grant = await client.lock("x").acquire()
            waiting = awaited(store.connect_async().lock("x").acquire())
            await store.wait_for_waiters_async("x")
        with pytest.raises(recipes.ClientClosed):
            await waiting
        assert client.session.state == blocking.session.state == "closed"
        assert not grant.held

    def test_what_is_told_to_a_loop_that_is_gone_holds_nothing_up(self) -> None:
        loop, now = asyncio.new_event_loop(), ManualTime()
        box = ManualTaskMailbox(now, loop, threading.get_ident())
        with now.changed:
            now.park(box, 1005)
        loop.close()
        now.move(1005)
        assert now.settled()

    def test_a_client_whose_loop_is_gone_holds_nothing_up(self, store: testing.Store) -> None:
        async def leave() -> None:
            client = await store.connect_async().open()
            await client.lock("x").acquire()

        asyncio.run(leave())
        with store.connect() as client:
            assert client.lock("x").try_acquire() is None
            store.clock.advance(15)
            assert client.lock("x").try_acquire()


class Service:
    """A user's: one of several workers at a time, until it is told to stop or loses the lock."""

    def __init__(self, url: str, running: list[Service]) -> None:
        self.client = recipes.connect(url)
        self.running = running
        self.most = 0
        self.stopped = threading.Event()
        self.done = threading.Event()

    def work(self) -> None:
        with self.client, self.client.lock("job") as grant:
            grant.lost.add_callback(lambda lost: self.stopped.set())
            self.running.append(self)
            self.most = len(self.running)
            try:
                self.stopped.wait(SOON_S)
                grant.check()
            finally:
                self.running.remove(self)
                self.done.set()


class TestAService:
    def test_two_workers_never_both_run(self, store: testing.Store, beside: Any) -> None:
        running: list[Service] = []
        one, two = Service(store.url, running), Service(store.url, running)
        working = [beside(one.work)]
        store.clock.advance(0)
        while not store.holders("job"):
            store.clock.advance(0)
        working.append(beside(two.work))
        store.wait_for_waiters("job")
        store.clock.advance(HOUR_S)
        assert [contender.client for contender in store.holders("job")] == [one.client]
        one.stopped.set()
        working[0].result(SOON_S)
        two.stopped.set()
        working[1].result(SOON_S)
        assert (one.most, two.most) == (1, 1)

    def test_the_loss_of_the_lock_stops_the_job(self, store: testing.Store, beside: Any) -> None:
        running: list[Service] = []
        one, two = Service(store.url, running), Service(store.url, running)
        first = beside(one.work)
        while not store.holders("job"):
            store.clock.advance(0)
        second = beside(two.work)
        store.wait_for_waiters("job")
        with store.pause(one.client):
            store.clock.advance(14)
            assert one.done.wait(SOON_S)
            with pytest.raises(recipes.LockLost):
                first.result(SOON_S)
            store.clock.advance(1)
        two.stopped.set()
        second.result(SOON_S)
        assert two.most == 1


@pytest.mark.parametrize(
    ("n", "error"), [(0, ValueError), (-1, ValueError), ("2", TypeError), (True, TypeError)]
)
def test_a_fault_strikes_at_least_once(store: testing.Store, n: Any, error: type[Exception]) -> None:
    """One that never strikes proves nothing."""
    with pytest.raises(error, match="n is"):
        store.drop_reply(store.connect(), "acquire", n=n)
