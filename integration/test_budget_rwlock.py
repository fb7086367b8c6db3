"""The request budget of the read-write lock: who is woken, and what each one asks."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from integration import servers
from integration.counting import (
    COUNTED,
    GRANTED,
    GRANTED_LONG,
    LOOKED,
    MOVED_UP,
    RELEASED,
    on_the_wire,
    requests,
    trips,
    used,
    writes,
)
from integration.proxy import Counts, Proxy
from integration.stores import ServerStore
from recipes._contract.contenders import Contender
from recipes._rules.exclusive import WRITER
from tests.contract.apis import Running
from tests.contract.tap import Asked
from tests.contract.world import Party, World, until

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]

Trip = tuple[str, ...]
MARKED: dict[str, list[Trip]] = {"etcd": [("/kv/txn",)], "zookeeper": [("SetData",)]}
SAW_DOWNGRADE: dict[str, list[Trip]] = {"etcd": [("/kv/range",) * 3], "zookeeper": [("Children",), ("Get",)]}
WATCHED: dict[str, Trip] = {"etcd": ("Watch",), "zookeeper": ("Get",)}
TURNED: dict[str, Callable[[Party, object], object]] = {
    "release": lambda party, grant: party.release(grant),
    "downgrade": lambda party, grant: party.downgrade(grant),
}
READERS = 6


def test_reader_and_downgrade_take_one_round_trip_each(
    proxy: Proxy, world: World, store: ServerStore, kind: str
) -> None:
    party = used(world, url=proxy.url(store.prefix))

    def taking(call: Callable[[], object], expected: list[Trip]) -> object:
        with proxy.counting() as counts, party.tap.counting() as seen:
            result = call()
        assert trips(seen) == expected
        assert on_the_wire(counts) == requests(seen), counts
        return result

    first = taking(lambda: party.reader.acquire("x"), LOOKED[kind])
    second = taking(lambda: party.reader.acquire("x"), LOOKED[kind])  # beside another
    taking(lambda: party.release(first), RELEASED[kind])
    taking(lambda: party.release(second), RELEASED[kind])
    grant = taking(lambda: party.writer.acquire("x"), LOOKED[kind])
    taking(lambda: party.downgrade(grant), MARKED[kind])
    taking(lambda: party.downgrade(grant), [])
    taking(lambda: party.release(grant), RELEASED[kind])


def test_a_reader_that_comes_after_a_downgrade(world: World, kind: str) -> None:
    """ZooKeeper's listing shows no data: the reader takes the writer for one that keeps it out, and looks."""
    holder, party = used(world), used(world)
    holder.downgrade(holder.writer.acquire("x"))
    with party.tap.counting() as seen:
        assert party.reader.acquire("x").held
    assert trips(seen) == LOOKED[kind] + ([("Get",), *SAW_DOWNGRADE[kind]] if kind == "zookeeper" else [])
    with party.tap.counting() as seen:
        assert party.reader.try_acquire("x").held
    looked = [("/kv/txn",)] if kind == "etcd" else [("Children",), ("Get",)]
    assert trips(seen) == looked + LOOKED[kind] + ([("Get",)] if kind == "zookeeper" else [])


def test_try_of_the_reader_where_it_is_let_in(world: World, kind: str) -> None:
    holder, party = used(world), used(world)
    for _ in range(2):  # where nobody is, and beside a reader
        with party.tap.counting() as seen:
            assert party.reader.try_acquire("x").held
        assert trips(seen) == ([] if kind == "etcd" else [("Children",)]) + LOOKED[kind]
        holder.reader.acquire("x")


@pytest.mark.parametrize("writers", [1, 2])
def test_try_of_the_reader_behind_writers_writes_nothing(
    proxy: Proxy, world: World, store: ServerStore, kind: str, writers: int
) -> None:
    holder, party = used(world), used(world, url=proxy.url(store.prefix))
    waiting = [used(world) for _ in range(writers - 1)]
    holder.writer.acquire("x")
    for one in waiting:
        one.writer.queue_up("x")
    before = writes(store)
    with proxy.counting() as counts, party.tap.counting() as seen:
        assert party.reader.try_acquire("x") is None
    asks_state = kind == "zookeeper" and writers == 1  # of several, one waits: it did not downgrade
    assert trips(seen) == [("/kv/txn",) if kind == "etcd" else ("Children",)] + [("Get",)] * asks_state
    assert on_the_wire(counts) == requests(seen), counts
    assert writes(store) == before


