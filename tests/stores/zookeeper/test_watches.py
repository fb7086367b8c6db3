"""Who is notified of which node."""

from __future__ import annotations

from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from recipes._contract.wakeups import Changed, Disturbed, Gone
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


def test_the_first_event_of_a_listing_is_the_only_one() -> None:
    watches, box, other = Watches(), Box(), Box()
    for one in (box, other):
        watches.add("/q", one, "q")
    watches.add("/q/1", box, "q", joins=True)
    watches.add("/q/2", box, "q", joins=True)
    watches.told(event(EventType.CHANGED, "/q/1"))
    assert box.next() == Changed("q")
    watches.told(event(EventType.DELETED, "/q/2"))
    watches.told(event(EventType.CHILD, "/q"))
    assert box.empty()
    assert other.next() == Changed("q")
    assert other.empty()
    assert (watches._by_path, watches._paths) == ({}, {})


def test_what_joins_a_listing_that_has_ended_is_not_watched() -> None:
    watches, box = Watches(), Box()
    watches.add("/q", box, "q")
    watches.told(event(EventType.CHILD, "/q"))
    assert box.next() == Changed("q")
    watches.add("/q/1", box, "q", joins=True)
    assert len(watches) == 0
    watches.add("/q", box, "q")
    watches.add("/q/1", box, "q", joins=True)
    watches.told(event(EventType.CHANGED, "/q/1"))
    assert box.next() == Changed("q"), "the next listing is another one"


def test_a_node_watched_by_itself_and_in_a_listing_is_told_of_twice() -> None:
    watches, box = Watches(), Box()
    watches.add("/q/1", box)
    watches.add("/q/1", box, "q")
    watches.add("/r", box, "r")
    watches.told(event(EventType.DELETED, "/q/1"))
    assert {box.next(), box.next()} == {Gone("/q/1"), Changed("q")}
    watches.told(event(EventType.CREATED, "/r"))
    assert box.next() == Changed("r")


def test_a_thousand_listings_of_one_queue_leave_what_one_leaves() -> None:
    watches, box = Watches(), Box()
    for number in range(1_000):
        watches.add("/q", box, "q")
        watches.add("/q/1", box, "q", joins=True)
        if number % 2:
            watches.told(event(EventType.CHILD, "/q"))
    assert len(watches) == 0
    watches.add("/q", box, "q")
    watches.add("/q/1", box, "q", joins=True)
    watches.add("/q/1", box)
    watches.add("/gone", box, "q", joins=True)
    watches.drop("/gone", box, "q")
    assert len(watches) == 3
    watches.forget(box)
    assert (watches._by_path, watches._paths) == ({}, {})
