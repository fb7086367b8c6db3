"""A release hands on inside the client: the next in line does not wait for the store (S2, S3, L3)."""

from __future__ import annotations

import pytest

from tests.contract.tap import Act
from tests.contract.world import Party, World

TIMED = ("glance", "look")
"""What those that wait ask now and then by themselves, on a store that notifies nobody."""


def silence(world: World, party: Party) -> None:
    """Have nothing of this client answered, but for looks that come by themselves: one may be under way."""
    party.tap.silence(but=() if world.store.notifies else TIMED)


@pytest.mark.needs("hands_on")
class HandingOn:
    """What threads or tasks of one client have of each other's releases.

    While the tap is silent no request of the client is answered, and no event of the store arrives.
    """

    def test_the_next_of_the_client_holds_while_the_store_is_silent(self, world: World) -> None:
        a = world.client()
        first = a.acquire("x")
        waiting = a.queue_up("x")
        silence(world, a)
        with a.tap.counting() as asked:
            releasing = world.api.start(first.release)
            second = waiting.result()
        assert second.held
        assert not first.held
        assert second.token > first.token
        written = [one for one in asked if one.parts[0] not in TIMED]
        assert len(written) <= 1, "the deletion alone, if it was sent by then"
        assert len(world.store.contenders("x")) == 2
        assert not releasing.done
        a.tap.heal()
        assert releasing.result()
        assert a.verify(second)
        a.release(second)
        assert world.store.everything() == []

    def test_a_chain_goes_on_while_the_deletions_are_under_way(self, world: World) -> None:
        a = world.client()
        grant = a.acquire("x")
        waiting = [a.queue_up("x") for _ in range(4)]
        tokens, releasing = [grant.token], []
        silence(world, a)
        for n, running in enumerate(waiting):
            assert [later.done for later in waiting[n:]] == [False] * (4 - n)
            releasing.append(world.api.start(grant.release))
            grant = running.result()
            tokens.append(grant.token)
        a.tap.heal()
        assert all(running.result() for running in releasing)
        assert tokens == sorted(set(tokens))
        a.release(grant)
        assert world.store.everything() == []

    def test_one_that_comes_while_the_deletion_is_under_way_holds_at_once(self, world: World) -> None:
        a = world.client()
        first = a.acquire("x")
        lost = [a.tap.fail(Act.LOSE_REQUEST, matches=lambda asked: asked.behind) for _ in range(50)]
        assert world.api.do(lambda: first.release(wait=False))
        second = a.acquire("x")
        assert second.held
        assert second.token > first.token
        assert len(world.store.contenders("x")) == 2
        for fault in lost:
            fault.armed = False
        assert a.wait_clean()
        assert len(world.store.contenders("x")) == 1
        a.release(second)

    def test_another_client_in_between_is_not_overtaken(self, world: World) -> None:
        a, b = world.client(), world.client()
        first = a.acquire("x")
        between, last = b.queue_up("x"), a.queue_up("x")
        a.release(first)
        second = between.result()
        assert not last.done
        b.release(second)
        third = last.result()
        assert first.token < second.token < third.token

    def test_a_loss_hands_nothing_on(self, world: World) -> None:
        a = world.client()
        lock = a.lock("x", max_hold=5.0)
        lost = world.api.do(lambda: lock.acquire(timeout=5))
        waiting = a.queue_up("x")
        silence(world, a)
        assert a.wait_lost(lost, 10)
        assert not a.release(lost)
        assert not waiting.wait(0.2), "its holder may not know yet"
        a.tap.heal()
        assert waiting.result().held

    def test_a_grant_that_guards_writes_is_deleted_first(self, world: World) -> None:
        a = world.client()
        value = a.client.value("v")
        guarding = a.acquire("x")
        guarding.guarding(value)
        waiting = a.queue_up("x")
        silence(world, a)
        releasing = world.api.start(guarding.release)
        assert not waiting.wait(0.2), "a write of the first may be on its way"
        a.tap.heal()
        assert releasing.result()
        assert waiting.result().held

    def test_readers_and_writers_hand_on_by_their_rules(self, world: World) -> None:
        a = world.client()
        writing = a.writer.acquire("x")
        readers = [a.reader.queue_up("x") for _ in range(2)]
        writer = a.writer.queue_up("x")
        silence(world, a)
        released = [world.api.start(writing.release)]
        one, two = (running.result() for running in readers)
        released.append(world.api.start(one.release))
        assert not writer.wait(0.1), "a reader holds still"
        released.append(world.api.start(two.release))
        a.tap.heal()
        last = writer.result()
        assert all(running.result() for running in released)
        assert writing.token < min(one.token, two.token) < max(one.token, two.token) < last.token

    def test_behind_a_writer_that_downgraded_the_next_holds_after_its_release(self, world: World) -> None:
        """Where a store shows no writer that it was marked, it is the store that says so."""
        a = world.client()
        grant = a.writer.acquire("x")
        a.downgrade(grant)
        waiting = a.writer.queue_up("x")
        assert not waiting.wait(0.1)
        a.release(grant)
        assert waiting.result().token > grant.token

    def test_the_last_to_leave_hands_on(self, world: World) -> None:
        a = world.client()
        again = a.client.rlock("x")
        outer, inner = (world.api.do(lambda: again.acquire(timeout=5)) for _ in range(2))
        waiting = a.queue_up("x")
        silence(world, a)
        assert world.api.do(inner.release)
        assert not waiting.wait(0.1)
        releasing = world.api.start(outer.release)
        assert waiting.result().held
        a.tap.heal()
        assert releasing.result()
