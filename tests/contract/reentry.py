"""The re-entrant lock: one contender, which its owner enters again; the last to leave releases it."""

from __future__ import annotations

from typing import Any

import pytest

from recipes import LockLost, LockTimeout, WouldDeadlock
from tests.contract.world import LONG, SHORT, Party, World, until


def enter(party: Party, name: str = "x", **options: Any) -> Any:
    """Acquire the re-entrant lock as this thread."""
    lock = party.client.rlock(name)
    return party.api.do(lambda: lock.acquire(**options))


def entering(party: Party, name: str = "x", timeout: float | None = 20) -> Any:
    """Acquire it beside the test, and wait until that waits."""
    lock = party.client.rlock(name)
    with party.tap.one_more():
        return party.api.start(lambda: lock.acquire(timeout=timeout))


class Reentry:
    """Entering again, leaving, and what becomes of it on loss."""

    def test_its_owner_enters_again_without_asking_the_store(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        outer = enter(a)
        other = a.client.rlock("x")
        with a.tap.counting() as asked:
            inner = enter(a, timeout=5)
            once = enter(a, timeout=0)
            tried = a.api.do(other.try_acquire)
        assert not asked
        grants = [outer, inner, once, tried]
        assert {grant.token for grant in grants} == {outer.token}
        assert all(grant.held and grant.mode == "exclusive" for grant in grants)
        assert len(world.store.contenders("x")) == 1
        assert sorted(map(id, a.client.grants)) == sorted(map(id, grants))
        assert a.verify(inner)
        waiting = entering(b)
        with a.tap.counting() as asked:
            assert a.release(outer)  # in any order
            assert not a.release(outer)  # each once
            assert a.release(tried)
            assert a.release(once)
        assert not asked
        assert [grant.held for grant in grants] == [False, True, False, False]
        assert outer.lost_reason is None
        assert not waiting.done
        assert a.release(inner)
        assert not a.client.grants
        assert waiting.result(5).token > inner.token
        assert world.heard.names(name="x", token=outer.token) == ["lock.acquired", "lock.released"]
        (said,) = world.heard.of("lock.acquired", token=outer.token)
        assert said.recipe == "rlock"

    def test_another_owner_waits_and_a_plain_lock_is_excluded(self, world: World) -> None:
        client, other = world.client(**LONG), world.client(**LONG)
        outer, inner = enter(client), enter(client)
        beside = entering(client)
        plain = other.client.lock("x")
        assert other.api.do(plain.try_acquire) is None
        client.release(inner)
        assert not beside.done
        client.release(outer)
        assert beside.result(5).token > outer.token

    def test_mixed_with_the_plain_lock_it_would_deadlock(self, world: World) -> None:
        client = world.client(**LONG)
        plain = client.client.lock("x")
        entered = enter(client)
        with pytest.raises(WouldDeadlock, match=r"client\.rlock\(\)"):
            client.api.do(plain.acquire)
        assert client.api.do(plain.try_acquire) is None
        client.release(entered)
        held = client.api.do(plain.acquire)
        with pytest.raises(WouldDeadlock, match=str(held.token)):
            enter(client)
        again = client.client.rlock("x")
        assert client.api.do(again.try_acquire) is None
        client.release(held)

    def test_an_owner_that_waits_for_a_grant_that_it_was_handed_would_deadlock(self, world: World) -> None:
        client = world.client(**LONG)
        kept, handed = enter(client), enter(client)
        locks = [client.client.rlock("x"), client.client.lock("x")]
        if world.store.has_queue:
            shared = client.client.rwlock("x")
            locks += [shared.reader, shared.writer]

        def blocking() -> None:
            with handed:
                for lock in locks:
                    with pytest.raises(WouldDeadlock):
                        lock.acquire(timeout=5)

        async def tasks() -> None:
            async with handed:
                for lock in locks:
                    with pytest.raises(WouldDeadlock):
                        await lock.acquire(timeout=5)

        client.api.start(tasks if client.api.is_async else blocking).result()
        assert (kept.held, handed.held) == (True, False)
        assert isinstance(client.api.start(lambda: locks[0].acquire(timeout=0.2)).error(), LockTimeout)

    def test_any_thread_or_task_may_release(self, world: World) -> None:
        client = world.client(**LONG)
        outer, inner = enter(client), enter(client)
        assert client.api.start(outer.release).result(5)
        assert inner.held
        assert client.api.start(inner.release).result(5)
        assert not world.store.contenders("x")
        assert enter(client).token > outer.token

    def test_all_are_lost_together_and_have_to_be_left(self, world: World) -> None:
        client, other = world.client(**SHORT), world.client(**LONG)
        outer, inner = enter(client), enter(client)
        left = enter(client)
        client.release(left)
        told: list[Any] = []
        for grant in (outer, inner, left):
            grant.lost.add_callback(told.append)
        world.store.end_session(client.client)
        for grant in (outer, inner):
            assert client.wait_lost(grant, 10)
            assert not grant.held
            assert grant.lost_reason
        assert not client.wait_lost(left, 0.1)
        with pytest.raises(LockLost, match="not released"):
            enter(client)
        again = client.client.rlock("x")
        with pytest.raises(LockLost, match="not released"):
            client.api.do(again.try_acquire)
        assert not client.release(inner)
        with pytest.raises(LockLost, match="not released"):
            enter(client)
        held = other.acquire("x", timeout=5)
        other.release(held)
        assert not client.release(outer)
        assert enter(client, timeout=5).token > held.token
        (lost,) = world.heard.wait("lock.lost", name="x")
        assert lost.token == outer.token
        assert until(lambda: set(told) == {outer, inner}, 5)

    def test_blocks_leave_one_after_the_other_and_a_loss_ends_them(self, world: World) -> None:
        client = world.client(**LONG)
        lock = client.client.rlock("x")
        seen: list[Any] = []

        def blocking() -> None:
            with lock as outer, lock, lock.acquire(timeout=5) as inner:
                seen.extend((outer, inner))
                world.store.remove(world.store.contenders("x")[0])
                assert not inner.verify()

        async def tasks() -> None:
            async with lock as outer, lock, lock.acquire(timeout=5) as inner:
                seen.extend((outer, inner))
                world.store.remove(world.store.contenders("x")[0])
                assert not await inner.verify()

        with pytest.raises(LockLost, match="removed"):
            client.api.do(tasks if client.api.is_async else blocking)
        outer, inner = seen
        assert outer.token == inner.token
        assert outer.lost_reason == inner.lost_reason is not None
        assert enter(client, timeout=5).token > outer.token  # all were left

    def test_closing_releases_it(self, world: World) -> None:
        client, other = world.client(**LONG), world.client(**LONG)
        outer, inner = enter(client), enter(client)
        waiting = entering(other)
        client.close()
        assert waiting.result(5).token > outer.token
        assert not outer.held
        assert not inner.held
        assert outer.lost_reason is None
        assert not client.release(inner)
        (said,) = world.heard.of("lock.released", token=outer.token)
        assert said.name == "x"
