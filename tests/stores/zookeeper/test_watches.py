"""Who is told of which node."""

from __future__ import annotations

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from recipes._contract.wakeups import Changed, Disturbed
from recipes.stores.zookeeper.kazoo_client_watches import Watches
from tests.stores.zookeeper.conftest import Box


def event(kind: str, path: str | None) -> WatchedEvent:
    return WatchedEvent(kind, KeeperState.CONNECTED, path)


def test_ten_thousand_that_give_up_leave_nothing() -> None:
    watches = Watches()
    for _ in range(10_000):
        box = Box()
        watches.add("/q", box)
        watches.add("/r", box)
        watches.drop("/r", box)
        watches.forget(box)
    assert (watches._by_path, watches._paths) == ({}, {})


def test_the_watcher_is_one_for_all() -> None:
    watches = Watches()
    assert len({watches.told, watches.told}) == 1  # so that kazoo's set does not grow


def test_a_mailbox_on_two_nodes_is_disturbed_once() -> None:
    watches, box = Watches(), Box()
    watches.add("/q", box)
    watches.add("/r", box)
    watches.told(event(EventType.NONE, None))
    assert box.next() == Disturbed()
    assert box.empty()
    assert len(watches) == 0


def test_only_the_node_that_changed_is_told() -> None:
    watches, box, other = Watches(), Box(), Box()
    watches.add("/q", box)
    watches.add("/r", box)
    watches.add("/r", other)
    watches.told(event(EventType.CHANGED, "/q"))
    watches.told(event(EventType.CHANGED, "/none"))
    assert box.next() == Changed("/q")
    assert box.empty()
    assert other.empty()
    assert len(watches) == 2
    watches.drop("/none", box)
    watches.forget(Box())
    assert len(watches) == 2
