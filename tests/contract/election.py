"""Elections: one leads, all can see which, and `run` has it work for as long as it leads and no longer."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recipes import ClientClosed, Leader, LockLost, LockTimeout, QueueFull, StoreUnavailable, WouldDeadlock
from recipes._run.clock import boot_time
from tests.contract.apis import Running
from tests.contract.interrupts import STRIKES, by_caller, each_step
from tests.contract.stores import ELECTIONS
from tests.contract.tap import RECEIVE, Act
from tests.contract.world import LONG, SHORT, Party, World, until, without_waiting
from tests.pace import Pace

NAME = "scheduler"
SOON_S = 10.0
WINKING = 0.02


def campaign(party: Party, value: str = "", **options: Any) -> Any:
    election = party.client.election(NAME)
    return party.api.do(lambda: election.campaign(value, **{"timeout": 10, **options}))


def stand(party: Party, value: str = "", **options: Any) -> Running:
    """Campaign beside the test, and wait until it waits."""
    election = party.client.election(NAME)
    with party.tap.one_more():
        return party.api.start(lambda: election.campaign(value, **{"timeout": 20, **options}))


def leader(party: Party) -> Leader | None:
    election = party.client.election(NAME)
    found: Leader | None = party.api.do(election.leader)
    return found


def proclaim(party: Party, leadership: Any, value: str) -> None:
    party.api.do(lambda: leadership.proclaim(value))


def candidates(world: World) -> list[str]:
    """Return what really stands in the queue."""
    return world.store.contenders(f"{ELECTIONS}{NAME}")


class Watcher:
    """One that observes the election."""

    def __init__(self, party: Party) -> None:
        self._api = party.api
        self._observing = party.client.election(NAME).observe()

    def next(self, within_s: float = SOON_S) -> Any:
        """Return what is new, or "nothing"."""
        return self._api.do(lambda: self._observing.next(within_s, "nothing"))

    def until(self, seen: Leader | None) -> bool:
        """Wait until it sees this; leaders on the way may be skipped or not."""
        while (found := self.next()) != "nothing":
            if found == seen:
                return True
        return False

    def close(self) -> None:
        self._api.do(self._observing.close)


class Job:
    """What leaders do: each is noted as it begins and as it has ended, and goes on until it may end.

    It minds its loss as work of its API does: a thread looks, and a task is cancelled.
    """

    def __init__(self, end: Callable[[Any], Any] = lambda leadership: None) -> None:
        self.begun: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.may_end = threading.Event()
        self._end = end

    def run(self, party: Party, value: str = "") -> Running:
        """Have it run by whichever candidate of this client is elected."""
        election, work = party.client.election(NAME), self._tasks if party.api.is_async else self._thread
        return party.api.start(lambda: election.run(work, value))

    def next(self) -> Any:
        """Wait until it begins; returns the leadership."""
        return self.begun.get(timeout=SOON_S)

    def _thread(self, leadership: Any) -> Any:
        self.begun.put(leadership)
        try:
            while not self.may_end.is_set() and leadership.held:
                leadership.lost.wait(WINKING)
            return self._end(leadership)
        finally:
            self.ended.put(leadership)

    async def _tasks(self, leadership: Any) -> Any:
        self.begun.put(leadership)
        try:
            for _ in iter(self.may_end.is_set, True):
                await asyncio.sleep(WINKING)
            return self._end(leadership)
        finally:
            self.ended.put(leadership)


class Elections:
    """`Client.election`: one leader at a time, what it says, and work that ends with its leadership."""

    def test_one_leads_and_the_next_in_line_follows(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        first = campaign(a, "a:1")
        second, third = stand(b, "b:2"), stand(c, "c:3")
        assert first.held
        assert first.value == "a:1"
        assert a.verify(first)
        assert leader(b) == Leader("a:1", first.token)
        a.release(first)
        elected = second.result()
        assert elected.token > first.token
        assert leader(a) == Leader("b:2", elected.token)
        assert not third.done
        b.release(elected)
        assert third.result().value == "c:3"
        c.release(third.result())
        assert leader(a) is None
        assert candidates(world) == []

    def test_it_is_told_in_words_of_its_own(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        leadership = campaign(a)
        waiting = stand(b)
        world.store.end_session(b.client)
        world.heard.wait("election.requeued", name=NAME)
        world.heard.wait("election.queued", 2, name=NAME)
        a.release(leadership)
        b.release(waiting.result())
        (elected, again) = world.heard.wait("election.elected", 2, name=NAME)
        assert (elected.token, elected.what, again.attempt) == (leadership.token, "acquired", 2)
        assert [one.token for one in world.heard.of("election.resigned")] == [
            leadership.token,
            waiting.result().token,
        ]

    def test_a_with_statement_resigns(self, world: World) -> None:
        a = world.client()
        election = a.client.election(NAME)
        led = a.api.enter(
            lambda: election.campaign("v"), lambda leadership: (leadership.value, leadership.held)
        )
        assert led == ("v", True)
        assert candidates(world) == []

    def test_a_with_statement_whose_leadership_is_lost_says_so(self, world: World) -> None:
        a = world.client(**SHORT)
        election = a.client.election(NAME)

        def body(leadership: Any) -> None:
            world.store.end_session(a.client)
            until(lambda: not leadership.held, 5)
            threading.Event().wait(0.2)

        with pytest.raises(LockLost) as lost:
            a.api.enter(election.campaign, body)
        assert (lost.value.lock, lost.value.recipe) == (NAME, "election")

    @pytest.mark.parametrize(
        "value", ["", "a:1", "é\u6f22\U0001f980", "\udc80\udcff\udcfe", "\n", "granted\n{}", "x" * 100_000]
    )
    def test_what_it_says_is_shown_as_it_was_said(self, world: World, value: str) -> None:
        a, b = world.client(owner="somebody"), world.client()
        leadership = campaign(a, value)
        watcher = Watcher(b)
        assert leadership.value == value
        assert watcher.next() == leader(b) == Leader(value, leadership.token)
        proclaim(a, leadership, f"{value}!")
        assert watcher.next() == leader(b) == Leader(f"{value}!", leadership.token)
        proclaim(a, leadership, value)
        assert leader(b) == Leader(leadership.value, leadership.token) == Leader(value, leadership.token)
        watcher.close()

    @pytest.mark.parametrize(
        ("value", "error"),
        [("\ud800", ValueError), (b"x", TypeError), (None, TypeError), ("x" * 10**6 + "x", ValueError)],
    )
    def test_a_value_that_does_not_fit_is_refused_before_anything_is_sent(
        self, world: World, value: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        leadership = campaign(a)
        with a.tap.counting() as asked:
            with pytest.raises(error):
                campaign(a, value)
            with pytest.raises(error):
                proclaim(a, leadership, value)
        assert asked == []

    def test_what_holds_and_what_waits_are_contenders_like_others(self, world: World) -> None:
        a, b = world.client(owner="a"), world.client(owner="b")
        leadership = campaign(a, '{"owner": "not I"}')
        waiting = stand(b, "b")
        election = b.client.election(NAME)
        ((holder,), (waiter,)) = b.api.do(election.holders), b.api.do(election.waiters)
        assert (holder.lock, holder.token, holder.id, holder.mine, holder.mode) == (
            NAME,
            leadership.token,
            leadership.id,
            False,
            "exclusive",
        )
        assert (waiter.mine, waiter.position, waiter.holds) == (True, 1, False)
        assert {holder.owner, waiter.owner} <= {"a", "b", None}, "some stores keep nothing but the value"
        assert a.api.do(a.client.locks) == {}
        a.release(leadership)
        assert waiting.result().token == waiter.token

    def test_an_operator_removes_the_leader(self, world: World) -> None:
        a, b = world.client(), world.client()
        leadership = campaign(a)
        waiting = stand(b)
        election = b.client.election(NAME)
        assert b.api.do(lambda: election.evict(leadership.token))
        assert waiting.result().held
        assert not a.verify(leadership)
        with pytest.raises(LockLost):
            proclaim(a, leadership, "I am still here")
        assert leader(b) == Leader("", waiting.result().token)

    def test_a_lock_of_its_name_is_another_thing(self, world: World) -> None:
        a, b = world.client(), world.client()
        campaign(a)
        assert b.acquire(NAME, timeout=5).held

    def test_who_leads_may_not_campaign_again(self, world: World) -> None:
        a = world.client()
        leadership = campaign(a)
        with pytest.raises(WouldDeadlock, match="election 'scheduler'"):
            campaign(a)
        a.release(leadership)
        assert campaign(a).token > leadership.token

    def test_a_campaign_that_gives_up_leaves_nothing(self, world: World) -> None:
        a, b = world.client(), world.client()
        leadership = campaign(a)
        waiting = stand(a)
        for options in ({"timeout": 0.3}, {"timeout": 0}, {"max_waiters": 1}):
            with pytest.raises((LockTimeout, QueueFull), match="election 'scheduler'"):
                campaign(b, **options)
        assert b.wait_clean()
        assert len(candidates(world)) == 2
        a.release(leadership)
        a.release(waiting.result())
        assert without_waiting(b, lambda: campaign(b, "at once", timeout=0)).value == "at once"
        assert candidates(world) != []

    def test_a_leader_that_hangs_is_followed(self, world: World) -> None:
        a, b = world.client(), world.client()
        election = a.client.election(NAME, max_hold=1.0)
        leadership = a.api.do(lambda: election.campaign("hung"))
        following = b.client.election(NAME)
        waiting = b.api.start(lambda: following.campaign("next", timeout=20))
        assert a.wait_lost(leadership, SOON_S)
        assert waiting.result().token > leadership.token

    # What it says.

    def test_a_proclamation_is_one_write_and_changes_nothing_else(self, world: World) -> None:
        a, b = world.client(), world.client(**LONG)
        leadership = campaign(a, "v0")
        waiting = stand(b)
        place = candidates(world)
        for value in ("v1", "v2", "v3"):
            with a.tap.counting() as asked:
                proclaim(a, leadership, value)
            assert len(asked) == 1
            assert leader(b) == Leader(value, leadership.token)
        assert candidates(world) == place
        assert not waiting.done
        assert a.verify(leadership)
        a.release(leadership)
        assert waiting.result().held

    def test_a_proclamation_that_was_given_up_never_lands_behind_a_later_one(self, world: World) -> None:
        a, b = world.client(request_timeout=1), world.client()
        leadership = campaign(a, "v0")
        for _ in range(2):  # it asks once more
            a.tap.fail(Act.LAND_LATE if world.store.lands_late else Act.LOSE_REPLY, 1, by_caller)
        with pytest.raises(StoreUnavailable):
            proclaim(a, leadership, "v1")
        proclaim(a, leadership, "v2")
        a.tap.land()
        assert leader(b) == Leader("v2", leadership.token)
        assert leadership.value == "v2"
        proclaim(a, leadership, "v3")
        assert leader(b) == Leader("v3", leadership.token)

    @pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_REPLY], ids=lambda act: act.name)
    def test_a_proclamation_is_done_whatever_is_lost(self, world: World, act: Act) -> None:
        a, b = world.client(), world.client()
        leadership = campaign(a, "v0")
        a.tap.fail(act)
        proclaim(a, leadership, "v1")
        assert leader(b) == Leader("v1", leadership.token)
        proclaim(a, leadership, "v2")
        assert leader(b) == Leader(leadership.value, leadership.token) == Leader("v2", leadership.token)

    @pytest.mark.parametrize("act", STRIKES, ids=lambda act: act.name)
    def test_a_proclamation_that_is_interrupted_never_lands_behind_a_later_one(
        self, world: World, act: Act
    ) -> None:
        a, b = world.client(), world.client()
        leadership = campaign(a, "v0")
        for number, fault in enumerate(each_step(a, act, by_caller)):
            interrupted = _raised(lambda: proclaim(a, leadership, "interrupted"))
            assert isinstance(interrupted, world.api.interrupts) is fault.fired.is_set()
            fault.armed = False
            proclaim(a, leadership, f"after {number}")
            assert leader(b) == Leader(f"after {number}", leadership.token)
        assert leadership.held

    def test_proclamations_are_made_one_at_a_time(self, world: World) -> None:
        a, b = world.client(), world.client()
        leadership = campaign(a)
        a.tap.fail(Act.HOLD_REPLY)
        first = a.api.start(lambda: leadership.proclaim("first"))
        assert until(lambda: leader(b) == Leader("first", leadership.token), 5)
        with a.tap.counting() as asked:
            second = a.api.start(lambda: leadership.proclaim("second"))
            assert not second.wait(0.2)
        assert asked == []
        a.tap.let_go()
        first.result()
        second.result()
        assert leader(b) == Leader("second", leadership.token)
        assert leadership.value == "second"

    def test_who_does_not_lead_proclaims_nothing(self, world: World) -> None:
        a, b = world.client(), world.client(**SHORT)
        leadership = campaign(a, "mine")
        a.release(leadership)
        other = campaign(b, "other")
        with pytest.raises(LockLost, match="released"):
            proclaim(a, leadership, "still mine")
        world.store.end_session(b.client)
        with pytest.raises(LockLost):
            proclaim(b, other, "still mine")
        assert not other.held
        assert leader(a) is None

    # What all see.

    def test_the_current_leader_comes_first_then_every_change(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        first = campaign(a, "a")
        watcher = Watcher(b)
        assert watcher.next() == Leader("a", first.token)
        proclaim(a, first, "a2")
        assert watcher.next() == Leader("a2", first.token)
        waiting = stand(b, "b")
        assert watcher.next(0.3) == "nothing", "one that waits is no leader"
        a.release(first)
        assert watcher.next() == Leader("b", waiting.result().token)
        b.release(waiting.result())
        assert watcher.next() is None
        again = campaign(a, "a3")
        assert watcher.next() == Leader("a3", again.token)
        watcher.close()

    def test_where_there_is_no_leader_none_comes_first(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        watcher = Watcher(b)
        assert watcher.next() is None
        leadership = campaign(a)
        assert watcher.next() == Leader("", leadership.token)
        watcher.close()

    def test_one_that_is_slow_skips_and_sees_the_last(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        slow, quick = Watcher(b), Watcher(b)
        assert (slow.next(), quick.next()) == (None, None)
        leadership = campaign(a, "0")
        for number in range(1, 30):
            proclaim(a, leadership, str(number))
        last = Leader("29", leadership.token)
        assert quick.until(last)
        assert slow.next() == last
        assert slow.next(0.1) == "nothing"

    def test_many_who_observe_are_one_watch(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        leadership = campaign(a, "0")
        started = boot_time()
        many = [Watcher(b) for _ in range(100)]
        assert {one.next() for one in many} == {Leader("0", leadership.token)}
        proclaim(a, leadership, "1")
        assert all(one.until(Leader("1", leadership.token)) for one in many)
        assert 2 <= b.tap.looks() <= 4 + (boot_time() - started) / world.store.polls_every_s

    def test_an_observer_outlasts_the_end_of_its_session_and_ends_with_its_client(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**SHORT)
        first = campaign(a, "a")
        watcher = Watcher(b)
        assert watcher.until(Leader("a", first.token))
        world.store.end_session(b.client)
        proclaim(a, first, "a2")
        assert watcher.until(Leader("a2", first.token))
        b.close()
        with pytest.raises(ClientClosed):
            watcher.next()

    # What must not be.

    def test_no_candidate_is_elected_with_a_session_that_has_ended(self, world: World) -> None:
        """etcd's own ``Campaign`` returns leadership of a lease that has expired."""
        a, b = world.client(**LONG), world.client(**SHORT)
        leadership = campaign(a)
        waiting = stand(b)
        dead = b.client.session.id
        world.store.end_session(b.client)
        a.release(leadership)
        elected = waiting.result()
        if world.store.sessions_end_at_renewal:
            assert b.wait_lost(elected, 5) or b.client.session.id != dead
            return
        assert elected.held
        assert b.verify(elected)
        assert b.client.session.id != dead
        assert len(candidates(world)) == 1

    def test_no_two_lead_by_their_own_clocks(self, world: World) -> None:
        """tooz has two leaders after a session has expired."""
        a, b = world.client(frail=True, **SHORT), world.client(**SHORT)
        leadership = campaign(a)
        waiting = stand(b)
        lost_at: list[float] = []
        leadership.lost.add_callback(lambda lost: lost_at.append(boot_time()))
        a.line.silence()
        with Pace() as pace:
            due = boot_time() + leadership.remaining
            elected = waiting.result(20)
            assert not leadership.held
            assert until(lambda: lost_at, 5)
            assert lost_at[0] <= due + 0.5 + pace.late_s(due)
        assert elected.token > leadership.token
        a.line.heal()
        assert _raised(lambda: proclaim(a, leadership, "me")) is not None
        assert leader(b) == Leader("", elected.token)

    def test_a_cancel_reaches_a_candidate_that_waits(self, world: World) -> None:
        """kazoo's ``Election.cancel`` does not (#264)."""
        a, b = world.client(), world.client()
        leadership = campaign(a)
        election = b.client.election(NAME)
        b.tap.fail(Act.INTERRUPT_BEFORE, 1, lambda asked: not asked.behind and asked.parts == (RECEIVE,))
        with pytest.raises(world.api.interrupts):
            b.api.do(lambda: election.run(_never))
        assert b.wait_clean()
        assert len(candidates(world)) == 1
        a.release(leadership)

    def test_closing_the_client_ends_a_candidate_that_waits(self, world: World) -> None:
        a, b = world.client(), world.client()
        campaign(a)
        job = Job()
        with b.tap.one_more():
            running = job.run(b)
        b.close()
        assert isinstance(running.error(), ClientClosed)
        assert len(candidates(world)) == 1
        assert job.begun.empty()

    # Running.

    def test_it_works_resigns_and_returns_what_the_work_returned(self, world: World) -> None:
        a = world.client()
        job = Job(lambda leadership: (leadership.held, len(candidates(world)), "done"))
        running = job.run(a, "me")
        assert job.next().value == "me"
        assert leader(a) == Leader("me", world.heard.of("election.elected")[0].token)
        job.may_end.set()
        assert running.result() == (True, 1, "done")
        assert candidates(world) == []
        assert job.ended.qsize() == 1, "once"

    def test_it_raises_what_the_work_raised_and_resigns(self, world: World) -> None:
        a, b = world.client(), world.client()

        def fail(leadership: Any) -> None:
            raise LookupError(leadership.token)

        job = Job(fail)
        running = job.run(a)
        leadership = job.next()
        waiting = stand(b)
        job.may_end.set()
        error = running.error()
        assert isinstance(error, LookupError)
        assert error.args == (leadership.token,)
        assert waiting.result().held

    def test_after_a_loss_the_work_is_ended_before_it_campaigns_again(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client()
        job = Job()
        running = job.run(a, "a")
        first = job.next()
        other = stand(b, "b")
        world.store.end_session(a.client)
        elected = other.result()
        assert job.ended.get(timeout=SOON_S) is first
        assert not first.held
        assert until(lambda: len(candidates(world)) == 2, 5)
        assert job.begun.empty()
        b.release(elected)
        second = job.next()
        assert second.token > elected.token
        assert leader(b) == Leader("a", second.token)
        job.may_end.set()
        running.result()
        assert candidates(world) == []

    def test_no_candidate_stands_while_the_work_still_ends(self, world: World) -> None:
        """kazoo's ``Election.run`` knows of no loss at all, and its work goes on."""
        a, b = world.client(**SHORT), world.client()
        ending, may_go = threading.Event(), threading.Event()
        election = a.client.election(NAME)

        def slow(leadership: Any) -> None:
            while leadership.held:
                leadership.lost.wait(WINKING)
            ending.set()
            may_go.wait(SOON_S)

        async def slow_task(leadership: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ending.set()
                await asyncio.to_thread(may_go.wait, SOON_S)

        begun = []

        def thread(leadership: Any) -> None:
            begun.append(leadership)
            if len(begun) == 1:
                slow(leadership)

        async def task(leadership: Any) -> None:
            begun.append(leadership)
            if len(begun) == 1:
                await slow_task(leadership)

        running = a.api.start(lambda: election.run(task if a.api.is_async else thread))
        assert until(lambda: begun, 5)
        world.store.end_session(a.client)
        assert ending.wait(SOON_S)
        elected = campaign(b)
        assert not running.wait(0.3)
        assert len(candidates(world)) == 1
        assert len(begun) == 1
        may_go.set()
        assert until(lambda: len(candidates(world)) == 2, 5)
        b.release(elected)
        running.result()
        assert len(begun) == 2

    def test_a_loss_that_the_work_ends_with_is_no_error(self, world: World) -> None:
        a = world.client(**SHORT)
        begun: list[Any] = []

        def lose(leadership: Any) -> bool:
            begun.append(leadership)
            if len(begun) > 1:
                return True
            world.store.end_session(a.client)
            until(lambda: not leadership.held, 5)
            leadership.check()
            return False

        async def lose_task(leadership: Any) -> bool:
            return await asyncio.to_thread(lose, leadership)

        election = a.client.election(NAME)
        assert a.api.do(lambda: election.run(lose_task if a.api.is_async else lose)) is True
        assert len(begun) == 2

    def test_the_loss_of_something_else_is_one(self, world: World) -> None:
        a = world.client()
        other = a.acquire(NAME)

        def lose(leadership: Any) -> None:
            if not a.api.is_async:
                other.release()
            other.check()

        async def lose_task(leadership: Any) -> None:
            await other.release()
            lose(leadership)

        election = a.client.election(NAME)
        with pytest.raises(LockLost, match="lock 'scheduler'"):
            a.api.do(lambda: election.run(lose_task if a.api.is_async else lose))
        assert candidates(world) == []

    def test_an_interrupt_ends_the_work_and_resigns(self, world: World) -> None:
        a, b = world.client(), world.client()
        interrupt = world.api.interrupts

        def strike(leadership: Any) -> None:
            raise interrupt

        job = Job(strike)
        running = job.run(a)
        job.next()
        waiting = stand(b)
        job.may_end.set()
        assert isinstance(running.error(), interrupt)
        assert waiting.result().held

    def test_closing_the_client_ends_the_work(self, world: World) -> None:
        a, b = world.client(), world.client()
        job = Job()
        running = job.run(a)
        leadership = job.next()
        waiting = stand(b)
        a.close()
        assert waiting.result().held
        job.ended.get(timeout=SOON_S)
        assert not leadership.held
        assert isinstance(running.error(), ClientClosed) is world.api.is_async
        assert job.begun.empty()

    def test_work_may_resign_by_itself(self, world: World) -> None:
        a, b = world.client(), world.client()

        def resign(leadership: Any) -> Any:
            return leadership.release()

        async def resign_task(leadership: Any) -> Any:
            return await leadership.release()

        election = a.client.election(NAME)
        assert a.api.do(lambda: election.run(resign_task if a.api.is_async else resign)) is True
        assert campaign(b, timeout=5).held, "long before a session would end"


def _raised(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except BaseException as error:
        return error
    return None


def _never(leadership: Any) -> Any:
    raise AssertionError("it was never elected")
