"""The request budget of the design, counted where requests are asked, and again on the wire."""

from __future__ import annotations

import threading

import pytest

from integration import servers
from integration.counting import (
    COUNTED,
    GRANTED,
    GRANTED_LONG,
    LOOKED,
    MOVED_UP,
    MOVED_UP_LONG,
    RELEASED,
    on_the_wire,
    requests,
    trips,
    used,
    writes,
)
from integration.proxy import Proxy
from integration.stores import ServerStore
from recipes.stores.etcd.protocol import READ_WHOLE, EtcdProtocol
from tests.contract.apis import Running
from tests.contract.tap import Asked
from tests.contract.world import Party, World, until

QUEUES = [2, 200]
pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]


def test_uncontended_acquire_and_release_take_one_round_trip_each(
    proxy: Proxy, world: World, store: ServerStore, kind: str
) -> None:
    party = used(world, url=proxy.url(store.prefix))
    with proxy.counting() as acquiring, party.tap.counting() as acquired:
        grant = party.acquire("x")
    with proxy.counting() as releasing, party.tap.counting() as released:
        party.release(grant)
    assert trips(acquired) == LOOKED[kind]
    assert trips(released) == RELEASED[kind]
    assert on_the_wire(acquiring) == requests(acquired), acquiring
    assert on_the_wire(releasing) == 1, releasing
    assert acquiring.connections == releasing.connections == 0


def test_try_of_a_free_lock(proxy: Proxy, world: World, store: ServerStore, kind: str) -> None:
    party = used(world, url=proxy.url(store.prefix))
    with proxy.counting() as counts, party.tap.counting() as seen:
        assert party.try_acquire("x").held
    assert trips(seen) == ([] if kind == "etcd" else [("Children",)]) + LOOKED[kind]
    assert on_the_wire(counts) == requests(seen), counts


def test_try_of_a_held_lock_is_one_round_trip_and_writes_nothing(
    proxy: Proxy, world: World, store: ServerStore, kind: str
) -> None:
    holder, party = used(world), used(world, url=proxy.url(store.prefix))
    holder.acquire("x")
    before = writes(store)
    with proxy.counting() as counts, party.tap.counting() as seen:
        assert party.try_acquire("x") is None
    assert trips(seen) == [("/kv/txn",) if kind == "etcd" else ("Children",)]
    assert on_the_wire(counts) == 1, counts
    assert writes(store) == before
    assert party.wait_clean()


def threads_of_ours() -> list[threading.Thread]:
    """Return the threads that the package has started."""
    return [one for one in threading.enumerate() if one.name.startswith("recipes-")]


class Queue:
    """A held lock and its waiters, of three clients in turn: whoever they watch is another's."""

    def __init__(self, world: World, length: int) -> None:
        self.holder = used(world)
        self.parties = [used(world) for _ in range(3)]
        self.grant = self.holder.acquire("x")
        self.joins: list[list[Asked]] = []
        self.waiting: list[tuple[Party, Running]] = []
        for n in range(length):
            self.join(self.parties[n % 3])

    def join(self, party: Party) -> None:
        """Have one more wait, and note what that took."""
        with party.tap.counting() as seen:
            self.waiting.append((party, party.queue_up("x", timeout=None)))
        self.joins.append(seen)

    def asked(self) -> list[tuple[str, ...]]:
        """Return all round trips of all waiters so far."""
        return [trip for party in self.parties for trip in trips(party.tap.asked_by_callers())]


@pytest.mark.parametrize("length", QUEUES)
def test_joining_a_held_lock_takes_at_most_three_requests(world: World, kind: str, length: int) -> None:
    queue = Queue(world, length)
    before = queue.asked()
    if kind == "zookeeper":
        expected = [[("Create", "Children"), ("Get",)]] * length
    else:
        # The enqueue shows the holder, so many waiters, and the own key; a longer queue takes a bounded read.
        short, long = [("/kv/txn",), ("Watch",)], [("/kv/txn",), ("/kv/range",), ("Watch",)]
        expected = [short if n < READ_WHOLE - 1 else long for n in range(length)]
    assert [trips(join) for join in queue.joins] == expected
    assert max(requests(join) for join in queue.joins) <= 3
    assert queue.asked() == before


