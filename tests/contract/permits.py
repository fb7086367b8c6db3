"""Semaphores: so many permits in all, by weight, in order of arrival."""

from __future__ import annotations

import re
import threading
from functools import partial
from typing import Any

import pytest

from recipes import LockLost, LockTimeout, QueueFull, SessionLost, TooWeak, WouldDeadlock
from recipes.fencing import MemoryGate
from tests.contract.listing import join
from tests.contract.world import Party, World

LIMIT = 4


def semaphore(party: Party, limit: int = LIMIT, weight: int = 1, **options: Any) -> Any:
    return party.client.semaphore("x", limit, **options).of(weight)


def acquire(party: Party, weight: int = 1, limit: int = LIMIT, **options: Any) -> Any:
    made = semaphore(party, limit)
    return party.api.do(lambda: made.acquire(weight, timeout=10, **options))


def queue_up(party: Party, weight: int = 1, limit: int = LIMIT) -> Any:
    made = semaphore(party, limit, weight)
    with party.tap.one_more():
        return party.api.start(lambda: made.acquire(timeout=20))


def look(party: Party) -> tuple[list[Any], list[Any]]:
    made = semaphore(party)
    holders = party.api.do(made.holders)
    return holders, party.api.do(made.waiters)


class Permits:
    """`Client.semaphore`: permits by weight, and who holds them."""

    def test_several_hold_up_to_the_limit(self, world: World) -> None:
        a, b = world.client(), world.client()
        grants = [acquire(a, 2), acquire(b), acquire(b)]
        assert all(grant.held and a.verify(grant) for grant in grants)
        assert [grant.weight for grant in grants] == [2, 1, 1]
        assert a.api.do(semaphore(a).try_acquire) is None
        waiting = queue_up(b)
        a.release(grants[0])
        assert waiting.result().held
        assert len({grant.id for grant in grants}) == len(grants)

    def test_a_light_one_does_not_overtake_a_heavy_one(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        first, second = acquire(a), acquire(a)
        heavy = queue_up(b, LIMIT)
        light = queue_up(c)
        assert c.api.do(semaphore(c).try_acquire) is None
        a.release(first)
        assert not light.wait(0.2)
        a.release(second)
        held = heavy.result()
        assert not light.done
        b.release(held)
        assert light.result().held

    def test_one_release_of_many_permits_lets_in_all_that_fit(self, world: World) -> None:
        a, b = world.client(), world.client()
        held = acquire(a, LIMIT)
        waiting = [queue_up(b, weight) for weight in (1, 2, 1)]
        last = queue_up(b)
        a.release(held)
        grants = [one.result() for one in waiting]
        assert all(grant.held for grant in grants)
        assert not last.wait(0.2)
        b.release(grants[1])
        assert last.result().held

    def test_one_that_gives_up_lets_those_behind_it_move_up(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        acquire(a, 2)
        made = semaphore(b)
        heavy = b.api.start(lambda: made.acquire(LIMIT, timeout=4))
        b.tap.wait_parked()
        light = queue_up(c)
        assert isinstance(heavy.error(), LockTimeout)
        assert light.result().held

    def test_a_session_that_ends_gives_its_permits_back(self, world: World) -> None:
        a, b = world.client(), world.client()
        acquire(a, 3)
        waiting = queue_up(b, 2)
        a.close()
        assert waiting.result().held

    def test_what_holds_and_what_waits_and_how_much(self, world: World) -> None:
        a, b = world.client(owner="a"), world.client(owner="b")
        grant = acquire(a, 3)
        queue_up(b, 2)
        ((holder,), (waiter,)) = look(b)
        assert (holder.lock, holder.owner, holder.weight, holder.mode) == ("x", "a", 3, "shared")
        assert (holder.id, holder.token, waiter.token) == (grant.id, None, None)
        assert (waiter.owner, waiter.weight, waiter.holds, waiter.mine) == ("b", 2, False, True)
        assert b.api.do(b.client.lock("x").contenders) == []

    def test_an_operator_removes_one_by_its_id(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = acquire(a, LIMIT)
        waiting = queue_up(b)
        made = semaphore(b)
        assert not b.api.do(lambda: made.evict("nothing"))
        assert b.api.do(lambda: made.evict(grant.id))
        assert waiting.result().held
        assert not a.verify(grant)
        with pytest.raises(LockLost):
            grant.check()
        for neither in (7.5, True, None):
            with pytest.raises(TypeError, match="a token is a whole number, and an id"):
                b.api.do(partial(made.evict, neither))

    def test_an_operator_removes_another_kind_of_contender_by_its_token(self, world: World) -> None:
        a, b = world.client(), world.client()
        join(a, "~semaphore/x", "Z")
        waiting = queue_up(b)
        made = semaphore(b)
        ((alone,), _) = look(b)
        assert (alone.weight, alone.mode) == (None, "exclusive")
        assert not b.api.do(lambda: made.evict(alone.token - 1))
        assert b.api.do(lambda: made.evict(alone.token))
        assert waiting.result().held

    def test_errors_say_that_they_are_of_a_semaphore(self, world: World) -> None:
        a, b = world.client(), world.client()
        made, narrow = semaphore(b), semaphore(a)
        grant = acquire(a, LIMIT)
        assert re.fullmatch(rf"<\w+ of semaphore 'x' \(id {grant.id}\): held>", repr(grant))
        for error, options in (
            (LockTimeout, {"timeout": 0}),
            (LockTimeout, {"timeout": 0.05}),
            (QueueFull, {"timeout": 10, "max_waiters": 0}),
        ):
            with pytest.raises(error, match=r"^semaphore 'x' (was not acquired|has no room)") as raised:
                b.api.do(partial(made.acquire, **options))
            assert raised.value.recipe == "semaphore"
        assert b.wait_clean()
        with pytest.raises(WouldDeadlock, match=r"holds semaphore 'x' and .* do not wait \(timeout=0\)$"):
            a.api.do(lambda: narrow.acquire(timeout=10))
        waiting = b.api.start(lambda: made.acquire(timeout=20, on_session_lost="fail"))
        b.tap.wait_parked()
        (_, (waiter,)) = look(a)
        assert a.api.do(lambda: narrow.evict(waiter.id))
        lost = waiting.error()
        assert isinstance(lost, SessionLost)
        assert str(lost).startswith("the place in the queue of semaphore 'x' is gone")
        a.release(grant)
        with pytest.raises(LockLost, match=r"^semaphore 'x' is no longer held: it was released") as ended:
            grant.check()
        assert ended.value.recipe == "semaphore"

    def test_its_grants_have_no_fencing_token(self, world: World) -> None:
        a = world.client()
        grant = acquire(a)
        assert grant.token is None
        assert grant.mode == "shared"
        with pytest.raises(TooWeak, match="semaphore 'x' does not give fencing; use a lock"):
            MemoryGate().admit("x", grant).__enter__()

    def test_permits_that_another_has_entered_are_no_longer_its_own(self, world: World) -> None:
        a = world.client()
        handed_over, inside, done = acquire(a, LIMIT), threading.Event(), threading.Event()

        def work(_: Any) -> None:
            inside.set()
            assert done.wait(20)

        working = a.api.spawn(lambda: a.api.enter(lambda: handed_over, work))
        assert inside.wait(20)
        waiting = queue_up(a)  # of the same client, whose other thread or task gives them back
        with pytest.raises(LockTimeout):
            a.api.do(lambda: semaphore(a).acquire(timeout=0.05))
        done.set()
        working.result()
        assert waiting.result().held

    def test_what_would_wait_for_permits_of_its_own_is_refused(self, world: World) -> None:
        a, b = world.client(), world.client()
        mine = acquire(a)
        with pytest.raises(WouldDeadlock):
            acquire(a, LIMIT)
        waiting = queue_up(b, LIMIT)  # it waits for mine, and what comes behind it for both
        with pytest.raises(WouldDeadlock):
            acquire(a)
        a.release(mine)
        assert waiting.result().held
        assert a.wait_clean()

    def test_one_owner_may_hold_several_and_wait_for_others(self, world: World) -> None:
        a, b = world.client(), world.client()
        acquire(a)
        theirs = acquire(b, 3)
        made = semaphore(a)
        releasing = world.api.spawn(lambda: (a.tap.wait_parked(), b.release(theirs)))
        assert a.api.do(lambda: made.acquire(2, timeout=10)).held
        releasing.result()

    def test_limits_that_differ_are_logged_and_the_smaller_holds_back_those_behind(
        self, world: World
    ) -> None:
        clients = [world.client() for _ in range(4)]
        first = [acquire(clients[0], limit=2), acquire(clients[1], limit=2)]
        wide = acquire(clients[2], limit=10)
        assert wide.held
        assert world.heard.of("semaphore.limit_differs")
        narrow = queue_up(clients[3], limit=2)
        clients[0].release(first[0])
        assert not narrow.wait(0.2)
        clients[1].release(first[1])
        assert narrow.result().held

    def test_as_many_wait_as_may(self, world: World) -> None:
        a, b, c = world.client(), world.client(), world.client()
        acquire(a, LIMIT)
        queue_up(b)
        with pytest.raises(QueueFull):
            acquire(c, max_waiters=1)
        assert c.wait_clean()
        assert len(look(c)[1]) == 1

    def test_with_enters_with_a_weight_and_gives_it_back(self, world: World) -> None:
        a = world.client()
        made = semaphore(a, weight=3)
        assert a.api.enter(lambda: made, lambda grant: (grant.weight, grant.held)) == (3, True)
        assert look(a) == ([], [])

    @pytest.mark.parametrize(
        ("limit", "weight", "error"),
        [
            (0, 1, ValueError),
            (2, 3, ValueError),
            (2, 0, ValueError),
            ("2", 1, TypeError),
            (2, True, TypeError),
        ],
    )
    def test_what_does_not_fit_is_refused_before_anything_is_sent(
        self, world: World, limit: Any, weight: Any, error: type[Exception]
    ) -> None:
        a = world.client()
        with a.tap.counting() as asked, pytest.raises(error):
            semaphore(a, limit, weight)
        assert asked == []

    def test_a_lock_of_its_name_is_another_thing(self, world: World) -> None:
        a, b = world.client(), world.client()
        acquire(a, LIMIT)
        assert b.acquire("x", timeout=5).held
