"""What a group of 500 costs: to join it, and for each client that watches it, counted on real servers.

On etcd a look at a group is one range, with its watch; on ZooKeeper a listing of the names, and a read with a
watch of every member: the names do not say which member has said something else, so each look reads all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from integration import servers
from integration.counting import COUNTED, on_the_wire, trips, used
from integration.proxy import Proxy
from integration.stores import ServerStore
from tests.contract.group import Watcher, join, update
from tests.contract.tap import LOOKS
from tests.contract.world import Party, World

pytestmark = [
    pytest.mark.usefixtures("no_periodic_reading"),
    pytest.mark.measured,
    pytest.mark.parametrize("server", COUNTED, indirect=True),
]
SIZE = 500


def group_of(party: Party, size: int) -> list[Any]:
    """Return the memberships of so many."""
    return [join(party, f"10.0.0.1:{number}".encode()) for number in range(size)]


def looked(party: Party, since: int) -> list[tuple[str, ...]]:
    """Return the round trips of looks at whole groups since then."""
    asked = [one.parts for one in party.tap.asked[since:]]
    return [parts for parts in asked if parts in LOOKS or parts == ("/kv/range",) or set(parts) == {"Get"}]


def one_look(kind: str, size: int) -> list[tuple[str, ...]]:
    """Return the round trips of a look at a group of so many."""
    return [("Watch", "/kv/range")] if kind == "etcd" else [("Sync", "Children"), ("Get",) * size]


def test_a_change_costs_each_client_that_watches_one_look(world: World, kind: str) -> None:
    party, other = used(world), used(world)
    joined = group_of(other, SIZE)
    watcher = Watcher(party)
    assert len(watcher.next() or ()) == SIZE
    steps: list[tuple[Callable[[], Any], int]] = [
        (lambda: join(other, b"new"), SIZE + 1),
        (lambda: update(other, joined[7], b"another"), SIZE + 1),
        (lambda: other.release(joined[3]), SIZE),
    ]
    for change, size in steps:
        since = len(party.tap.asked)
        change()
        assert len(watcher.next() or ()) == size
        look = one_look(kind, size)
        # ZooKeeper tells twice of one that leaves, and the second may come once the queue is watched anew.
        leaves = kind == "zookeeper" and size == SIZE
        assert looked(party, since)[: len(look) if leaves else None] == look


def test_1000_that_watch_by_one_client_are_one_watch_and_at_rest_nothing_is_asked(
    proxy: Proxy, world: World, store: ServerStore, server: Any, kind: str
) -> None:
    party, other = used(world, url=proxy.url(store.prefix)), used(world)
    group_of(other, 10)
    before = server.watches() if isinstance(server, servers.Etcd) else 0
    since = len(party.tap.asked)
    many = [Watcher(party) for _ in range(1000)]
    assert {len(one.next() or ()) for one in many} == {10}
    assert looked(party, since) == one_look(kind, 10)
    if isinstance(server, servers.Etcd):
        assert server.watches() == before + 1
    with proxy.counting() as counts:
        threading.Event().wait(0.5)  # nothing is what is waited for
    assert on_the_wire(counts) == 0, counts
    since = len(party.tap.asked)
    join(other)
    assert {len(one.next() or ()) for one in many} == {11}
    assert looked(party, since) == one_look(kind, 11)


def test_joining_500_is_one_request_under_a_fixed_id_and_a_bounded_read_more_under_a_new_one(
    world: World, kind: str
) -> None:
    party, other = used(world), used(world)
    group_of(other, SIZE)
    with party.tap.counting() as fixed:
        join(party, id="fixed")
    with party.tap.counting() as new:
        join(party)
    if kind == "etcd":
        assert (trips(fixed), trips(new)) == ([("/kv/txn",)], [("/kv/txn",), ("/kv/range",)])
    else:
        assert trips(fixed) == trips(new) == [("Create", "Children")]