def test_joining_etcd_reads_once_more_if_a_write_fell_between_look_and_watch(
    world: World, store: ServerStore, kind: str
) -> None:
    if kind != "etcd":
        return
    queue = Queue(world, 0)
    party = queue.parties[0]

    def write(asked: Asked) -> None:
        if asked.parts == ("Watch",) and isinstance(store.server, servers.Etcd):
            store.server.put(f"{store.prefix}/unrelated")

    party.tap.before = write
    queue.join(party)
    assert trips(queue.joins[0]) == [("/kv/txn",), ("Watch",), ("/kv/txn",)]
    queue.holder.release(queue.grant)
    assert queue.waiting[0][1].result(3).held


@pytest.fixture(params=[False, True], ids=["", "long"])
def long(request: pytest.FixtureRequest, kind: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether every queue counts as long, where that makes a difference."""
    if request.param:
        if kind != "etcd":
            pytest.skip("a queue is never long")
        monkeypatch.setattr(EtcdProtocol, "sorted_soon", 0)
    return bool(request.param)


@pytest.mark.parametrize("length", QUEUES)
def test_one_release_grants_one_waiter_and_moves_up_at_most_one(
    world: World, kind: str, length: int, long: bool
) -> None:
    granted, moved_up = (GRANTED_LONG, MOVED_UP_LONG) if long else (GRANTED, MOVED_UP)
    queue = Queue(world, length)
    holder, grant = queue.holder, queue.grant
    for handed_over in range(min(length, 5)):
        party, running = queue.waiting[handed_over]
        others = queue.waiting[handed_over + 1 :]
        idle = [other.tap.waiting for other in queue.parties]
        before = queue.asked()
        with holder.tap.counting() as released:
            holder.release(grant)
        grant = running.result()
        assert trips(released)[-1:] == RELEASED[kind]
        expected = sorted(before + granted[kind] + moved_up[kind] * bool(others))
        if holder in queue.parties:  # the release is among what the waiters' clients asked
            expected = sorted(expected + RELEASED[kind])
        assert until(lambda want=expected: len(queue.asked()) >= len(want), 5)
        idle[queue.parties.index(party)] -= 1
        assert until(lambda want=idle: [other.tap.waiting for other in queue.parties] == want, 5)
        assert sorted(queue.asked()) == expected
        assert not any(later.done for _, later in others)
        holder = party


@pytest.mark.parametrize("length", QUEUES)
def test_a_hand_over_takes_two_round_trips_on_etcd_and_one_on_zookeeper(
    proxy: Proxy, world: World, store: ServerStore, length: int, long: bool
) -> None:
    kind = store.server.kind
    granted = (GRANTED_LONG if long else GRANTED)[kind]
    heir = used(world, url=proxy.url(store.prefix))
    queue = Queue(world, 0)
    queue.join(heir)
    for n in range(length - 1):
        queue.join(queue.parties[n % 3])
    with proxy.counting() as counts, heir.tap.counting() as seen, queue.holder.tap.counting() as released:
        queue.holder.release(queue.grant)
        queue.waiting[0][1].result()
    assert trips(released) + trips(seen) == RELEASED[kind] + granted
    assert sum(n for label, n in counts.requests.items() if "watch" not in label) == len(granted)


@pytest.mark.parametrize("length", QUEUES)
def test_waiting_asks_nothing(proxy: Proxy, world: World, store: ServerStore, kind: str, length: int) -> None:
    """And on etcd all watches of a client share one connection; asyncio uses no thread of ours."""
    holder, party = used(world), used(world, url=proxy.url(store.prefix))
    names = [f"lock {n}" for n in range(length)]
    for name in names:
        holder.acquire(name)
    threads = threading.active_count()
    with proxy.counting() as joining:
        waiting = [party.acquiring(name, timeout=None) for name in names]
        party.tap.wait_parked(length)
    if world.api.is_async:
        assert threading.active_count() == threads
    if kind == "etcd":
        assert joining.requests["/v3/watch"] == 1
        assert not world.api.is_async or not threads_of_ours()
    before = len(party.tap.asked)
    quiet = threading.Event()
    with proxy.counting() as counts:
        quiet.wait(1.0)  # nothing is what is waited for
    assert counts.requests == {}
    assert len(party.tap.asked) == before
    for grant in list(holder.client.grants):
        holder.release(grant)
    assert all(running.result().held for running in waiting)
