"""Contenders that are not ours, or nobody's: waited for, and never deleted (S7, fault 31)."""

from __future__ import annotations

from typing import Any

import pytest

from recipes import LockTimeout
from tests.contract.world import Party, World, until


def comes_when_nobody_is_left(world: World, grant: Any, holder: Party, waiter: Party) -> None:
    """See that another client is kept out while any of ours holds, also while one hands over to the next."""
    waiting = waiter.queue_up("x")
    for held, party in ((lambda: grant, holder), (waiting.result, waiter)):
        one = held()
        with pytest.raises(AssertionError):
            world.store.plant("x", "foreign")
        party.release(one)
    world.store.plant("x", "foreign")
    assert holder.try_acquire("x") is None


class Foreign:
    """Who else may stand in a queue."""

    @pytest.mark.parametrize("kind", ["foreign", "orphan"])
    def test_it_is_waited_for_and_never_deleted(self, world: World, kind: str) -> None:
        a, b = world.client(), world.client()
        foreign = world.store.plant("x", kind)
        assert a.try_acquire("x") is None
        with pytest.raises(LockTimeout):
            a.acquire("x", timeout=0.2)
        waiting = [(a, a.queue_up("x")), (b, b.queue_up("x"))]
        assert world.store.contenders("x")[0] == foreign
        world.store.remove(foreign)
        if not world.store.has_queue:
            assert until(lambda: any(running.done for _, running in waiting), 5)
            waiting.sort(key=lambda one: not one[1].done)
        (holder, first), (_, second) = waiting
        grant = first.result()
        assert not second.done
        holder.release(grant)
        assert second.result().held

    @pytest.mark.parametrize("kind", ["foreign", "orphan"])
    def test_one_that_comes_while_we_hold_waits_behind_us_and_before_others(
        self, world: World, kind: str
    ) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        if not (world.store.has_queue and (kind == "orphan" or world.store.foreign_can_join_while_held)):
            comes_when_nobody_is_left(world, grant, a, b)
            return
        foreign = world.store.plant("x", kind)
        waiting = b.queue_up("x")
        assert grant.held
        assert a.verify(grant)
        a.release(grant)
        assert not waiting.wait(0.2)
        assert world.store.contenders("x")[0] == foreign
        world.store.remove(foreign)
        assert waiting.result(6).held

    def test_what_nobodys_layout_knows_is_left_alone_and_reported_once(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        a, b = world.client(), world.client()
        foreign = world.store.plant("x", "malformed")
        if world.store.malformed_blocks:
            assert a.try_acquire("x") is None
            waiting = b.queue_up("x")
            world.store.remove(foreign)
            assert b.release(waiting.result(6))
            return
        grant = a.acquire("x", timeout=5)
        waiting = b.queue_up("x")
        a.release(grant)
        assert b.release(waiting.result(6))
        a.release(a.acquire("x", timeout=5))
        assert world.store.contenders("x") == [foreign]
        told = [record.getMessage() for record in caplog.records if "no contender" in record.getMessage()]
        assert 1 <= len(told) <= 2  # once for each client, however often it looks

    def test_only_contenders_of_the_own_lock_matter(self, world: World) -> None:
        world.store.plant("xy", "foreign")
        assert world.client().acquire("x", timeout=5).held
