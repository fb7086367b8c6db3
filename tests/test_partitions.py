"""Members that come, go and are cut off, on a clock moved by hand: one holder of each item, and few moves."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

import pytest

import recipes
from integration.harness.process import eventually
from recipes import Closed, LockLost, testing
from recipes._programs.sharing import Portion
from recipes._rules.members import member
from recipes._rules.sharing import Sharing

ITEMS = [f"item {number}" for number in range(96)]
MEMBERS, CHANGES = 6, 24
PATIENCE_S = 30.0
STEP_S = 0.06
"""A little longer than the shortest time between two assignments."""
GONE_S = 16.0
"""Longer than a session lasts."""


class Registers:
    """One for each item; they refuse a smaller token than they have seen."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def write(self, item: str, grant: Any) -> None:
        with self._lock:
            if grant.held:
                assert grant.token >= self._seen[item], f"{item} has another holder than {grant}"
                self._seen[item] = grant.token


class Member:
    """A client in a thread of its own, which works on what it is assigned until it loses it, or leaves."""

    def __init__(self, fleet: Fleet, member_id: str) -> None:
        self.id = member_id
        self.client = fleet.store.connect()
        self.now: Any = {}
        self.moves = 0
        self._fleet = fleet
        self.membership = self.client.group("workers").join(id=member_id)
        self.partitions = self.membership.partitions(ITEMS)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        with contextlib.suppress(LockLost):
            for assignment in self.partitions:
                for item, grant in (*assignment.items(), *assignment.leaving.items()):
                    self._fleet.registers.write(item, grant)
                self.moves += len(assignment.new)
                self.now = assignment
        self.now = {}

    def rests(self) -> bool:
        """Whether it waits for its next assignment, or has ended."""
        begun = self.partitions._begun
        waits = begun is not None and self._fleet.store._time.is_parked(begun[1].mailbox)
        return waits or not self.thread.is_alive()


class Fleet:
    """All members, and the time that they live in."""

    def __init__(self, store: testing.Store) -> None:
        self.store = store
        self.registers = Registers()
        self.members: list[Member] = []
        self.made = 0
        self.all: list[Member] = []

    def join(self) -> None:
        self.made += 1
        one = Member(self, f"m{self.made}")
        self.members.append(one)
        self.all.append(one)

    def leave(self, one: Member) -> None:
        """Have one leave as it should."""
        self.members.remove(one)
        one.membership.release()
        self.finish(one)

    def cut_off(self, one: Member) -> None:
        """Have one hear and be heard of no more until its session has ended, and then go."""
        self.members.remove(one)
        with self.store.pause(one.client):
            for _ in range(16):
                self.store.clock.advance(GONE_S / 16)
                self.see_holders()
            self.finish(one)
            assert not one.membership.held

    def finish(self, one: Member) -> None:
        while one.thread.is_alive():
            self.store.clock.advance(STEP_S)
            one.thread.join(0.01)

    def see_holders(self) -> Counter[str]:
        """Return how many hold each item, by their own clocks: one at most."""
        holders: Counter[str] = Counter()
        for one in self.all:
            for grant in one.client.grants:
                if grant.name.startswith("workers/") and grant.held:
                    holders[grant.name] += 1
        assert not [name for name, count in holders.items() if count > 1], holders
        return holders

    def rest(self) -> bool:
        """Whether nothing happens before time goes on: not in a call, nor in a member between its calls."""
        with self.store._time.lock:
            return self.store._time.settled() and all(one.rests() for one in self.members)

    def settle(self) -> None:
        """Let time go on until each has what is its own."""
        kinds = {member(one.id).kind: one for one in self.members}
        owners = Sharing(ITEMS).owners(kinds)
        wanted = {
            one.id: {item for item, owner in zip(ITEMS, owners, strict=True) if owner == kind}
            for kind, one in kinds.items()
        }
        until = self.store.clock.now + 5.0
        while {one.id: {*one.now} for one in self.members} != wanted:
            assert self.store.clock.now < until, "it should be settled within 5 s"
            self.store.clock.advance(STEP_S)
            self.see_holders()
            assert eventually(self.rest, PATIENCE_S, every_s=0.002), "the clock waits for calls alone"
        assert len(self.see_holders()) == len(ITEMS)

    def take_moves(self) -> int:
        moves = sum(one.moves for one in self.all)
        for one in self.all:
            one.moves = 0
        return moves


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    with testing.Store() as store:
        yield Fleet(store)