class Queue:
    """A writer that holds, and others behind it, of three clients in turn: nobody waits for its own."""

    def __init__(self, world: World, kinds: str) -> None:
        self.holder = used(world)
        self.parties = [used(world) for _ in range(3)]
        self.grant = self.holder.writer.acquire("x")
        self.waiting = [self._join(n, which) for n, which in enumerate(kinds)]
        self._before = self._asked()
        self._parked = [party.tap.waiting for party in self.parties]

    def _join(self, n: int, which: str) -> tuple[Party, Running]:
        party = self.parties[n % len(self.parties)]
        return party, (party.reader if which == "R" else party.writer).queue_up("x", timeout=None)

    def _asked(self) -> Counter[Trip]:
        return Counter(trip for party in self.parties for trip in trips(party.tap.asked_by_callers()))

    def turn(self, how: str) -> list[Asked]:
        """Have the holder release or downgrade; returns what that took."""
        with self.holder.tap.counting() as seen:
            TURNED[how](self.holder, self.grant)
        return seen

    def expect(self, granted: int, asked: list[Trip]) -> None:
        """See that the first so many are granted, and what all waiters together asked for it."""
        wanted = Counter(asked)
        for party, running in self.waiting[:granted]:
            assert running.result().held
            self._parked[self.parties.index(party)] -= 1
        assert until(lambda: (self._asked() - self._before).total() >= wanted.total(), 5)
        assert until(lambda: [party.tap.waiting for party in self.parties] == self._parked, 5)
        assert self._asked() - self._before == wanted
        assert not any(running.done for _, running in self.waiting[granted:])


def test_a_release_with_a_writer_next_wakes_that_one(world: World, kind: str) -> None:
    """The readers behind it watch it, and the last writer a reader: none of them hears anything."""
    queue = Queue(world, "WRRRWRR")
    assert trips(queue.turn("release")) == RELEASED[kind]
    queue.expect(1, GRANTED[kind])


def test_a_release_with_two_writers_next_moves_the_second_up(world: World, kind: str) -> None:
    queue = Queue(world, "WWRRR")
    queue.turn("release")
    queue.expect(1, [*GRANTED[kind], *MOVED_UP[kind]])


@pytest.mark.parametrize("readers", [2, READERS])
def test_a_release_grants_the_readers_next_in_line_and_nobody_behind_asks(
    world: World, kind: str, readers: int
) -> None:
    queue = Queue(world, "R" * readers + "WRRRW")
    assert trips(queue.turn("release")) == RELEASED[kind]
    queue.expect(readers, GRANTED_LONG[kind] * readers)


@pytest.mark.parametrize("readers", [2, READERS])
def test_a_downgrade_grants_the_readers_next_in_line_and_nobody_behind_asks(
    world: World, kind: str, readers: int
) -> None:
    queue = Queue(world, "R" * readers + "WRRRW")
    assert trips(queue.turn("downgrade")) == MARKED[kind]
    queue.expect(readers, SAW_DOWNGRADE[kind] * readers)


def test_behind_a_single_reader_one_writer_steps_up(world: World, kind: str) -> None:
    """It watches the second ahead, which is the one that goes; on etcd it looks when that may be all."""
    queue = Queue(world, "RWRR")
    queue.turn("release")
    queue.expect(1, [*GRANTED_LONG[kind], *MOVED_UP[kind]])


def test_a_downgrade_wakes_a_writer_on_zookeeper_alone(world: World, kind: str) -> None:
    """There, no watch tells only of the end; the writer looks once, and watches again."""
    queue = Queue(world, "WRR")
    queue.turn("downgrade")
    queue.expect(0, [("Children",), ("Get",)] if kind == "zookeeper" else [])


def test_a_reader_wakes_to_one_round_trip_on_etcd_and_none_on_zookeeper(
    proxy: Proxy, world: World, store: ServerStore, kind: str
) -> None:
    heir = used(world, url=proxy.url(store.prefix))
    queue = Queue(world, "")
    reading = heir.reader.queue_up("x")
    with proxy.counting() as counts, heir.tap.counting() as seen:
        queue.turn("release")
        assert reading.result().held
    assert trips(seen) == GRANTED_LONG[kind]
    assert requests_without_watches(counts) == len(GRANTED_LONG[kind])


