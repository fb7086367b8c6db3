"""What it costs on etcd to list a queue, to watch it, and to rewrite a contender in place."""

from __future__ import annotations

import threading

import pytest

from integration import servers
from integration.counting import on_the_wire, trips, used
from integration.proxy import Proxy
from integration.stores import ServerStore
from recipes._contract.operations import List, Rewrite
from recipes._contract.wakeups import Changed
from tests.contract.listing import GROUP, Follower, Observed, ask, join, leave
from tests.contract.world import World, until

pytestmark = [
    pytest.mark.measured,
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.parametrize("server", servers.ETCDS, indirect=True),
]


def test_a_list_and_a_rewrite_take_one_request_each(proxy: Proxy, world: World, store: ServerStore) -> None:
    party = used(world, url=proxy.url(store.prefix))
    place = join(party, GROUP)
    with proxy.counting() as counts, party.tap.counting() as seen:
        ask(party, List(GROUP, 100))
        assert ask(party, Rewrite(place, "ready", b"1")) == 1
        assert ask(party, Rewrite(place, "ready", b"2", version=1)) == 2
    assert trips(seen) == [("/kv/range",), ("/kv/txn",), ("/kv/txn",)]
    assert on_the_wire(counts) == 3, counts


def test_a_list_with_a_watch_is_one_round_trip_and_observers_of_a_queue_share_a_watch(
    proxy: Proxy, world: World, store: ServerStore, server: servers.Etcd
) -> None:
    party, other = used(world, url=proxy.url(store.prefix)), used(world)
    before = server.watches()
    with proxy.counting() as counts, party.tap.counting() as seen:
        observers = [Observed(party, GROUP) for _ in range(5)]
    assert trips(seen) == [("Watch", "/kv/range")] * 5
    assert counts.requests == {"/v3/kv/range": 5, "/v3/watch": 1, "/v3/watch chunk": 1}
    assert server.watches() == before + 1
    quiet = threading.Event()
    with proxy.counting() as counts:
        quiet.wait(1.0)  # nothing is what is waited for
    assert counts.requests == {}
    place = join(other, GROUP)
    assert [observed.next() for observed in observers] == [Changed(GROUP)] * 5
    assert until(lambda: server.watches() == before, 5), "what has notified is cancelled"
    leave(other, place)


def test_the_watches_of_several_queues_and_keys_share_a_connection(
    proxy: Proxy, world: World, store: ServerStore, server: servers.Etcd
) -> None:
    party, other = used(world, url=proxy.url(store.prefix)), used(world)
    grant = other.acquire("x")
    before = server.watches()
    with proxy.counting() as counts:
        waiting = party.queue_up("x")
        observed = Observed(party, "x", GROUP, "~election/x", events=2)
    assert counts.requests["/v3/watch"] == 1
    assert server.watches() == before + 4
    other.release(grant)
    assert waiting.result().held
    join(other, GROUP)
    assert [observed.next(), observed.next()] == [Changed("x"), Changed(GROUP)]
    assert until(lambda: server.watches() == before, 5)


def test_an_observer_outlives_a_compaction(world: World, store: ServerStore) -> None:
    party, other = used(world), used(world)
    place = join(other, GROUP, data=b"old")
    follower = Follower(party, GROUP, b"new")
    store.forget_history()
    assert ask(other, Rewrite(place, "", b"new")) == 1
    follower.running.result()
