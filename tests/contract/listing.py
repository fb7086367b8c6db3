"""Reading a queue while it changes: what `List` shows and notifies, and what `Rewrite` writes in place."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recipes._contract.contenders import Contender
from recipes._contract.operations import (
    Enqueue,
    Entry,
    Evict,
    List,
    Listing,
    Program,
    Queues,
    Rewrite,
    StoreOp,
    Ticket,
    Withdraw,
)
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Changed, Event
from recipes._programs.steps import Attach, Now, Wait
from recipes._run.runtime import new_id
from recipes.errors import SessionLost
from tests.contract.apis import Running
from tests.contract.tap import Act
from tests.contract.world import LONG, SHORT, Party, World, until

WITHIN_S = 25.0
"""For a whole call; longer than it takes until a wait without an event ends, so that this shows."""
SOON_S = 1.0
"""A store that has its queues read again sooner than this notifies nobody."""
GROUP = "~group/x"
QUEUES = ("x", GROUP, "~election/x")
ANY_BYTES = (
    b"",
    b"\n",
    b"two\nlines\n",
    b"\0",
    bytes(range(256)),
    b"downgraded",
    b"downgraded\n",
    b'{"owner":"me"}',
    "日本".encode(),
)


def do(party: Party, program: Program[Any]) -> Any:
    """Run a program as a call of this client."""
    runtime = party.client._runtime
    return party.api.do(lambda: runtime.run(program, runtime.call(None, WITHIN_S)))


def start(party: Party, program: Program[Any]) -> Running:
    """Run a program as a call of this client, beside the test."""
    runtime = party.client._runtime
    return party.api.start(lambda: runtime.run(program, runtime.call(None, WITHIN_S)))


def ask(party: Party, op: StoreOp[Any]) -> Any:
    """Carry out one operation as a call of this client."""
    return do(party, _asked(op))


def _asked(op: StoreOp[Any]) -> Program[Any]:
    yield from Attach()
    return (yield from op)


def join(party: Party, name: str, kind: str = "W", *, owner: str = "", data: bytes = b"") -> Entry:
    """Have a contender join a queue, whoever is there."""
    snapshot = ask(party, Enqueue(Ticket(name, kind, new_id(), owner, data), Rule(kind)))
    assert isinstance(snapshot.mine, Entry)
    return snapshot.mine


def leave(party: Party, entry: Entry) -> None:
    """Have a contender leave its queue."""
    assert ask(party, Withdraw(entry.ticket, entry)) is True


def listed(party: Party, name: str, most: int = 100) -> tuple[Contender, ...]:
    """Return the head of a queue."""
    listing: Listing = ask(party, List(name, most))
    return listing.contenders


def one_listed(party: Party, name: str) -> Contender:
    """Return the only contender of a queue."""
    (only,) = listed(party, name)
    return only


class Observed:
    """A call that lists queues with a watch, once each, and passes on so many events that it receives."""

    def __init__(self, party: Party, *names: str, most: int = 100, events: int = 1) -> None:
        self.listings: list[Listing] = []
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._armed = threading.Event()
        self.running = start(party, self._observe(names, most, events))
        assert self._armed.wait(WITHIN_S)

    def _observe(self, names: tuple[str, ...], most: int, events: int) -> Program[None]:
        yield from Attach()
        for name in names:
            self.listings.append((yield from List(name, most, watch=True)))
        self._armed.set()
        for _ in range(events):
            self._events.put((yield from self._notice(names, most)))

    def _notice(self, names: tuple[str, ...], most: int) -> Program[Event | None]:
        """Wait for an event; of a store that notifies nobody read again when it says so, until it differs."""
        due_s = min((one.due_s for one in self.listings if one.due_s is not None), default=math.inf)
        if due_s > SOON_S:
            return (yield from Wait())
        while True:
            event = yield from Wait(due_at=(yield from Now()) + due_s)
            if event is not None:
                return event
            for number, name in enumerate(names):
                before, found = self.listings[number], (yield from List(name, most, watch=True))
                self.listings[number] = found
                if found.contenders != before.contenders:
                    return Changed(name)

    def next(self) -> Event | None:
        """Return the next event; None: no event came, and it is time to read again."""
        return self._events.get(timeout=WITHIN_S)


class Follower:
    """A call that lists a queue with a watch, again and again, until its only contender has this data."""

    def __init__(self, party: Party, name: str, until: bytes) -> None:
        self.events: list[Event | None] = []
        self._armed = threading.Event()
        self.running = start(party, self._follow(name, until))
        assert self._armed.wait(WITHIN_S)

    def _follow(self, name: str, until: bytes) -> Program[None]:
        yield from Attach()
        while True:
            listing = yield from List(name, 10, watch=True)
            self._armed.set()
            if [one.data for one in listing.contenders] == [until]:
                return
            self.events.append((yield from Wait()))


class Listings:
    """`List`, with and without a watch, and `Rewrite`."""

    # What is shown.

    @pytest.mark.parametrize("name", ["x", GROUP])
    def test_a_listing_shows_everything_of_a_contender(self, world: World, name: str) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        assert listed(b, name) == ()
        data = b"" if name == "x" else b"10.0.0.1"
        first = join(a, name, owner='{"owner":"me"}', data=data)
        second = join(b, name, "R")
        one, other = listed(b, name)
        assert (one.ref, one.id, one.kind, one.token) == (first.ref, first.ticket.id, "W", first.token)
        assert (one.session, one.mark, one.owner) == (a.client.session.id, "", '{"owner":"me"}')
        assert (one.data, one.version) == (data, 0)
        assert (other.ref, other.kind, other.owner, other.data) == (second.ref, "R", "", b"")
        assert one.token < other.token
        assert listed(b, name, most=1) == (one,)

    @pytest.mark.parametrize("data", ANY_BYTES)
    @pytest.mark.parametrize("owner", ["", "downgraded by its owner", "日本"])
    def test_data_is_any_bytes(self, world: World, data: bytes, owner: str) -> None:
        client = world.client(**LONG)
        entry = join(client, GROUP, owner=owner, data=data)
        one = one_listed(client, GROUP)
        assert (one.mark, one.owner, one.data) == ("", owner, data)
        assert ask(client, Rewrite(entry, "ready", data)) == 1
        one = one_listed(client, GROUP)
        assert (one.mark, one.owner, one.data) == ("ready", owner, data)
        assert ask(client, Rewrite(entry, "", b"other")) == 2
        one = one_listed(client, GROUP)
        assert (one.mark, one.owner, one.data) == ("", owner, b"other")

    @pytest.mark.parametrize("data", ANY_BYTES)
    def test_an_elections_data_is_any_bytes(self, world: World, data: bytes) -> None:
        client = world.client(**LONG)
        entry = join(client, "~election/x", data=data)
        assert one_listed(client, "~election/x").data == data
        assert ask(client, Rewrite(entry, "", b"other")) == 1
        assert ask(client, Rewrite(entry, "", data)) == 2
        assert one_listed(client, "~election/x").data == data

    def test_an_owner_that_begins_like_a_mark_is_not_read_as_one(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        entry = join(a, "x", owner="downgraded{}")
        one = one_listed(b, "x")
        assert (one.mark, one.owner) == ("", "downgraded{}")
        assert b.reader.try_acquire("x") is None
        assert ask(a, Rewrite(entry, "downgraded")) == 1
        one = one_listed(b, "x")
        assert (one.mark, one.owner) == ("downgraded", "downgraded{}")
        assert b.reader.try_acquire("x").held

    @pytest.mark.parametrize("kind", ["S2.10", "S1.1", "M1152921504606846975"])
    def test_a_kind_may_carry_numbers(self, world: World, kind: str) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        first, second = join(a, "~semaphore/x", kind), join(b, "~semaphore/x", kind)
        assert [(one.id, one.kind) for one in listed(b, "~semaphore/x")] == [
            (first.ticket.id, kind),
            (second.ticket.id, kind),
        ]
        assert ask(a, Rewrite(first, "granted")) == 1
        assert [one.mark for one in listed(b, "~semaphore/x")] == ["granted", ""]

    @pytest.mark.parametrize("kind", ["Z", "S1.10"])
    def test_a_contender_of_a_kind_that_is_not_known_excludes_all(self, world: World, kind: str) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        entry = join(a, "x", kind)
        assert b.reader.try_acquire("x") is None
        assert b.writer.try_acquire("x") is None
        leave(a, entry)
        assert b.reader.try_acquire("x").held

    def test_queues_of_other_recipes_are_no_locks(self, world: World) -> None:
        client = world.client(**LONG)
        names = ("~semaphore/x", "~group/x", "~group/y")
        entries = [join(client, name) for name in names]
        grant = client.acquire("x")
        assert set(client.api.do(client.client.locks)) == {"x"}
        assert [one.token for one in listed(client, "x")] == [grant.token]
        assert [one_listed(client, name).ref for name in names] == [entry.ref for entry in entries]

    def test_a_queue_in_which_only_the_dead_stand_is_not_listed(self, world: World) -> None:
        a, b = world.client(frail=True, **SHORT), world.client(**LONG)
        a.acquire("dead")
        b.acquire("living")
        a.line.silence()
        assert until(lambda: ask(b, Queues(10)) == ("living",), WITHIN_S)
        assert ask(b, Queues(1)) == ("living",)

    # What is rewritten.

    @pytest.mark.parametrize("name", QUEUES)
    def test_a_rewrite_keeps_the_place_and_the_token(self, world: World, name: str) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        first, second = join(a, name, owner=""), join(b, name)
        assert ask(a, Rewrite(first, "", b"")) == 1
        assert ask(a, Rewrite(first, "", b"")) == 2
        one, other = listed(b, name)
        assert (one.ref, one.token, one.version) == (first.ref, first.token, 2)
        assert (other.ref, other.token, other.version) == (second.ref, second.token, 0)
        assert ask(b, Evict(name, one.ref, one.token)) is True

    def test_a_rewrite_compares_the_version_it_is_given(self, world: World) -> None:
        client = world.client(**LONG)
        entry = join(client, GROUP, data=b"0")
        assert ask(client, Rewrite(entry, "", b"1", version=0)) == 1
        for stale in (0, 2, 7):
            assert ask(client, Rewrite(entry, "", b"stale", version=stale)) is None
        one = one_listed(client, GROUP)
        assert (one.data, one.version) == (b"1", 1)
        assert ask(client, Rewrite(entry, "", b"2")) == 2
        assert ask(client, Rewrite(entry, "", b"3", version=2)) == 3
        one = one_listed(client, GROUP)
        assert (one.data, one.version) == (b"3", 3)

    @pytest.mark.parametrize("version", [None, 0])
    def test_what_is_gone_is_not_rewritten(self, world: World, version: int | None) -> None:
        client = world.client(**LONG)
        for name in QUEUES:
            entry = join(client, name)
            behind = join(client, name)
            leave(client, entry)
            assert ask(client, Rewrite(entry, "", b"late", version)) is None
            assert [one.ref for one in listed(client, name)] == [behind.ref]

    def test_nothing_of_a_session_that_ended_is_rewritten(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**LONG)
        entry = join(a, GROUP)
        world.store.end_session(a.client)

        def late() -> Program[int | None]:
            yield from Attach()
            try:
                return (yield from Rewrite(entry, "", b"late"))
            except SessionLost:
                return None

        assert do(a, late()) is None
        assert listed(b, GROUP) == ()

    @pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_REPLY])
    def test_a_rewrite_whose_answer_is_lost_is_asked_again(self, world: World, act: Act) -> None:
        client = world.client(**LONG)
        entry = join(client, GROUP, data=b"0")
        client.tap.fail(act)
        version = ask(client, Rewrite(entry, "ready", b"1"))
        one = one_listed(client, GROUP)
        assert (one.mark, one.data, one.version) == ("ready", b"1", version)

    def test_with_a_version_a_lost_answer_shows_in_a_listing(self, world: World) -> None:
        client = world.client(**LONG)
        entry = join(client, GROUP, data=b"0")
        client.tap.fail(Act.LOSE_REPLY)
        assert ask(client, Rewrite(entry, "", b"1", version=0)) is None
        one = one_listed(client, GROUP)
        assert (one.data, one.version) == (b"1", 1)
        client.tap.fail(Act.LOSE_REQUEST)
        assert ask(client, Rewrite(entry, "", b"2", version=1)) == 2

    # What is notified.

    @pytest.mark.parametrize("name", QUEUES)
    def test_the_first_contender_of_a_queue_is_notified(self, world: World, name: str) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        observed = Observed(a, name)
        assert observed.listings[0].contenders == ()
        entry = join(b, name)
        assert observed.next() == Changed(name)
        leave(b, entry)  # the queue was there once, and is empty
        observed = Observed(a, name)
        assert observed.listings[0].contenders == ()
        join(b, name)
        assert observed.next() == Changed(name)

    @pytest.mark.parametrize("name", QUEUES)
    @pytest.mark.parametrize("change", ["join", "leave", "leave last", "rewrite", "evict", "close"])
    def test_any_change_is_notified(self, world: World, name: str, change: str) -> None:
        a, b, c = (world.client(**LONG) for _ in range(3))
        entry = join(b, name)
        if change == "leave last":
            observed = Observed(a, name)
            leave(b, entry)
            assert observed.next() == Changed(name)
            return
        last = join(c, name)
        observed = Observed(a, name)
        assert [one.ref for one in observed.listings[0].contenders] == [entry.ref, last.ref]
        changes: dict[str, Callable[[], object]] = {
            "join": lambda: join(b, name),
            "leave": lambda: leave(c, last),
            "rewrite": lambda: ask(b, Rewrite(entry, "", b"new")),
            "evict": lambda: ask(b, Evict(name, last.ref, last.token)),
            "close": c.close,
        }
        changes[change]()
        assert observed.next() == Changed(name)

    def test_what_the_client_does_itself_is_notified(self, world: World) -> None:
        client = world.client(**LONG)
        observed = Observed(client, GROUP)
        entry = join(client, GROUP)
        assert observed.next() == Changed(GROUP)
        observed = Observed(client, GROUP)
        assert ask(client, Rewrite(entry, "", b"new")) == 1
        assert observed.next() == Changed(GROUP)
        observed = Observed(client, GROUP)
        leave(client, entry)
        assert observed.next() == Changed(GROUP)

    def test_locks_and_downgrades_are_changes(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        observed = Observed(a, "x")
        grant = b.writer.acquire("x")
        assert observed.next() == Changed("x")
        observed = Observed(a, "x")
        b.downgrade(grant)
        assert observed.next() == Changed("x")
        observed = Observed(a, "x")
        assert [one.mark for one in observed.listings[0].contenders] == ["downgraded"]
        b.release(grant)
        assert observed.next() == Changed("x")

    @pytest.mark.needs("notifies")
    def test_a_change_behind_those_asked_for_is_notified(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        head = join(b, GROUP)
        join(b, GROUP)
        tail = join(b, GROUP)
        observed = Observed(a, GROUP, most=1)
        assert [one.ref for one in observed.listings[0].contenders] == [head.ref]
        leave(b, tail)
        assert observed.next() == Changed(GROUP)

    @pytest.mark.needs("notifies")
    def test_only_the_first_change_is_notified(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        entry = join(b, GROUP)
        observed = Observed(a, GROUP, "x", events=2)
        assert ask(b, Rewrite(entry, "", b"1")) == 1
        assert observed.next() == Changed(GROUP)
        assert ask(b, Rewrite(entry, "", b"2")) == 2
        leave(b, entry)
        join(b, "x")
        assert observed.next() == Changed("x")

    def test_a_change_of_another_queue_is_not_notified(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        observed = Observed(a, "x", "~group/x", "last")
        for name in ("x%2Fy", "xx", "~group/xx", "~semaphore/x", "~group/x%2Fy", "y"):
            leave(b, join(b, name))
        join(b, "last")
        assert observed.next() == Changed("last")

    def test_every_observer_is_notified(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        observers = [Observed(party, GROUP) for party in (a, a, b, a)]
        entry = join(b, GROUP)
        assert [observed.next() for observed in observers] == [Changed(GROUP)] * 4
        observers = [Observed(party, GROUP) for party in (a, a)]
        leave(b, entry)
        assert [observed.next() for observed in observers] == [Changed(GROUP)] * 2

    def test_one_that_ends_leaves_the_others_their_watch(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        first, second = Observed(a, GROUP, "x"), Observed(a, GROUP)
        join(b, "x")
        assert first.next() == Changed("x")
        first.running.result()
        join(b, GROUP)
        assert second.next() == Changed(GROUP)

    def test_waiters_and_observers_are_woken_alike(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        grant = b.acquire("x")
        waiting = a.queue_up("x")
        observed = Observed(a, "x")
        b.release(grant)
        assert observed.next() == Changed("x")
        assert waiting.result(5).held

    def test_a_change_beside_the_listing_is_shown_or_notified(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        entry = join(b, GROUP, data=b"old")
        held = a.tap.fail(Act.HOLD_REPLY)
        events: list[Event | None] = []

        def look() -> Program[Listing]:
            yield from Attach()
            listing = yield from List(GROUP, 10, watch=True)
            if listing.contenders[0].data == b"old":
                events.append((yield from Wait()))
                listing = yield from List(GROUP, 10)
            return listing

        looking = start(a, look())
        assert held.fired.wait(10)
        assert ask(b, Rewrite(entry, "", b"new")) == 1
        a.tap.let_go()
        assert looking.result(WITHIN_S).contenders[0].data == b"new"
        by_itself = [] if world.store.polls_every_s == math.inf else [[None]]  # where nobody is notified
        assert events in ([], [Changed(GROUP)], *by_itself)

    def test_no_change_is_lost_among_many(self, world: World) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        entry = join(b, GROUP, data=b"0")
        followers = [Follower(party, GROUP, b"30") for party in (a, a, b)]
        for number in range(1, 31):
            assert ask(b, Rewrite(entry, "", b"%d" % number)) == number
        for follower in followers:
            follower.running.result(WITHIN_S)
            by_itself = set() if world.store.polls_every_s == math.inf else {None}  # where nobody is notified
            assert set(follower.events) - by_itself <= {Changed(GROUP)}
            assert follower.events
            assert len(follower.events) <= (60 if world.store.shows_first else 30)

    @pytest.mark.parametrize("act", [Act.LOSE_REQUEST, Act.LOSE_REPLY, Act.LOSE_LAST_REPLY])
    def test_a_listing_whose_answer_is_lost_is_asked_again(self, world: World, act: Act) -> None:
        a, b = world.client(**LONG), world.client(**LONG)
        lost = a.tap.fail(act)
        observed = Observed(a, GROUP)
        assert lost.fired.is_set()
        join(b, GROUP)
        assert observed.next() == Changed(GROUP)

    def test_an_observer_that_was_cut_off_sees_what_changed(self, world: World) -> None:
        a, b = world.client(frail=True, **LONG), world.client(**LONG)
        entry = join(b, GROUP, data=b"old")
        follower = Follower(a, GROUP, b"new")
        a.line.cut()
        assert ask(b, Rewrite(entry, "", b"new")) == 1
        a.line.heal()
        follower.running.result(WITHIN_S)

    def test_the_end_of_a_contenders_session_is_seen(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**SHORT)
        join(b, GROUP)

        armed = threading.Event()

        def until_empty() -> Program[None]:
            yield from Attach()
            while (yield from List(GROUP, 10, watch=True)).contenders:
                armed.set()
                yield from Wait()

        watching = start(a, until_empty())
        assert armed.wait(WITHIN_S)
        world.store.end_session(b.client)
        watching.result(WITHIN_S)

    def test_an_observer_whose_session_ends_is_told_so(self, world: World) -> None:
        a, b = world.client(**SHORT), world.client(**LONG)
        observed = Observed(a, GROUP, events=9)  # a broken connection disturbs it first
        world.store.end_session(a.client)
        error = observed.running.error(WITHIN_S)
        assert isinstance(error, SessionLost)
        observed = Observed(a, GROUP)  # on the next session
        join(b, GROUP)
        assert observed.next() == Changed(GROUP)
