"""Multi-locks: several locks, readers, writers and permits together, all or none."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from recipes import (
    LockLost,
    LockTimeout,
    QueueFull,
    SemaphoreGrant,
    SessionLost,
    TooWeak,
    UpgradeError,
    WouldDeadlock,
    etcd,
    events,
    zookeeper,
)
from recipes._programs.hold import INTERRUPTED
from recipes.fencing import MemoryGate
from tests.contract.world import LONG, SHORT, Party, World, until, without_waiting
from tests.pace import Pace


def multilock(party: Party, *names: str, **options: Any) -> Any:
    return party.client.multilock(*(party.client.lock(name) for name in names), **options)


def acquire(party: Party, made: Any, **options: Any) -> Any:
    return party.api.do(lambda: made.acquire(**{"timeout": 10, **options}))


def queue_up(party: Party, made: Any, **options: Any) -> Any:
    with party.tap.one_more():
        return party.api.start(lambda: made.acquire(**{"timeout": 20, **options}))


def part(party: Party, grant: Any, name: str) -> Any:
    return grant[party.client.lock(name)]


class Interrupted(BaseException):
    """What strikes, in this test, as a call returns."""


def interrupted(*_: Any) -> None:
    raise Interrupted


class MultiLocks:
    """`Client.multilock`: what is held together."""

    @pytest.mark.needs("has_queue")
    def test_all_of_its_parts_are_held_and_all_are_given_back(self, world: World) -> None:
        a, b = world.client(), world.client()
        lock, catalog, gpu = a.client.lock("l"), a.client.rwlock("c"), a.client.semaphore("g", 3)
        reader, queues = b.reader.acquire("c"), ("l", "c", "~semaphore/g")
        grant = acquire(a, a.client.multilock(gpu.of(2), lock, catalog.reader))
        assert grant.held
        assert a.verify(grant)
        parts = [grant[lock], grant[catalog.reader], grant[gpu]]
        assert sorted(map(id, a.client.grants)) == sorted(map(id, parts))
        assert all(one.held and a.verify(one) for one in parts)
        assert grant[lock].token
        assert (grant[gpu].weight, grant[catalog.reader].mode) == (2, "shared")
        assert isinstance(grant[gpu], SemaphoreGrant) != a.api.is_async
        assert 0 < grant.remaining <= min(one.remaining for one in parts) + 0.1
        assert b.try_acquire("l") is None
        assert b.writer.try_acquire("c") is None
        assert reader.held
        assert [len(world.store.contenders(queue)) for queue in queues] == [1, 2, 1]
        assert a.release(grant)
        assert not any(one.held for one in (grant, *parts))
        assert (grant.lost_reason, grant.lost.is_set(), a.client.grants) == (None, False, [])
        assert not a.release(grant)
        assert [len(world.store.contenders(queue)) for queue in queues] == [0, 1, 0]

    @pytest.mark.needs("has_queue")
    def test_they_are_acquired_in_one_order_and_released_in_the_reverse(self, world: World) -> None:
        a = world.client()
        gpu, made = a.client.semaphore("a", 1), [a.client.lock(name) for name in ("b", "a.b", "a", "B", "ä")]
        for parts in ((gpu, *made), (*reversed(made), gpu)):
            before = len(world.heard.of("lock."))
            a.release(acquire(a, a.client.multilock(*parts)))
            order = [said.name for said in world.heard.of("lock.")[before:]]
            assert order == [*order[:5], *reversed(order[:5])]
            assert order[:5] == sorted(order[:5], key=lambda name: a.client.lock(name)._queue)
        assert [said.name for said in world.heard.of("semaphore.acquired")] == ["a", "a"]

    def test_opposite_orders_never_wait_for_each_other(self, world: World) -> None:
        a, b = world.client(), world.client()
        names, inside = ["x", "y", "z"], threading.Lock()

        def work(party: Party, *names: str) -> None:
            made = multilock(party, *names)
            for _ in range(8):
                grant = acquire(party, made)
                assert inside.acquire(blocking=False)
                inside.release()
                party.release(grant)

        jobs = [(party, order) for party in (a, b) for order in (names, names[::-1])]
        running = [world.api.spawn(lambda job=job: work(job[0], *job[1])) for job in jobs]
        for one in running:
            one.result(30)
        assert world.store.everything() == []

    def test_while_one_is_waited_for_those_before_it_are_held_and_those_behind_it_free(
        self, world: World
    ) -> None:
        a, b = world.client(), world.client()
        held = b.acquire("b")
        waiting = queue_up(a, multilock(a, "c", "a", "b"))
        assert b.try_acquire("a") is None
        assert b.release(b.try_acquire("c"))
        b.release(held)
        grant = waiting.result()
        assert all(part(a, grant, name).held for name in "abc")

    def test_one_timeout_is_for_all_and_nothing_is_left_when_it_is_over(self, world: World) -> None:
        a, b = world.client(), world.client()
        first, second = b.acquire("a"), b.acquire("b")
        made = multilock(a, "a", "b")
        with Pace() as pace:
            waiting = queue_up(a, made, timeout=6)
            assert not waiting.wait(0.5)
            b.release(first)  # long before the time is over, also where a thread is late
            error = waiting.error()
        assert isinstance(error, LockTimeout)
        assert error.lock == "b"
        assert 5.9 < pace.seconds < 6.3 + pace.late_s()
        assert a.wait_clean()
        assert a.client.grants == []
        assert len(world.store.everything()) == 1
        assert world.heard.names(recipe="multilock") == ["multilock.timeout"]
        assert b.verify(second)
        with pytest.raises(LockTimeout, match="multilock 'a, b' was not acquired"):
            acquire(a, made, timeout=0)

    def test_a_try_takes_all_or_none_and_waits_for_nothing(self, world: World) -> None:
        a, b = world.client(), world.client()
        held = b.acquire("b")
        made = multilock(a, "a", "b", "c")
        for _ in range(2):
            assert a.api.do(made.try_acquire) is None
            assert len(world.store.everything()) == 1
        b.release(held)
        grant = a.api.do(made.try_acquire)
        assert grant.held
        assert len(world.store.everything()) == 3
        assert b.api.do(multilock(b, "c", "d").try_acquire) is None
        assert without_waiting(a, lambda: acquire(a, multilock(a, "e"), timeout=0)).held
        assert a.release(grant)

    def test_of_tries_that_overlap_at_most_one_has_all(self, world: World) -> None:
        a, b = world.client(), world.client()

        def work(party: Party, *names: str) -> int:
            made, got = multilock(party, *names), 0
            for _ in range(10):
                grant = party.api.do(made.try_acquire)
                if grant is not None:
                    got += 1
                    assert part(party, grant, "y").held
                    assert world.store.contenders("y")
                    party.release(grant)
            return got

        running = [world.api.spawn(lambda: work(a, "x", "y")), world.api.spawn(lambda: work(b, "y", "z"))]
        for one in running:
            one.result(30)
        assert world.store.everything() == []

    def test_lost_when_one_part_is_lost(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        told: list[Any] = []
        grant = acquire(a, multilock(a, "a", "b"))
        grant.lost.add_callback(told.append)
        lost, kept = part(a, grant, "b"), part(a, grant, "a")
        world.store.remove(world.store.contenders("b")[0])
        assert a.wait_lost(grant, 5)
        assert until(lambda: told, 5)
        assert told == [grant]
        assert (grant.held, grant.remaining, grant.lost.is_set()) == (False, 0, True)
        assert grant.lost_reason == f"lock 'b' is lost: {lost.lost_reason}"
        with pytest.raises(LockLost, match="multilock 'a, b' is no longer held: lock 'b' is lost: its cont"):
            grant.check()
        with pytest.raises(LockLost):
            grant.progress()
        assert not a.verify(grant)
        assert kept.held  # until it is released
        assert b.try_acquire("a") is None
        assert not a.release(grant)
        assert not kept.held
        assert a.wait_clean()
        assert world.store.everything() == []
        (said,) = world.heard.wait("multilock.lost")
        assert (said.name, said.reason, said.token) == ("a, b", grant.lost_reason, None)
        assert world.heard.names(recipe="multilock") == ["multilock.acquired", "multilock.lost"]

    def test_lost_with_its_session_and_verify_sees_it_at_once(self, world: World) -> None:
        a = world.client(**LONG)
        grant = acquire(a, multilock(a, "a", "b"))
        assert a.verify(grant)
        world.store.end_session(a.client)
        assert not a.verify(grant)
        assert not grant.held
        assert grant.lost_reason
        assert not a.release(grant)

    def test_verify_asks_for_every_part(self, world: World) -> None:
        a = world.client(**LONG)
        for name in ("a", "b"):
            grant = acquire(a, multilock(a, "a", "b"))
            world.store.remove(world.store.contenders(name)[0])
            assert not a.verify(grant)
            assert grant.lost_reason.startswith(f"lock '{name}' is lost")
            assert not a.release(grant)
            assert a.wait_clean()
            assert world.store.everything() == []

    def test_held_no_longer_than_each_part_may_be(self, world: World) -> None:
        a = world.client(**LONG)
        made = a.client.multilock(a.client.lock("a"), a.client.lock("b", max_hold=4.0))
        grant = acquire(a, made)
        assert grant.remaining <= 4.0
        grant.progress()
        assert a.wait_lost(grant, 10)
        assert "max_hold" in grant.lost_reason
        assert not a.release(grant)
        assert until(lambda: world.store.everything() == [], 5)

    def test_a_part_that_was_released_by_itself_ends_it_without_a_loss(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = acquire(a, multilock(a, "a", "b", "c"))
        assert a.release(part(a, grant, "b"))
        assert (grant.held, grant.lost_reason) == (False, None)
        with pytest.raises(LockLost, match="it was released"):
            grant.check()
        assert b.release(b.acquire("b", timeout=5))
        assert not part(a, grant, "b").held
        a.release(grant)
        assert world.store.everything() == []
        assert not world.heard.of("lock.lost")

    @pytest.mark.needs("has_queue")
    def test_a_part_lost_while_another_is_waited_for_has_all_begin_again(self, world: World) -> None:
        a, b, c = world.client(**SHORT), world.client(), world.client()
        held = b.acquire("b")
        waiting = queue_up(a, multilock(a, "a", "b"))
        (first,) = world.store.contenders("a")
        world.store.remove(first)
        (said,) = world.heard.wait("multilock.requeued")
        assert "removed" in said.reason
        assert until(lambda: len(world.store.everything()) == 3, 5)  # it stands in line again
        assert world.store.contenders("a") != [first]
        b.release(held)
        grant = waiting.result()
        assert a.verify(grant)
        (said,) = world.heard.of("multilock.acquired")
        assert said.attempt == 2
        assert a.release(grant)
        assert c.release(c.acquire("b", timeout=5))
        assert world.store.everything() == []

    def test_the_wait_for_the_next_ends_as_soon_as_a_part_is_lost(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        b.acquire("b")
        made = a.client.multilock(a.client.lock("a", max_hold=0.5), a.client.lock("b"))
        with Pace() as pace:
            waiting = a.api.start(lambda: made.acquire(timeout=8, on_session_lost="fail"))
            error = waiting.error()
        assert isinstance(error, SessionLost)
        assert "multilock 'a, b'" in str(error)
        assert "max_hold" in str(error)
        assert 0.4 < pace.seconds < 3 + pace.late_s()  # sooner than a renewal, or than it reads again
        assert a.wait_clean()
        assert len(world.store.everything()) == 1
        assert world.heard.names(recipe="multilock") == ["multilock.cancelled"]

    def test_it_begins_again_under_the_same_deadline(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        b.acquire("b")
        made = a.client.multilock(a.client.lock("a", max_hold=0.4), a.client.lock("b"))
        with Pace() as pace, pytest.raises(LockTimeout):
            acquire(a, made, timeout=3)
        assert 2.9 < pace.seconds < 3.3 + pace.late_s()
        assert world.heard.of("multilock.requeued")
        assert a.wait_clean()
        assert len(world.store.everything()) == 1

    @pytest.mark.needs("has_queue")
    def test_a_session_that_ends_while_it_waits_has_all_begin_again(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        held = b.acquire("b")
        waiting = queue_up(a, multilock(a, "a", "b"))
        world.store.end_session(a.client)
        world.heard.wait("multilock.requeued")
        assert until(lambda: len(world.store.everything()) == 3, 5)
        b.release(held)
        assert a.release(waiting.result())
        assert world.store.everything() == []

    @pytest.mark.needs("has_queue")
    def test_what_its_owner_holds_is_refused_before_anything_is_acquired(self, world: World) -> None:
        a = world.client()
        mine, read = a.acquire("b"), a.reader.acquire("c")
        catalog = a.client.rwlock("c")
        with a.tap.counting() as asked:
            with pytest.raises(WouldDeadlock):
                acquire(a, multilock(a, "a", "b"))
            with pytest.raises(UpgradeError):
                acquire(a, a.client.multilock(a.client.lock("a"), catalog.writer))
        assert asked == []
        assert a.api.do(multilock(a, "a", "b").try_acquire) is None
        assert a.verify(mine)
        assert a.verify(read)
        assert len(world.store.everything()) == 2

    @pytest.mark.needs("has_queue")
    def test_permits_that_its_owner_holds_are_refused_and_the_other_parts_given_back(
        self, world: World
    ) -> None:
        a, b = world.client(), world.client()
        gpu, lock = a.client.semaphore("g", 2), a.client.lock("a")
        grant = a.api.do(lambda: gpu.acquire(timeout=5))
        theirs = b.client.semaphore("g", 2).of(2)
        waiting = b.api.start(lambda: theirs.acquire(timeout=20))
        b.tap.wait_parked()
        with pytest.raises(WouldDeadlock):  # it would wait for them, and they for this owner
            acquire(a, a.client.multilock(lock, gpu))
        assert a.wait_clean()
        assert world.store.contenders("a") == []
        a.release(grant)
        assert waiting.result().held

    def test_an_rlock_that_its_owner_holds_is_entered_again(self, world: World) -> None:
        a, b = world.client(), world.client()
        rlock, made = a.client.rlock("r"), a.client.multilock(a.client.lock("a"), a.client.rlock("r"))
        outer = acquire(a, rlock)
        grant = acquire(a, made)
        assert grant[rlock].token == outer.token
        assert len(world.store.contenders("r")) == 1
        assert a.release(grant)
        assert outer.held
        grant = a.api.do(made.try_acquire)
        assert a.release(outer)
        assert grant.held
        inner = acquire(a, rlock)  # one that it came to hold by this can be entered too
        assert a.release(grant)
        assert inner.held
        assert b.try_acquire("r") is None
        assert a.release(inner)
        assert world.store.everything() == []

    def test_an_rlock_is_left_again_when_another_part_is_not_to_be_had(self, world: World) -> None:
        a, b = world.client(), world.client()
        rlock = a.client.rlock("a")
        outer = acquire(a, rlock)
        b.acquire("b")
        made = a.client.multilock(a.client.lock("b"), rlock)
        assert a.api.do(made.try_acquire) is None
        with pytest.raises(LockTimeout):
            acquire(a, made, timeout=0.2)
        assert a.client.grants == [outer]
        assert a.release(outer)
        assert a.client.grants == []
        assert world.store.contenders("a") == []

    @pytest.mark.needs("has_queue")
    def test_as_many_wait_as_may_for_each_part(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        a.acquire("b")
        waiting = queue_up(b, multilock(b, "b"))
        with pytest.raises(QueueFull):
            acquire(c, multilock(c, "a", "b"), max_waiters=1)
        assert c.wait_clean()
        assert len(world.store.everything()) == 2
        assert not waiting.done

    def test_those_that_wait_for_a_part_are_told_their_position(self, world: World) -> None:
        a, b = world.client(), world.client()
        told: list[int] = []
        held = [b.acquire(name) for name in "ac"]
        waiting = queue_up(a, multilock(a, "a", "b", "c"), on_queued=told.append)
        b.release(held[0])
        assert until(lambda: told == [1, 1], 5)
        b.release(held[1])
        assert waiting.result().held

    def test_with_enters_and_leaves_all(self, world: World) -> None:
        a = world.client()
        made = multilock(a, "a", "b")
        assert a.api.enter(lambda: made, lambda grant: [one.held for one in (grant, *a.client.grants)]) == [
            True,
            True,
            True,
        ]
        assert world.store.everything() == []
        held = a.api.enter(lambda: made.acquire(timeout=5), lambda grant: grant.held)
        assert held
        assert world.store.everything() == []
        with pytest.raises(ZeroDivisionError):
            a.api.enter(lambda: made, lambda grant: 1 // 0)
        assert world.store.everything() == []

    def test_a_body_that_lost_a_part_ends_as_lost_and_gives_the_others_back(self, world: World) -> None:
        a = world.client(**SHORT)

        def body(grant: Any) -> None:
            world.store.remove(world.store.contenders("b")[0])
            assert until(grant.lost.is_set, 5)

        made = multilock(a, "a", "b")
        for entered in (lambda: made, lambda: made.acquire(timeout=5)):
            with pytest.raises(LockLost, match="lock 'b' is lost"):
                a.api.enter(entered, body)
            assert a.wait_clean()
            assert world.store.everything() == []

    def test_a_block_of_one_that_is_lost_already_is_not_entered(self, world: World) -> None:
        a = world.client(**SHORT)
        grant = acquire(a, multilock(a, "a", "b"))
        world.store.remove(world.store.contenders("a")[0])
        assert a.wait_lost(grant, 5)
        with pytest.raises(LockLost):
            a.api.enter(lambda: grant, lambda _: pytest.fail("the body was entered"))
        assert a.wait_clean()
        assert world.store.everything() == []

    def test_it_is_released_behind_without_waiting(self, world: World) -> None:
        a = world.client()
        grant = acquire(a, multilock(a, "a", "b"))
        assert a.api.do(lambda: grant.release(wait=False))
        assert not grant.held
        assert a.wait_clean()
        assert world.store.everything() == []

    def test_of_two_releases_at_the_same_time_one_says_that_it_was_held(self, world: World) -> None:
        a = world.client()
        for _ in range(5):
            grant = acquire(a, multilock(a, "a", "b", "c"))
            releases = [a.api.start(grant.release) for _ in range(2)]
            assert sorted(one.result() for one in releases) == [False, True]
            assert world.store.everything() == []

    def test_closing_the_client_releases_all(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = acquire(a, multilock(a, "a", "b"))
        a.close()
        assert (grant.held, grant.lost_reason) == (False, None)
        assert b.acquire("a", timeout=5).held
        assert b.acquire("b", timeout=5).held

    def test_its_end_is_reported_if_its_client_is_closed(self, world: World) -> None:
        a = world.client()
        acquire(a, multilock(a, "a", "b"))
        a.close()
        (said,) = world.heard.wait("multilock.released")
        assert said.held_s > 0
        assert world.heard.names(recipe="multilock") == ["multilock.acquired", "multilock.released"]

    def test_its_end_is_reported_if_each_part_is_released_by_itself(self, world: World) -> None:
        a = world.client()
        made = multilock(a, "a", "b")
        for rest in (True, False):
            grant = acquire(a, made)
            assert a.release(part(a, grant, "a"))
            assert "multilock.released" not in world.heard.names(grant=grant._hold.labels["grant"])
            if rest:
                assert a.release(part(a, grant, "b"))
            assert not a.release(grant)
            world.heard.wait("multilock.released", grant=grant._hold.labels["grant"])
        both = ["multilock.acquired", "multilock.released"]
        assert world.heard.names(recipe="multilock") == both * 2
        assert world.store.everything() == []

    def test_one_that_an_interrupt_took_away_is_reported_as_lost(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a = world.client()
        made = multilock(a, "a", "b")
        for method in (made.acquire, made.try_acquire):
            with monkeypatch.context() as patch:
                patch.setattr(type(made), "_granted", interrupted)
                with pytest.raises(Interrupted):
                    a.api.do(method)
            assert a.wait_clean()
        assert world.heard.names(recipe="multilock") == ["multilock.acquired", "multilock.lost"] * 2
        assert {one.reason for one in world.heard.of("multilock.lost")} == {INTERRUPTED}
        assert world.store.everything() == []

    def test_one_that_is_lost_while_it_is_reported_as_acquired_is_reported_as_lost(
        self, world: World
    ) -> None:
        a = world.client()
        ended: list[Any] = []

        def end_once(transition: Any) -> None:
            if transition.event == "multilock.acquired" and not ended:
                ended.append(a.client._runtime.state.session)
                a.client._runtime.session_gone(ended[0], "it ended")

        unsubscribe = events.subscribe(end_once)
        try:
            grant = acquire(a, multilock(a, "a", "b"))
        finally:
            unsubscribe()
        a.release(grant)
        assert world.heard.names(recipe="multilock") == [
            "multilock.acquired",
            "multilock.lost",
            "multilock.requeued",
            "multilock.acquired",
            "multilock.released",
        ]
        assert world.heard.of("multilock.lost")[0].reason == "lock 'a' is lost: it ended"

    @pytest.mark.needs("has_queue")
    def test_it_has_an_id_and_no_token(self, world: World) -> None:
        a = world.client(**SHORT)
        gpu = a.client.semaphore("g", 1)
        grant = acquire(a, a.client.multilock(gpu, a.client.rwlock("z").writer))
        assert (grant.token, grant.mode) == (None, "exclusive")
        assert grant.id == grant[a.client.rwlock("z").writer].id
        with pytest.raises(TooWeak, match="multilock 'z, g' does not give fencing"):
            MemoryGate().admit("x", grant).__enter__()
        assert a.api.do(lambda: gpu.evict(grant[gpu].id))
        assert a.wait_lost(grant, 5)
        a.release(grant)

    def test_a_guard_is_made_of_each_part(self, world: World) -> None:
        a = world.client()
        grant = acquire(a, multilock(a, "a", "b"))
        with pytest.raises(TypeError, match=r"of each grant\[lock\]"):
            etcd.guard(grant)
        with pytest.raises(TypeError, match=r"of each grant\[lock\]"):
            zookeeper.guard(grant, None)
        assert a.release(grant)

    @pytest.mark.needs("has_queue")
    def test_readers_and_permits_alone_are_shared(self, world: World) -> None:
        a, b = world.client(), world.client()
        grants = [
            acquire(one, one.client.multilock(one.client.rwlock("r").reader, one.client.semaphore("s", 2)))
            for one in (a, b)
        ]
        assert [grant.mode for grant in grants] == ["shared", "shared"]

    @pytest.mark.needs("has_queue")
    def test_a_writer_among_its_parts_may_become_a_reader(self, world: World) -> None:
        a, b = world.client(), world.client()
        catalog = a.client.rwlock("c")
        grant = acquire(a, a.client.multilock(catalog.writer, a.client.lock("a")))
        a.downgrade(grant[catalog.writer])
        assert grant.held
        assert b.reader.try_acquire("c").held
        assert a.release(grant)

    @pytest.mark.needs("has_queue")
    def test_its_parts_are_found_by_kind_and_name(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = acquire(a, a.client.multilock(a.client.rwlock("c").reader, a.client.semaphore("s", 2).of(2)))
        assert grant[a.client.rwlock("c").reader].held
        assert grant[a.client.semaphore("s", 2)].weight == 2
        others = [a.client.rwlock("c").writer, a.client.lock("c"), b.client.rwlock("c").reader, "c", 0]
        for other in others:
            with pytest.raises(KeyError):
                grant[other]

    @pytest.mark.needs("has_queue")
    def test_what_cannot_be_held_together_is_refused_before_anything_is_sent(self, world: World) -> None:
        a, b = world.client(), world.client()
        catalog, made = a.client.rwlock("c"), a.client.multilock
        with a.tap.counting() as asked:
            for parts in (
                (),
                (a.client.lock("c"), catalog.reader),
                (catalog.writer, a.client.rwlock("c").reader),
                (a.client.lock("d"), a.client.rlock("d"), a.client.lock("e")),
                (a.client.semaphore("c", 2), a.client.semaphore("c", 3).of(2)),
                (a.client.lock("a"), b.client.lock("b")),
            ):
                with pytest.raises(ValueError, match="multi-lock"):
                    made(*parts)
            for part in (catalog, "c", made(catalog.reader), a.client):
                with pytest.raises(TypeError, match="multi-lock"):
                    made(a.client.lock("a"), part)
            with pytest.raises(ValueError, match="timeout"):
                acquire(a, made(catalog.reader), timeout=-1)
        assert asked == []
        assert acquire(a, made(a.client.semaphore("c", 2), a.client.lock("c"))).held  # not one queue

    def test_its_events(self, world: World) -> None:
        a, b = world.client(), world.client()
        held = b.acquire("b")
        waiting = queue_up(a, multilock(a, "b", "a"))
        b.release(held)
        a.release(waiting.result())
        acquired, released = world.heard.of(recipe="multilock")
        assert (acquired.event, released.event) == ("multilock.acquired", "multilock.released")
        assert (acquired.name, acquired.mode, acquired.attempt) == ("a, b", "exclusive", 1)
        assert acquired.waited_s >= world.heard.of("lock.acquired", name="b")[-1].waited_s > 0
        assert released.held_s > 0
        assert world.heard.names(name="a") == ["lock.acquired", "lock.released"]
