"""Bugs to plant in how etcd's protocol lists, watches and rewrites."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from recipes.stores.etcd import codec, layout, protocol, stream_book
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.stream_book import WatchBook
from tests.mutants.transports import TransportMutant
from tests.simulation.bugs import swap

__all__ = ["LISTS"]


def _gap_ignored() -> list[Any]:
    def listing(self: Any, op: Any, context: Any) -> Any:
        asking = original(self, op, context)
        *since, found = yield asking.send(None)
        try:
            asking.send((*(0 for _ in since), found))
        except StopIteration as done:
            return done.value

    original = EtcdProtocol.listing
    return swap(EtcdProtocol, "listing", listing)


def _watching(**otherwise: Any) -> list[Any]:
    watch = protocol.WatchKey
    return swap(protocol, "WatchKey", lambda *args, **kept: replace(watch(*args, **kept), **otherwise))


def _counts_nothing() -> list[Any]:
    def rewrite(self: Any, op: Any, context: Any) -> Any:
        written = yield from original(self, op, context)
        return written and 1

    original = EtcdProtocol.rewrite
    return swap(EtcdProtocol, "rewrite", rewrite)


def _any_version() -> list[Any]:
    def rewrite(self: Any, op: Any, context: Any) -> Any:
        return (yield from original(self, replace(op, version=None), context))

    original = EtcdProtocol.rewrite
    return swap(EtcdProtocol, "rewrite", rewrite)


def _compared_by_value() -> list[Any]:
    """Which never succeeds where an owner is written beside the mark."""

    def compare_seen(target: Any, mine: Any) -> Any:
        key = target.ref.encode()
        there = codec.compare_present(key, before=mine.token)
        value = {"target": "VALUE", "result": "EQUAL", "value": target.mark.encode()}
        return [*there, {"key": key, **value}] if mine.ticket.minds_marks else there

    return swap(protocol, "_compare_seen", compare_seen)


def _by_key_alone() -> list[Any]:
    return swap(stream_book.Arming, "wanted", property(lambda self: (self.watch.key, b"", True)))


def _a_watch_each() -> list[Any]:
    def arm(self: Any, arming: Any, store: str, **kept: bool) -> Any:
        if arming.watch.end:
            self._open.clear()
        return original(self, arming, store, **kept)

    original = WatchBook.arm
    return swap(WatchBook, "arm", arm)


def _deletions_as_of_a_key() -> list[Any]:
    def fire(self: Any, wired: Any, event: Any) -> Any:
        return original(self, wired, stream_book.Gone(event.ref))

    original = WatchBook._fire
    return swap(WatchBook, "_fire", fire)


def _told_by_both() -> list[Any]:
    def fire(self: Any, wired: Any, event: Any) -> Any:
        self._remove(wired)
        self.told += [(arming.watch.mailbox.post, event) for arming in wired.armings]
        return [wired.number]

    return swap(WatchBook, "_fire", fire)


def _disturbed_by_each() -> list[Any]:
    def disturb(self: Any, lost: Any, error: Any) -> None:
        for one in lost:
            original(self, [one], error)

    original = WatchBook._disturb
    return swap(WatchBook, "_disturb", disturb)


def _one_watch_alone() -> list[Any]:
    def arm(self: Any, arming: Any, store: str, **_: bool) -> Any:
        return original(self, arming, store, twice=False)

    original = WatchBook.arm
    return swap(WatchBook, "arm", arm)


def _no_doubt() -> list[Any]:
    def arm_doubtful(*_: Any) -> Any:
        yield from ()

    return swap(EtcdProtocol, "_arm_doubtful", arm_doubtful)


def _no_numbers() -> list[Any]:
    without = layout._OURS.pattern.replace(r"[0-9]*(\.[0-9]+)?", "", 1)
    return swap(layout, "_OURS", re.compile(without))


def _all_below_the_root() -> list[Any]:
    def locks(self: Any) -> Any:
        start = self._base.encode()
        return start or b"\0", layout.prefix_end(start) if start else b"\xff"

    return swap(Layout, "locks", property(locks))


def _believes_a_part() -> list[Any]:
    return swap(codec, "whole", lambda body, reply: True)


WHERE = "etcd lists and rewrites"
STEPS, BOOK, LAYOUT, LISTING = (
    "tests/stores/test_etcd_protocol.py",
    "tests/stores/etcd/test_stream_book.py",
    "tests/stores/test_etcd_layout.py",
    "tests/simulation/test_etcd_listing.py",
)
LISTS = [
    TransportMutant(name, WHERE, tests, plant)
    for name, tests, plant in (
        ("what changes before the watch begins is missed", LISTING, _gap_ignored),
        ("a queue is watched for deletions alone", LISTING, lambda: _watching(changes=False)),
        ("the first key of a queue is watched, not the queue", LISTING, lambda: _watching(end=b"")),
        ("each rewrite is the first", LISTING, _counts_nothing),
        ("a rewrite compares no version", STEPS, _any_version),
        ("marks are compared by values", STEPS, _compared_by_value),
        ("a queue and its first key share a watch", BOOK, _by_key_alone),
        ("each mailbox has its own watch of a queue", BOOK, _a_watch_each),
        ("any event of a queue is a deletion of a key", BOOK, _deletions_as_of_a_key),
        ("a second watch is the first", BOOK, _one_watch_alone),
        ("a second watch tells what the first told", BOOK, _told_by_both),
        ("each watch says that the stream was lost", BOOK, _disturbed_by_each),
        ("no watch is doubted", STEPS, _no_doubt),
        ("a reply that lacks results is believed", STEPS, _believes_a_part),
        ("kinds have no numbers", LAYOUT, _no_numbers),
        ("queues of other recipes are locks", LAYOUT, _all_below_the_root),
    )
]
