"""Semaphores by the real program: no missed grant, none too many, and no more operations than promised."""

from __future__ import annotations

import pytest

from recipes._contract.operations import Checked, Enqueue, List, Look, Rewrite, Watch
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Event
from recipes._programs.permits import mark
from recipes._rules.permits import permits
from recipes.errors import StoreFull
from tests.programs.crowd import Broken, Crowd, Guest, Shows
from tests.programs.permits_schedules import SHOWS, schedule
from tests.programs.stepping import Script, entry, play, snapshot

SCHEDULES = 150


@pytest.mark.parametrize("shows", SHOWS, ids=str)
def test_no_schedule_misses_a_grant_or_makes_one_too_many(shows: Shows) -> None:
    granted = sum(schedule(seed, shows) for seed in range(SCHEDULES))
    assert granted > 5 * SCHEDULES


def settled(crowd: Crowd, rule: Rule) -> Guest:
    guest = crowd.come(rule)
    crowd.settle()
    return guest


def test_a_smaller_limit_holds_back_those_behind_it() -> None:
    """If each judged by its own limit alone, N would be free here, and hear of nothing."""
    crowd = Crowd()
    a, b, p, n = (
        settled(crowd, rule) for rule in (permits(1, 2), permits(1, 2), permits(1, 10), permits(1, 2))
    )
    assert [one.granted for one in (a, b, p, n)] == [True, True, True, False]
    assert {one.event for one in p.noted} >= {"semaphore.limit_differs"}
    seen = []
    for one in (a, b):
        crowd.go(one)
        crowd.settle()
        seen.append(n.granted)
    assert seen == [False, True]


def test_a_light_one_does_not_overtake_a_heavy_one() -> None:
    crowd = Crowd()
    holder, heavy, light = (settled(crowd, permits(weight, 4)) for weight in (1, 4, 1))
    assert not heavy.granted
    assert not light.granted
    assert settled_try(crowd, permits(1, 4)).over
    crowd.go(heavy)
    crowd.settle()
    assert light.granted
    assert holder.granted


def settled_try(crowd: Crowd, rule: Rule) -> Guest:
    guest = crowd.come(rule, tries=True)
    crowd.settle()
    return guest


def test_granted_as_its_contender_was_made_it_writes_no_mark() -> None:
    crowd = Crowd()
    assert settled(crowd, permits(1, 2)).asked == {Enqueue: 1}
    assert settled_try(crowd, permits(1, 2)).asked.total() == 1
    apart = Crowd(shows=Shows(at_once=False))
    assert settled(apart, permits(1, 2)).asked == {Enqueue: 1, Rewrite: 1}


def test_one_that_came_free_before_its_first_view_says_so_to_the_one_behind() -> None:
    """Which has come in between, and has seen it wait: without the mark it would hear of nothing."""
    crowd = Crowd(shows=Shows(at_once=False))
    heavy = settled(crowd, permits(2, 2))
    first = crowd.come(permits(1, 2))
    while first.name not in [one.ref for one in crowd.queue]:
        first.step()
    second = crowd.come(permits(1, 2))
    while not second.waits:
        second.step()
    crowd.go(heavy)
    crowd.settle()
    assert [one.granted for one in (first, second)] == [True, True]


@pytest.mark.parametrize("there", [True, False])
def test_a_store_without_room_for_the_mark_grants_what_stands(there: bool) -> None:
    checked = Checked(mine=there, present=frozenset())
    script = Script(Rewrite=StoreFull("etcd://e", "no space"), Check=checked)
    played = play(mark(entry(), snapshot(), waited=True), script)
    assert (played.kinds, played.result) == (["Rewrite", "Check"], there)


def test_deep_in_the_queue_one_contender_is_watched_and_few_are_read() -> None:
    crowd = Crowd()
    guests = [settled(crowd, permits(1, 2)) for _ in range(9)]
    last = guests[-1]
    assert last.asked == {Enqueue: 1, Watch: 1}
    crowd.go(guests[-2])
    crowd.settle()
    assert last.asked == {Enqueue: 1, Watch: 1, Look: 1}
    assert last.watching == {guests[-3].name}


def test_one_behind_a_larger_limit_asks_whether_that_holds() -> None:
    """A snapshot of two is not enough to know of one that carries 9; a list of ten is."""
    crowd = Crowd(shows=Shows(counts=False))
    for _ in range(12):
        settled(crowd, permits(1, 9))
    last = settled(crowd, permits(1, 1))
    assert last.asked[List] == 1
    assert last.watching >= {crowd.guests[-2].name}


def test_a_holder_that_stopped_before_it_marked_itself_is_found_when_nothing_is_told() -> None:
    crowd = Crowd()
    first, second, third = (settled(crowd, permits(1, 2)) for _ in range(3))
    fourth = settled(crowd, permits(1, 2))
    crowd.go(first)
    while not third.asked[List] or isinstance(third.op, List):
        third.step()  # it knows that it holds, and stops there
    crowd.guests.remove(third)
    crowd.go(second)
    with pytest.raises(Broken, match="no event will tell it"):
        crowd.settle()
    fourth.events.append(Event())  # as when the re-read is due
    crowd.settle()
    assert fourth.granted


@pytest.mark.parametrize("shows", [SHOWS[0], SHOWS[-1]], ids=str)
@pytest.mark.parametrize(
    ("limit", "weights"), [(1, (1,)), (5, (1,)), (20, (1,)), (100, (1,)), (20, (1, 2, 3, 7))]
)
def test_what_a_hand_over_costs(limit: int, weights: tuple[int, ...], shows: Shows) -> None:
    """Beside enqueue with the first watch, and release: at most 3 operations, and 4 watches a waiter.

    Counted from when all wait: the first in line watches the queue, and lists for each that comes, too.
    A heavy one lists at each release until there are permits enough.
    """
    crowd = Crowd(limit, shows)
    count = 3 * limit if len(weights) > 1 else limit + 60
    guests = [settled(crowd, permits(crowd.random.choice(weights), limit)) for _ in range(count)]
    waiters = [guest for guest in guests if not guest.granted]
    for guest in waiters:
        guest.asked.clear()
    while held := [guest for guest in crowd.guests if guest.granted]:
        crowd.go(crowd.random.choice(held))
        crowd.settle()
    bound = 3 if len(weights) == 1 else 3.5
    assert sum(guest.asked.total() for guest in waiters) <= bound * len(waiters)
    watches = [guest.asked[Watch] + guest.asked[List] + guest.asked[Look] for guest in waiters]
    assert 1 + max(watches) <= (4 if len(weights) == 1 else 4 + max(weights))