def test_every_item_has_one_holder_whoever_comes_and_goes(fleet: Fleet) -> None:
    draw, ratios = random.Random(18), []
    for _ in range(MEMBERS):
        fleet.join()
        fleet.settle()
    fleet.take_moves()
    for _ in range(CHANGES):
        here = len(fleet.members)
        change: Callable[[Member], None] = draw.choice((fleet.leave, fleet.cut_off))
        if here <= MEMBERS - 2 or draw.random() < 0.5:
            fleet.join()
            ideal = len(ITEMS) / (here + 1)
        else:
            change(draw.choice(fleet.members))
            ideal = len(ITEMS) / here
        fleet.settle()
        ratios.append(fleet.take_moves() / ideal)
    assert fmean(ratios) <= 1.2


def test_all_leave_at_once_and_all_come_back(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.join()
    fleet.settle()
    for one in list(fleet.members):
        fleet.leave(one)
    assert fleet.see_holders() == {}
    assert fleet.store.clients
    for _ in range(3):
        fleet.join()
    fleet.settle()


def test_one_that_was_cut_off_joins_again_under_its_id(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.join()
    fleet.settle()
    before = {one.id: {*one.now} for one in fleet.members}
    gone = fleet.members[1]
    fleet.cut_off(gone)
    fleet.settle()
    fleet.made = 1
    fleet.join()
    fleet.settle()
    assert {one.id: {*one.now} for one in fleet.members} == before, "it has what it had"


def test_what_is_held_is_looked_at_once_per_session_timeout(fleet: Fleet) -> None:
    fleet.join()
    fleet.settle()
    (one,) = fleet.members
    lost = one.client.grants[-1]
    assert isinstance(lost, recipes.Grant)
    fleet.store.remove(lost)
    fleet.store.clock.advance(15)
    assert lost.lost.is_set()
    fleet.settle()


def test_what_a_member_holds_is_given_back_though_its_release_finds_it_gone(fleet: Fleet) -> None:
    for _ in range(2):
        fleet.join()
    fleet.settle()
    gone = fleet.members[0]
    fleet.store.remove(gone.membership)
    fleet.leave(gone)
    assert gone.membership.lost_reason
    fleet.settle()


def test_what_a_lost_member_holds_is_given_back_as_it_leaves(fleet: Fleet) -> None:
    """Not before: it may work on it; and not as late as its session ends, which lasts."""
    for _ in range(2):
        fleet.join()
    fleet.settle()
    gone = fleet.members.pop(0)
    fleet.store.remove(gone.membership)
    fleet.store.clock.advance(15)
    fleet.finish(gone)
    assert gone.membership.lost.is_set()
    assert any(grant.held for grant in gone.client.grants)
    assert not gone.membership.release()
    fleet.settle()


def test_what_leaves_is_of_the_assignment_before() -> None:
    """A portion that nobody asked for is none: for each item that leaves there is a worker to be ended."""
    with recipes.connect("memory://") as client:
        partitions = client.group("workers").join().partitions(["a", "b", "c"])
        of_a, of_b, of_c = object(), object(), object()
        portions = [
            Portion(1, {"a": of_a, "b": of_b}, {}),
            Portion(2, {"a": of_a}, {"b": of_b}),
            Portion(4, {}, {"a": of_a, "b": of_b, "c": of_c}),
        ]
        leaving = [dict(partitions._assigned((one.number, one)).leaving) for one in portions]
    assert leaving == [{}, {"b": of_b}, {"a": of_a}]


def test_a_member_that_was_released_has_no_share() -> None:
    with recipes.connect("memory://") as client:
        membership = client.group("workers").join()
        partitions = membership.partitions(["a"])
        membership.release()
        with pytest.raises(Closed):
            partitions.next(1.0)
