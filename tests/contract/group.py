"""Groups: an id has one member at a time, all see the members, and each change reaches what watches."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest

from recipes import (
    AlreadyJoined,
    ClientClosed,
    LockLost,
    LockTimeout,
    Member,
    StoreUnavailable,
    WouldDeadlock,
)
from recipes._run.clock import boot_time
from tests.contract.apis import Running
from tests.contract.interrupts import by_caller
from tests.contract.stores import GROUPS
from tests.contract.tap import RECEIVE, Act
from tests.contract.world import LONG, SHORT, Party, World, until, without_waiting

NAME = "workers"
SOON_S = 10.0
A_MILLION = 10**6
PAUSE_S = 0.01


def join(party: Party, data: bytes = b"", **options: Any) -> Any:
    group = party.client.group(NAME)
    return party.api.do(lambda: group.join(data, **{"timeout": 10, **options}))


def wait_for(party: Party, member_id: str, data: bytes = b"", timeout: float = 20) -> Running:
    """Join beside the test, and wait until that waits."""
    group = party.client.group(NAME)
    with party.tap.one_more():
        return party.api.start(lambda: group.join(data, id=member_id, timeout=timeout))


def members(party: Party) -> tuple[Member, ...]:
    group = party.client.group(NAME)
    found: tuple[Member, ...] = party.api.do(group.members)
    return found


def update(party: Party, membership: Any, data: bytes) -> None:
    party.api.do(lambda: membership.update(data))


def standing(world: World) -> list[str]:
    """Return what really stands in the queue."""
    return world.store.contenders(f"{GROUPS}{NAME}")


class Watcher:
    """One that watches the group."""

    def __init__(self, party: Party) -> None:
        self._api = party.api
        self._watching = party.client.group(NAME).watch()

    def next(self, within_s: float = SOON_S) -> tuple[Member, ...] | None:
        """Return what is new, or None."""
        found: tuple[Member, ...] | None = self._api.do(lambda: self._watching.next(within_s))
        return found

    def until(self, seen: tuple[Member, ...]) -> bool:
        """Wait until it sees this; states on the way may be skipped or not."""
        while (found := self.next()) is not None:
            if found == seen:
                return True
        return False


class Groups:
    """`Client.group`: which members are here, under which ids, and what they say."""

    def test_members_join_and_leave_and_all_see_who_is_here(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        assert members(c) == ()
        one, two = join(a, b"a:1", id="a"), join(b, b"b:2", id="b")
        assert one.held
        assert two.held
        assert (one.member_id, one.data) == ("a", b"a:1")
        assert a.verify(one)
        assert members(a) == members(b) == members(c) == (Member("a", b"a:1"), Member("b", b"b:2"))
        assert a.release(one)
        assert members(c) == (Member("b", b"b:2"),)
        b.release(two)
        assert members(c) == ()
        assert standing(world) == []

    def test_without_an_id_each_is_a_member_of_its_own(self, world: World) -> None:
        a = world.client()
        joined = [join(a) for _ in range(20)]
        assert len({one.member_id for one in joined}) == 20
        assert members(a) == tuple(Member(one.member_id) for one in joined)
        assert without_waiting(a, lambda: join(a, timeout=0)).held

    def test_a_with_statement_leaves(self, world: World) -> None:
        a = world.client()
        group = a.client.group(NAME)
        joined = a.api.enter(
            lambda: group.join(b"x", id="a"), lambda one: (one.member_id, one.data, one.held)
        )
        assert joined == ("a", b"x", True)
        assert standing(world) == []

    def test_a_with_statement_whose_membership_is_lost_says_so(self, world: World) -> None:
        a = world.client(**SHORT)
        group = a.client.group(NAME)

        def body(membership: Any) -> None:
            world.store.end_session(a.client)
            until(lambda: not membership.held, 5)
            threading.Event().wait(0.2)

        with pytest.raises(LockLost) as lost:
            a.api.enter(group.join, body)
        assert (lost.value.lock, lost.value.recipe) == (NAME, "group")

    def test_it_is_told_in_words_of_its_own(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        membership = join(a, id="a")
        waiting = wait_for(b, "a")
        (queued,) = world.heard.wait("group.queued", name=NAME)
        assert queued.position == 1
        world.store.end_session(b.client)
        world.heard.wait("group.requeued", name=NAME)
        world.heard.wait("group.queued", 2, name=NAME)
        a.release(membership)
        b.release(waiting.result())
        (joined, again) = world.heard.wait("group.joined", 2, name=NAME)
        assert (joined.token, joined.what, again.attempt) == (membership.token, "acquired", 2)
        assert [one.token for one in world.heard.of("group.left")] == [
            membership.token,
            waiting.result().token,
        ]

    # An id has one member at a time.

    def test_a_restart_under_a_fixed_id_waits_until_the_old_session_has_ended(self, world: World) -> None:
        a, b, c = world.client(**LONG), world.client(**LONG), world.client(**LONG)
        before = join(a, b"before", id="a")
        join(c, b"c", id="c")
        restarted = wait_for(b, "a", b"after")
        assert members(c) == (Member("a", b"before"), Member("c", b"c"))
        world.store.end_session(a.client)
        after = restarted.result()
        assert after.held
        assert after.token > before.token
        assert members(c) == (Member("c", b"c"), Member("a", b"after"))

    def test_who_waits_for_an_id_is_no_member_and_is_the_next(self, world: World) -> None:
        a, b, c, d = (world.client() for _ in range(4))
        held = join(a, b"1", id="x")
        second, third = wait_for(b, "x", b"2"), wait_for(c, "x", b"3")
        assert members(d) == (Member("x", b"1"),)
        a.release(held)
        assert second.result().held
        assert members(d) == (Member("x", b"2"),)
        assert not third.done
        b.release(second.result())
        assert third.result().held
        assert members(d) == (Member("x", b"3"),)

    def test_other_ids_neither_wait_nor_are_waited_for(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        held = join(a, id="x")
        waiting = wait_for(b, "x")
        others = [join(c, id=f"c{number}") for number in range(20)]
        assert all(one.held for one in others)
        last = wait_for(c, "x")
        a.release(held)
        assert waiting.result().held
        b.release(waiting.result())
        assert last.result().held
        assert [one.id for one in members(a)] == [*(f"c{number}" for number in range(20)), "x"]

    def test_who_waits_among_many_others_is_woken_by_its_own_predecessor_alone(self, world: World) -> None:
        a, b, c = world.client(**LONG), world.client(**LONG), world.client(**LONG)
        held = join(a, id="x")
        others = [join(c, id=f"c{number}") for number in range(5)]
        waiting = wait_for(b, "x")
        with b.tap.counting() as asked:
            for one in others:
                c.release(one)
            join(c, id="c")
            assert not waiting.wait(0.2)
        assert asked == [] or world.store.polls_every_s < math.inf
        a.release(held)
        assert waiting.result().held

    def test_the_member_that_has_the_id_is_found_far_ahead(self, world: World) -> None:
        a, b, c = world.client(**LONG), world.client(**LONG), world.client(**LONG)
        held = join(a, id="x")
        for _ in range(120):
            join(c)
        waiting = wait_for(b, "x")
        with pytest.raises(AlreadyJoined):
            join(c, id="x", timeout=3)  # Redis looks once more after 2 s of silence
        a.release(held)
        assert waiting.result().held
        assert without_waiting(c, lambda: join(c, id="y", timeout=0)).held

    @pytest.mark.parametrize("timeout", [0, 3.0])
    def test_an_id_that_another_has_is_refused_when_the_time_is_over(
        self, world: World, timeout: float
    ) -> None:
        a, b = world.client(), world.client()
        join(a, id="c")
        held = join(a, id="x")
        with pytest.raises(AlreadyJoined, match="group 'workers' has a member 'x'") as refused:
            without_waiting(b, lambda: join(b, id="x", timeout=timeout))
        assert isinstance(refused.value, LockTimeout)
        error = refused.value
        assert (error.lock, error.recipe, error.member_id, error.timeout_s, error.position) == (
            NAME,
            "group",
            "x",
            timeout,
            1,
        )
        assert b.wait_clean()
        assert len(standing(world)) == 2
        a.release(held)
        assert without_waiting(b, lambda: join(b, id="x", timeout=timeout)).held

    def test_a_store_that_does_not_answer_is_no_other_member(self, world: World) -> None:
        a = world.client(frail=True, **SHORT)
        a.line.silence()
        with pytest.raises(LockTimeout) as late:
            join(a, id="x", timeout=0.5)
        assert not isinstance(late.value, AlreadyJoined)
        a.line.heal()

    def test_what_would_wait_for_the_own_id_is_refused(self, world: World) -> None:
        a, b = world.client(), world.client()
        mine = join(a, id="x")
        with pytest.raises(WouldDeadlock, match="group 'workers'"):
            join(a, id="x")
        theirs = join(b, id="y")
        group, waiting = a.client.group(NAME), a.tap.waiting  # as another id it may wait
        releasing = world.api.spawn(lambda: (a.tap.wait_parked(waiting + 1), b.release(theirs)))
        assert a.api.do(lambda: group.join(id="y", timeout=10)).held
        releasing.result()
        assert mine.held

    def test_a_join_that_is_interrupted_leaves_nothing(self, world: World) -> None:
        a, b = world.client(), world.client()
        held = join(a, id="x")
        b.tap.fail(Act.INTERRUPT_BEFORE, 1, lambda asked: not asked.behind and asked.parts == (RECEIVE,))
        group = b.client.group(NAME)
        running = b.api.start(lambda: group.join(id="x", timeout=20))
        assert isinstance(running.error(), world.api.interrupts)
        assert b.wait_clean()
        assert len(standing(world)) == 1
        a.release(held)
        assert join(b, id="x").held

    # What they say.

    @pytest.mark.parametrize("member_id", ["x", "a/b c", "é\u6f22\U0001f980", "\n", "%0A", ".", "x" * 1024])
    @pytest.mark.parametrize("data", [b"", b"10.0.0.1:80", bytes(range(256)), b"\n", b"granted\n{}\nx"])
    def test_ids_and_data_are_shown_as_they_were_said(
        self, world: World, member_id: str, data: bytes
    ) -> None:
        a, b = world.client(owner="somebody"), world.client()
        membership = join(a, data, id=member_id)
        assert (membership.member_id, membership.data) == (member_id, data)
        assert members(b) == (Member(member_id, data),)
        update(a, membership, data + b"!")
        assert members(b) == (Member(member_id, data + b"!"),)
        assert (membership.member_id, membership.data) == (member_id, data + b"!")

    def test_a_million_bytes_fit(self, world: World) -> None:
        a, b = world.client(), world.client()
        membership = join(a, b"x" * A_MILLION, id="x")
        assert members(b) == (Member("x", b"x" * A_MILLION),)
        update(a, membership, b"y" * A_MILLION)
        assert members(b) == (Member("x", b"y" * A_MILLION),)

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"data": "text"}, TypeError),
            ({"data": None}, TypeError),
            ({"data": b"x" * (A_MILLION + 1)}, ValueError),
            ({"id": ""}, ValueError),
            ({"id": "x" * 1025}, ValueError),
            ({"id": "\ud800"}, ValueError),
            ({"id": 7}, TypeError),
            ({"timeout": -1}, ValueError),
        ],
    )
    def test_what_does_not_fit_is_refused_before_anything_is_sent(
        self, world: World, options: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        membership = join(a)
        with a.tap.counting() as asked:
            with pytest.raises(error):
                join(a, **options)
            if "data" in options:
                with pytest.raises(error):
                    update(a, membership, options["data"])
        assert asked == []

    def test_an_update_is_one_write_and_changes_nothing_else(self, world: World) -> None:
        a, b = world.client(), world.client(**LONG)
        membership = join(a, b"0", id="x")
        waiting = wait_for(b, "x")
        place = standing(world)
        for data in (b"1", b"2", b"3"):
            with a.tap.counting() as asked:
                update(a, membership, data)
            assert len(asked) == 1
            assert members(a) == (Member("x", data),)
        assert standing(world) == place
        assert not waiting.done
        assert a.verify(membership)
        a.release(membership)
        assert waiting.result().held

    def test_an_update_that_was_given_up_never_lands_behind_a_later_one(self, world: World) -> None:
        a, b = world.client(request_timeout=1), world.client()
        membership = join(a, b"0", id="x")
        for _ in range(2):  # it asks once more
            a.tap.fail(Act.LAND_LATE if world.store.lands_late else Act.LOSE_REPLY, 1, by_caller)
        with pytest.raises(StoreUnavailable):
            update(a, membership, b"1")
        update(a, membership, b"2")
        a.tap.land()
        assert members(b) == (Member("x", b"2"),)
        assert membership.data == b"2"

    @pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_REPLY], ids=lambda act: act.name)
    def test_an_update_is_done_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        membership = join(a, b"0", id="x")
        a.tap.fail(act)
        update(a, membership, b"1")
        assert members(b) == (Member("x", b"1"),)
        update(a, membership, b"2")
        assert members(b) == (Member("x", membership.data),) == (Member("x", b"2"),)

    def test_one_that_is_no_member_says_nothing(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        mine, other = join(a, b"mine", id="x"), join(b, b"other", id="y")
        a.release(mine)
        with pytest.raises(LockLost, match="released"):
            update(a, mine, b"still here")
        world.store.end_session(b.client)
        with pytest.raises(LockLost):
            update(b, other, b"still here")
        assert not other.held
        assert members(a) == ()

    # What all see.

    def test_the_members_come_first_then_every_change(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        one = join(a, b"1", id="a")
        watcher = Watcher(b)
        assert watcher.next() == (Member("a", b"1"),)
        two = join(a, b"2", id="b")
        assert watcher.next() == (Member("a", b"1"), Member("b", b"2"))
        update(a, one, b"1+")
        assert watcher.next() == (Member("a", b"1+"), Member("b", b"2"))
        waiting = wait_for(b, "a", b"next")
        assert watcher.next(0.3) is None, "one that waits is no member"
        a.release(one)
        assert watcher.until((Member("b", b"2"), Member("a", b"next")))
        a.release(two)
        assert watcher.until((Member("a", b"next"),))
        b.release(waiting.result())
        assert watcher.next() == ()

    def test_one_that_crashed_goes_when_its_session_ends(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        watcher = Watcher(b)
        assert watcher.next() == ()
        for number in range(3):
            join(a, id=f"a{number}")
        assert watcher.until(tuple(Member(f"a{number}") for number in range(3)))
        world.store.end_session(a.client)
        assert watcher.until(())

    def test_one_that_is_slow_skips_and_never_misses_the_last(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        slow, quick = Watcher(b), Watcher(b)
        assert (slow.next(), quick.next()) == ((), ())
        membership = join(a, b"0", id="x")
        for number in range(1, 30):
            update(a, membership, str(number).encode())
        last = (Member("x", b"29"),)
        assert quick.until(last)
        assert slow.next() == last
        assert slow.next(0.1) is None

    def test_all_that_watch_by_one_client_are_one_watch(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        started = boot_time()
        many = [Watcher(b) for _ in range(1000)]
        assert {one.next() for one in many} == {()}
        join(a, b"1", id="x")
        assert all(one.until((Member("x", b"1"),)) for one in many)
        by_itself = (boot_time() - started) / world.store.polls_every_s
        assert 2 <= b.tap.looks() <= 4 + by_itself, "one for each change, and a re-read if slow"

    def test_however_fast_it_changes_it_is_looked_at_every_10_ms_at_most(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        started = boot_time()
        watcher = Watcher(b)
        assert watcher.next() == ()
        joined = tuple(Member(join(a).member_id) for _ in range(100))
        assert watcher.until(joined)
        assert b.tap.looks() <= (boot_time() - started) / PAUSE_S + 2

    def test_what_watches_outlasts_the_end_of_its_session_and_ends_with_its_client(
        self, world: World
    ) -> None:
        a, b = world.client(**LONG), world.client(**SHORT)
        membership = join(a, b"1", id="x")
        watcher = Watcher(b)
        assert watcher.until((Member("x", b"1"),))
        world.store.end_session(b.client)
        update(a, membership, b"2")
        assert watcher.until((Member("x", b"2"),))
        b.close()
        with pytest.raises(ClientClosed):
            watcher.next()

    def test_a_watch_outlasts_an_outage_of_the_store(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(frail=True, **LONG)
        membership = join(a, b"1", id="x")
        watcher = Watcher(b)
        assert watcher.next() == (Member("x", b"1"),)
        b.line.silence()
        update(a, membership, b"2")
        assert watcher.next(1.0) is None
        b.line.heal()
        assert watcher.until((Member("x", b"2"),))

    # Like whatever else is held.

    def test_a_lost_membership_is_told_and_others_do_not_see_it_any_more(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        membership = join(a, id="x")
        world.store.end_session(a.client)
        assert a.wait_lost(membership, SOON_S)
        assert members(b) == ()
        with pytest.raises(LockLost, match="group 'workers'"):
            membership.check()
        assert not a.release(membership)
        again = join(a, id="x")
        assert again.token > membership.token

    def test_an_operator_sees_and_removes_members(self, world: World) -> None:
        a, b = world.client(owner="a"), world.client()
        membership = join(a, b"1", id="x")
        waiting = wait_for(b, "x")
        other = join(b, id="y")
        group = b.client.group(NAME)
        first, second, third = b.api.do(group.contenders)
        assert (first.lock, first.token, first.id, first.owner) == (
            NAME,
            membership.token,
            membership.id,
            "a",
        )
        assert [one.holds for one in (first, second, third)] == [True, False, True]
        assert [one.token for one in b.api.do(group.holders)] == [membership.token, other.token]
        assert [one.token for one in b.api.do(group.waiters)] == [second.token]
        assert b.api.do(lambda: group.evict(membership.token))
        assert waiting.result().held
        assert not a.verify(membership)

    def test_a_lock_and_other_things_of_its_name_are_not_it(self, world: World) -> None:
        a, b = world.client(), world.client()
        join(a, id="x")
        assert b.acquire(NAME, timeout=5).held
        election = b.client.election(NAME)
        assert b.api.do(lambda: election.campaign("v", timeout=5)).held
        assert members(b) == (Member("x"),)
        assert set(b.api.do(b.client.locks)) == {NAME}