def test_a_reader_that_came_behind_several_writers_wakes_once(world: World, kind: str) -> None:
    """To one round trip: it watched the nearest, and does not know that the others are gone."""
    heir = used(world)
    queue = Queue(world, "WW")
    with heir.tap.counting() as seen:
        reading = heir.reader.queue_up("x")
    assert trips(seen)[-1] == (("Watch",) if kind == "etcd" else ("Get",))
    with heir.tap.counting() as seen:
        queue.turn("release")
        for party, running in queue.waiting:
            party.release(running.result())
        assert reading.result().held
    looked = ("Watch", *("/kv/range",) * 3)  # around the readers, and its own key
    assert trips(seen) == ([looked] if kind == "etcd" else MOVED_UP[kind])


def at_random(seed: int) -> Callable[[int], int]:
    """Return who goes next, of so many."""
    return lambda left: random.Random(f"{seed}/{left}").randrange(left)


ORDERS: dict[str, Callable[[int], int]] = {
    "as they came": lambda left: 0,
    "last come first": lambda left: left - 1,
    "by turns": lambda left: (left - 1) * (left % 2),
    **{f"at random {seed}": at_random(seed) for seed in range(3)},
}


@pytest.mark.parametrize("which", ORDERS.values(), ids=ORDERS)
def test_a_writer_behind_readers_looks_at_most_once_for_each(
    world: World, kind: str, which: Callable[[int], int]
) -> None:
    """It wakes only when the one it watches goes: to one look, and one new watch if others are left."""
    parties, writer = [used(world) for _ in range(3)], used(world)
    grants = {f"r{n}": (party, party.reader.acquire("x")) for n, party in enumerate(parties * 2)}
    writing = writer.writer.queue_up("x")
    joined = len(writer.tap.asked)

    def asked() -> list[Trip]:
        return trips(writer.tap.asked_by_callers(joined))

    standing = [Contender(name, kind="R") for name in reversed(grants)]  # nearest first
    whom = WRITER.targets if kind == "zookeeper" else WRITER.blockers
    looked: Trip = ("/kv/range",) if kind == "etcd" else MOVED_UP[kind][0]
    watched, before = whom(tuple(standing)), 0
    while standing:
        goes = standing.pop(len(standing) - 1 - which(len(standing)))
        party, grant = grants[goes.ref]
        party.release(grant)
        if goes in watched and standing:
            assert until(lambda least=before: len(asked()) > least and writer.tap.waiting, 5)
            assert asked()[before:] in ([looked], [looked, WATCHED[kind]])
            watched, before = whom(tuple(standing)), len(asked())
        assert len(asked()) == before or not standing
    assert writing.result().held
    looks = [trip for trip in asked() if trip != WATCHED[kind]]
    assert len(looks) <= len(grants)


def requests_without_watches(counts: Counts) -> int:
    """Return how many requests passed the proxy besides the beginning and the end of watches."""
    return sum(n for label, n in counts.requests.items() if "watch" not in label)


def watches(store: ServerStore, counts: Counts) -> int:
    """Return how many watches one client set, as the wire or the server says."""
    if isinstance(store.server, servers.Etcd):
        return counts.requests["/v3/watch chunk"]  # each asks for one
    assert isinstance(store.server, servers.ZooKeeper)
    told = store.server.ask("wchp")
    paths = re.split(r"^(?=/)", told, flags=re.MULTILINE)
    return sum(path.count("\t") for path in paths if path.startswith(f"/{store.prefix}/"))


def test_readers_of_one_client_share_one_watch(proxy: Proxy, world: World, store: ServerStore) -> None:
    holder, party = used(world), used(world, url=proxy.url(store.prefix))
    grant = holder.writer.acquire("x")
    with proxy.counting() as counts:
        readings = [party.reader.queue_up("x") for _ in range(READERS)]
    assert watches(store, counts) == 1
    holder.release(grant)
    assert all(reading.result().held for reading in readings)


def test_readers_behind_a_writer_of_their_own_client_need_no_watch(
    proxy: Proxy, world: World, store: ServerStore
) -> None:
    party = used(world, url=proxy.url(store.prefix))
    grant = party.writer.acquire("x")
    with proxy.counting() as counts:
        readings = [party.reader.queue_up("x") for _ in range(READERS)]
    assert watches(store, counts) == 0
    with proxy.counting() as counts:
        party.downgrade(grant)
        assert all(reading.result().held for reading in readings)
    assert watches(store, counts) == 0
