"""Readers together, a writer alone, in order of arrival; a writer may become a reader (S6)."""

from __future__ import annotations

from typing import Any

import pytest

from recipes import LockLost, LockTimeout, StoreUnavailable, UpgradeError, WouldDeadlock
from tests.contract.reading_interrupted import ReadingInterrupted
from tests.contract.tap import Act, Asked
from tests.contract.world import LONG, SHORT, Party, World


class Reading(ReadingInterrupted):
    """What a read-write lock is for."""

    def test_readers_hold_together_and_a_writer_waits_for_the_last(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        first, second = a.reader.acquire("x"), b.reader.acquire("x")
        assert first.held
        assert second.held
        assert [first.mode, second.mode] == ["shared", "shared"]
        assert c.writer.try_acquire("x") is None
        writing = c.writer.queue_up("x")
        a.release(first)
        assert not writing.wait(0.2)
        b.release(second)
        grant = writing.result()
        assert grant.mode == "exclusive"
        assert grant.token > second.token > first.token

    def test_a_writer_keeps_everybody_out(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.writer.acquire("x")
        assert b.reader.try_acquire("x") is None
        assert b.writer.try_acquire("x") is None
        with pytest.raises(LockTimeout):
            b.reader.acquire("x", timeout=0.2)
        with pytest.raises(LockTimeout):
            b.writer.acquire("x", timeout=0.2)
        reading = b.reader.queue_up("x")
        a.release(grant)
        assert reading.result().held

    def test_a_plain_lock_of_the_name_is_a_writer(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        assert b.reader.try_acquire("x") is None
        assert b.writer.try_acquire("x") is None
        reading = b.reader.queue_up("x")
        a.release(grant)
        shared = reading.result()
        assert a.try_acquire("x") is None
        waiting = a.queue_up("x")
        b.release(shared)
        grant = waiting.result()
        writing = b.writer.queue_up("x")
        a.release(grant)
        assert writing.result().held

    def test_arrival_decides_and_a_reader_does_not_overtake_a_waiting_writer(self, world: World) -> None:
        a, b, c, d = (world.client() for _ in range(4))
        reader = a.reader.acquire("x")
        writing = b.writer.queue_up("x")
        assert c.reader.try_acquire("x") is None
        readings = [c.reader.queue_up("x"), d.reader.queue_up("x")]
        last = a.writer.queue_up("x")
        a.release(reader)
        writer = writing.result()
        assert not any(reading.done for reading in readings)
        b.release(writer)
        run = [reading.result() for reading in readings]
        assert all(grant.held for grant in run)
        assert not last.done
        for party, grant in zip((c, d), run, strict=True):
            party.release(grant)
        assert last.result().held

    def test_a_writer_that_gives_up_lets_the_readers_behind_it_in(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        a.reader.acquire("x")
        writing = b.writer.queue_up("x", timeout=4.0)
        reading = c.reader.queue_up("x")
        assert isinstance(writing.error(), LockTimeout)
        assert reading.result(5).held

    def test_one_client_may_do_it_all(self, world: World) -> None:
        client = world.client()
        first = client.reader.acquire("x")
        assert client.reader.acquiring("x").result().held
        writing = client.writer.queue_up("x")
        reading = client.reader.queue_up("x")
        for grant in client.client.grants:
            client.release(grant)
        writer = writing.result()
        assert not reading.done
        assert not first.held
        client.release(writer)
        assert reading.result().held

    def test_downgrade_lets_the_next_readers_in_and_no_writer(self, world: World) -> None:
        a, b, c, d = (world.client() for _ in range(4))
        grant = a.writer.acquire("x")
        token, before = grant.token, world.store.contenders("x")
        readings = [b.reader.queue_up("x"), c.reader.queue_up("x")]
        writing = d.writer.queue_up("x")
        late = b.reader.queue_up("x")
        a.downgrade(grant)
        run = [reading.result() for reading in readings]
        assert all(reader.held and reader.token > token for reader in run)
        assert (grant.held, grant.mode, grant.token) == (True, "shared", token)
        assert a.verify(grant)
        assert world.store.contenders("x")[:1] == before
        assert not writing.done
        assert not late.done
        a.downgrade(grant)  # nothing more happens
        for party, reader in zip((b, c), run, strict=True):
            party.release(reader)
        assert not writing.wait(0.2)
        assert a.release(grant)
        d.release(writing.result())
        assert late.result().held
        (told,) = world.heard.of("lock.downgraded")
        assert (told.name, told.token, told.mode) == ("x", token, "shared")

    def test_readers_that_come_after_a_downgrade_hold_beside_it(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.writer.acquire("x")
        a.downgrade(grant)
        tried = b.reader.try_acquire("x")
        assert tried.held
        asked = b.reader.acquiring("x").result()
        assert asked.held
        again = a.reader.acquire("x")  # the same owner
        assert again.held
        assert b.writer.try_acquire("x") is None
        for party, one in ((b, tried), (b, asked), (a, again)):
            party.release(one)
        assert b.writer.try_acquire("x") is None
        a.release(grant)
        assert b.writer.try_acquire("x").held

    def test_a_reader_behind_a_writer_behind_a_downgraded_one_waits(self, world: World) -> None:
        a, b, c = (world.client() for _ in range(3))
        grant = a.writer.acquire("x")
        writing = b.writer.queue_up("x")
        reading = c.reader.queue_up("x")
        a.downgrade(grant)
        assert not reading.wait(0.3)
        assert c.reader.try_acquire("x") is None
        a.release(grant)
        b.release(writing.result())
        assert reading.result().held

    def test_a_downgrade_reaches_a_reader_of_the_same_client(self, world: World) -> None:
        client = world.client()
        grant = client.writer.acquire("x")
        reading = client.reader.queue_up("x")
        client.downgrade(grant)
        assert reading.result(5).held
        assert client.reader.acquiring("x").result(6).held

    @pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_REPLY])
    def test_a_downgrade_whose_answer_is_lost_is_done_once(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        grant = a.writer.acquire("x")
        reading = b.reader.queue_up("x")
        a.tap.fail(act)
        a.downgrade(grant)
        assert reading.result().held
        assert a.verify(grant)
        assert world.heard.of("lock.downgraded", token=grant.token)

    def test_without_an_answer_a_downgrade_raises_and_counts_as_shared(self, world: World) -> None:
        a = world.client(frail=True, request_timeout=2.0, session_timeout=15)
        b = world.client()
        grant = a.writer.acquire("x")
        a.line.silence()
        with pytest.raises(StoreUnavailable):
            a.downgrade(grant)
        assert (grant.held, grant.mode) == (True, "shared")
        a.line.heal()
        self._again(a, grant)
        assert b.reader.acquire("x").held

    def _again(self, party: Party, grant: Any) -> None:
        for _ in range(20):  # until the way to the store is there again
            try:
                return party.downgrade(grant)
            except StoreUnavailable:
                continue
        raise AssertionError("no answer after the line was healed")

    @pytest.mark.parametrize("how", ["lost", "released"])
    def test_a_downgrade_of_what_ends_while_the_store_is_asked_raises(self, world: World, how: str) -> None:
        client = world.client(**LONG)
        grant = client.writer.acquire("x")

        def end(asked: Asked) -> None:
            if asked.behind or not grant.held:
                return
            if how == "lost":
                grant._hold.session.clock.deadline = 0.0
            else:
                grant._hold.release(client.client._runtime.now())

        client.tap.before = end
        with pytest.raises(LockLost, match="not renewed" if how == "lost" else "released"):
            client.downgrade(grant)
        assert not grant.held
        assert not world.heard.of("lock.downgraded")

    def test_only_what_is_held_can_be_downgraded(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.writer.acquire("x")
        world.store.remove(world.store.contenders("x")[0])
        with pytest.raises(LockLost):
            a.downgrade(grant)
        assert not grant.held
        other = b.writer.acquire("x")
        b.release(other)
        with pytest.raises(LockLost, match="released"):
            b.downgrade(other)
        assert not hasattr(b.reader.acquire("x"), "downgrade")

    def test_read_to_write_is_refused_at_once(self, world: World) -> None:
        client = world.client()
        grant = client.reader.acquire("x")
        before = world.store.contenders("x")
        with pytest.raises(UpgradeError) as refused:
            client.writer.acquire("x", timeout=5)
        assert refused.value.token == grant.token
        with pytest.raises(UpgradeError):
            client.acquire("x")  # the plain lock of the name
        assert client.writer.try_acquire("x") is None
        assert world.store.contenders("x") == before
        assert client.verify(grant)
        client.release(grant)
        writer = client.writer.acquire("x")
        with pytest.raises(WouldDeadlock) as waits:
            client.reader.acquire("x")
        assert not isinstance(waits.value, UpgradeError)
        client.downgrade(writer)
        with pytest.raises(UpgradeError):
            client.writer.acquire("x")

    def test_reading_again_behind_a_writer_that_waits_for_me_is_refused(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.reader.acquire("x")
        again = a.reader.acquire("x", timeout=5)  # nobody waits: fine
        a.release(again)
        writing = b.writer.queue_up("x")
        with pytest.raises(WouldDeadlock) as refused:
            a.reader.acquire("x", timeout=5)
        assert refused.value.token == grant.token
        assert a.wait_clean()
        assert len(world.store.contenders("x")) == 2
        a.release(grant)
        assert writing.result().held

    def test_a_guest_that_is_lost_lets_the_writer_in(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**SHORT)
        grant = a.reader.acquire("x")
        writing = b.writer.queue_up("x")
        world.store.end_session(a.client)
        assert writing.result().held
        assert a.wait_lost(grant, 5)

    def test_a_waiting_reader_whose_contender_was_deleted_queues_again(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        grant = a.writer.acquire("x")
        reading = b.reader.queue_up("x")
        world.store.remove(world.store.contenders("x")[1])
        world.heard.wait("lock.requeued", name="x")
        a.release(grant)
        assert reading.result(5).held
        assert len(world.store.contenders("x")) == 1

    def test_every_event_says_which_side_it_was(self, world: World) -> None:
        client = world.client()
        client.release(client.reader.acquire("x"))
        client.release(client.writer.acquire("x"))
        told = [(one.recipe, one.mode) for one in world.heard.of("lock.acquired", name="x")]
        assert told == [("rwlock", "shared"), ("rwlock", "exclusive")]

    def test_both_sides_in_a_with_statement(self, world: World) -> None:
        client = world.client()

        def write(grant: Any) -> int:
            client.downgrade(grant)
            return int(grant.token)

        token = client.writer.enter("x", write)
        assert client.reader.enter("x", lambda grant: grant.token) > token
        assert world.store.everything() == []
