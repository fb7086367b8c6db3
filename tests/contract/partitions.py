"""Partitions: every member of a group works on its share of the items, and no item has two holders."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pytest

from recipes import Closed, LockLost
from tests.contract.apis import Running
from tests.contract.tap import RECEIVE, Act, Asked
from tests.contract.world import LONG, SHORT, Party, World, until

ITEMS = [f"shard {number}" for number in range(24)]
WITHIN_S = 30.0
KEEPING = {"Renew", "Open", "/lease/keepalive", "/lease/grant", "Connect", "PEXPIRE", "SETNX"}
RENEWING = {"Renew", "/lease/keepalive", "/kv/txn", "Sync", "Exists", "PEXPIRE", "touch"}


class Worker:
    """A member of the group "workers", and what it has of the items."""

    def __init__(
        self, party: Party, member_id: str, items: Iterable[str] = ITEMS, *, group: str = "workers"
    ) -> None:
        self.party = party
        made = party.client.group(group)
        self.membership = self._do(lambda: made.join(b"said", id=member_id, timeout=10))
        self.partitions = self.membership.partitions(items)
        self.now: Any = {}

    def _do(self, call: Any) -> Any:
        return self.party.api.do(call)

    def next(self, timeout: float | None = WITHIN_S) -> Any:
        """Return the next assignment, which is the one that is worked on from then on."""
        found = self._do(lambda: self.partitions.next(timeout))
        if found is not None:
            self.now = found
        return found

    def stepping(self) -> Running:
        """Ask for the next assignment beside the test."""
        return self.party.api.start(lambda: self.partitions.next(WITHIN_S))

    def until(self, items: Iterable[str]) -> Worker:
        """Go on until these are its items, whatever comes on the way."""
        wanted = {*items}
        while self.now.keys() != wanted:
            assert self.next() is not None, f"has {sorted(self.now)} and should have {sorted(wanted)}"
        return self

    def release(self) -> None:
        self._do(self.membership.release)

    def close(self) -> None:
        self._do(self.partitions.close)


def two(world: World) -> tuple[Worker, Worker]:
    """Return two that have shared the items."""
    a = Worker(world.client(**LONG), "a").until(ITEMS)
    b = Worker(world.client(**LONG), "b")
    rest = b.stepping()
    while not a.next().leaving:
        pass
    theirs = {*a.now.leaving}
    a.next(0)
    b.now = rest.result()
    return a, b.until(theirs)


class Partitions:
    """`Membership.partitions`: each has its share, and an item moves once its worker has let go of it."""

    def test_one_member_has_all(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a").until(ITEMS)
        assert list(a.now) == ITEMS
        assert all(grant.held and a.party.verify(grant) for grant in list(a.now.values())[:3])
        assert a.now.leaving == {}
        assert a.next(0.2) is None
        assert [grant.name for grant in a.now.values()] == [f"workers/{item}" for item in ITEMS]
        assert {*a.now.values()} < {*a.party.client.grants}

    def test_two_have_each_its_own(self, world: World) -> None:
        a, b = two(world)
        assert a.now.keys() | b.now.keys() == {*ITEMS}
        assert not a.now.keys() & b.now.keys()
        assert all(grant.held for worker in (a, b) for grant in worker.now.values())
        before = a.party.client, b.party.client
        assert [len(client.grants) for client in before] == [len(a.now) + 1, len(b.now) + 1]

    def test_an_item_that_moves_is_held_until_the_next_step(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a").until(ITEMS)
        b = Worker(world.client(**LONG), "b")
        assert b.next() == {}, "all are held by the other"
        while not a.next().leaving:
            pass
        leaving = dict(a.now.leaving)
        assert not leaving.keys() & a.now.keys()
        assert b.next(0.5) is None
        assert all(grant.held for grant in leaving.values())
        tokens = {item: grant.token for item, grant in leaving.items()}
        assert a.next(0.2) is None
        assert until(lambda: not any(grant.held for grant in leaving.values()), 5)
        b.until(leaving)
        assert all(b.now[item].token > token for item, token in tokens.items())

    def test_an_item_that_moves_is_held_until_its_release(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a").until(ITEMS)
        b = Worker(world.client(**LONG), "b")
        assert b.next() == {}
        while not a.next().leaving:
            pass
        item, grant = next(iter(a.now.leaving.items()))
        assert a.party.release(grant)
        b.until([item])
        assert b.now[item].held
        assert b.now.new.keys() == {item}
        assert all(grant.held for other, grant in a.now.leaving.items() if other != item)

    def test_one_that_leaves_gives_its_share_to_the_others(self, world: World) -> None:
        a, b = two(world)
        a.release()
        b.until(ITEMS)
        assert not any(grant.held for grant in a.now.values())
        with pytest.raises(Closed):
            a.next()

    def test_one_whose_session_ends_gives_its_share_to_the_others(self, world: World) -> None:
        a, b = two(world)
        world.store.end_session(a.party.client)
        b.until(ITEMS)
        assert a.party.wait_lost(a.membership, 20)
        with pytest.raises(LockLost):
            a.next()
        assert all(a.party.wait_lost(grant, 20) for grant in a.now.values()), "by the next renewal"

    def test_one_that_waits_is_told_at_once_that_its_membership_is_lost(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a").until(ITEMS)
        waiting = a.stepping()
        world.store.end_session(a.party.client)
        assert isinstance(waiting.error(), LockLost)

    def test_a_closed_one_stays_a_member_and_has_no_share(self, world: World) -> None:
        a, b = two(world)
        a.close()
        b.until(ITEMS)
        assert a.membership.held
        assert a.party.client.grants == [a.membership]
        a.partitions = a.membership.partitions(ITEMS)
        rest = a.stepping()
        while not b.next().leaving:
            pass
        b.next(0)
        a.now = rest.result()
        a.until({*ITEMS} - b.now.keys())

    def test_only_those_share_that_name_the_same_items(self, world: World) -> None:
        a, b = two(world)
        c = Worker(world.client(**LONG), "c", ["x", "y"]).until(["x", "y"])
        assert (a.next(0.3), b.next(0.1)) == (None, None)
        mine, theirs = {*a.now}, {*b.now}
        b.close()
        a.until(ITEMS)
        d = Worker(b.party, "b2", reversed(ITEMS))
        rest = d.stepping()
        while not a.next().leaving:
            pass
        a.next(0)
        d.now = rest.result()
        d.until({*ITEMS} - a.now.keys())
        assert len(mine) + len(theirs) == len(ITEMS)
        assert all(grant.held for grant in c.now.values())

    def test_items_of_two_groups_have_nothing_in_common(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a", ["b/c"], group="a").until(["b/c"])
        b = Worker(world.client(**LONG), "a", ["c"], group="a/b").until(["c"])
        assert a.now["b/c"].held
        assert b.now["c"].held
        assert a.now["b/c"].name != b.now["c"].name

    def test_an_item_that_is_lost_comes_back_with_another_grant(self, world: World) -> None:
        a = Worker(world.client(**SHORT), "a", ["x"]).until(["x"])
        lost = a.now["x"]
        world.store.remove(lost._hold.entry.ref)
        assert a.party.wait_lost(lost, world.short_s + 9)  # it is looked at once a session
        while a.now.get("x") in (None, lost):
            assert a.next() is not None
        assert a.now["x"].token > lost.token
        assert a.now.new.keys() == {"x"}

    def test_what_a_member_says_of_itself_goes_on_beside(self, world: World) -> None:
        a, b = two(world)
        a.party.api.do(lambda: a.membership.update(b"more"))
        made = b.party.client.group("workers")
        assert sorted((one.id, one.data) for one in b.party.api.do(made.members)) == [
            ("a", b"more"),
            ("b", b"said"),
        ]
        assert (a.next(0.3), b.next(0.1)) == (None, None), "and it shares on"

    def test_at_rest_nothing_is_asked(self, world: World) -> None:
        a, b = two(world)
        assert (a.next(0.3), b.next(0.1)) == (None, None)
        asked = [len(worker.party.tap.asked) for worker in (a, b)]
        waiting = [a.stepping(), b.stepping()]
        assert not waiting[0].wait(1)
        again = [worker.party.tap.asked[before:] for worker, before in zip((a, b), asked, strict=True)]
        looks = set() if world.store.polls_every_s == math.inf else {"peek"}  # where nobody is notified
        assert {part for some in again for one in some for part in one.parts} <= RENEWING | looks
        a.release()
        b.release()

    def test_an_interrupted_step_leaves_everything_as_it_is(self, world: World) -> None:
        a, b = two(world)
        held = dict(a.now)

        def waits(asked: Asked) -> bool:
            return asked.parts == (RECEIVE,) and not asked.behind

        a.party.tap.fail(Act.INTERRUPT_BEFORE, matches=waits)
        with pytest.raises(world.api.interrupts):
            a.next()
        assert all(grant.held for grant in held.values())
        b.release()
        a.until(ITEMS)

    @pytest.mark.parametrize("act", [Act.LOSE_REPLY, Act.LOSE_REQUEST, Act.LOSE_LAST_REPLY])
    def test_answers_that_are_lost_are_asked_for_again(self, world: World, act: Act) -> None:
        a, b = two(world)
        for n in (1, 2, 4):
            b.party.tap.fail(act, n, matches=lambda asked: asked.behind and not {*asked.parts} & KEEPING)
        a.release()
        b.until(ITEMS)
        assert all(grant.held and b.party.verify(grant) for grant in b.now.values())
        b.close()
        c = Worker(world.client(**LONG), "c").until(ITEMS)
        assert all(grant.held for grant in c.now.values()), "nothing of what was asked twice is left"

    def test_a_client_that_is_closed_ends_it(self, world: World) -> None:
        a, b = two(world)
        waiting = a.stepping()
        a.party.close()
        assert waiting.error() is not None
        b.until(ITEMS)

    def test_its_events_are_of_partitions(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a", ["x"]).until(["x"])
        a.release()
        (acquired,) = world.heard.wait("partition.acquired")
        assert (acquired.name, acquired.recipe, acquired.token) == (
            "workers/x",
            "partition",
            a.now["x"].token,
        )
        world.heard.wait("partition.released", name="workers/x")

    def test_what_does_not_fit_is_refused_before_anything_is_sent(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a", ["x"])
        refused: list[Any] = [
            ("x", TypeError),
            ([7], TypeError),
            ([""], ValueError),
            (["x", "x"], ValueError),
        ]
        with a.party.tap.counting() as asked:
            for items, error in refused:
                with pytest.raises(error):
                    a.membership.partitions(items)
        assert asked == []
        a.until(["x"])
        with pytest.raises(RuntimeError, match="close its partitions first"):
            a.membership.partitions(["y"])

    def test_of_two_that_have_not_begun_the_last_ones_are_used(self, world: World) -> None:
        a = Worker(world.client(**LONG), "a", ["x"])
        earlier, a.partitions = a.partitions, a.membership.partitions(["x"])
        a.until(["x"])
        a.partitions = earlier
        with pytest.raises(RuntimeError, match="other partitions since"):
            a.next()
