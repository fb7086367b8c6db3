"""Bugs in what is seen from outside: keys and nodes, requests and replies, inspection, the command line."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from recipes import inspection
from recipes._rules.readwrite import SHARED
from recipes.cli.history import reading, spans
from recipes.cli.running import ending as endings
from recipes.cli.running import signals
from recipes.cli.running.ending import Ending
from recipes.cli.running.signals import Signals
from recipes.stores._kit.cell import CellProtocol
from recipes.stores.etcd import codec as etcd_codec
from recipes.stores.etcd import layout as etcd_layout
from recipes.stores.etcd.layout import Layout as Keys
from recipes.stores.zookeeper import codec as zookeeper_codec
from recipes.stores.zookeeper import layout as zookeeper_layout
from recipes.stores.zookeeper.kazoo_client_log import KazooLog
from recipes.stores.zookeeper.layout import Layout as Nodes
from recipes.testing import store as kit
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["OUTSIDE"]

LAYOUT, CODEC = "etcd layout", "etcd codec"
NODES, JUTE = "ZooKeeper layout", "ZooKeeper codec"
LOOKING, KIT, RUNNING, HISTORY = "inspection", "test kit", "recipes run", "recipes stats"
CELLS = "cell protocol, outside of schedules"


def _what_lands_after_the_end_stays() -> list[Any]:
    def end(self: Any, op: Any, context: Any) -> Any:
        yield from original(self, op, context)
        self._ended = False

    original = CellProtocol.end
    return swap(CellProtocol, "end", end)


def _sessions_in_the_root() -> list[Any]:
    def anchor(self: Any, lease: str) -> bytes:
        return f"{self._base}~session/{lease}".encode()

    return swap(Keys, "anchor", anchor)


def _whole_range() -> list[Any]:
    def whole(self: Any, name: str) -> Any:
        start = self.queue(name)
        return start, etcd_layout.prefix_end(start)

    return swap(Keys, "whole", whole)


def _sessions_are_queues() -> list[Any]:
    def name_of(self: Any, key: bytes) -> str | None:
        name, slash, _ = key[len(self._base) :].partition(b"/")
        return name.decode() if slash and etcd_layout._NAME.fullmatch(name) else None

    return swap(Keys, "name_of", name_of)


def _readers_see_readers() -> list[Any]:
    def ranges(self: Any, name: str, rule: Any) -> Any:
        return [self.whole(name)] if rule is SHARED else original(self, name, rule)

    original = Keys.ranges
    return swap(Keys, "ranges", ranges)


def _begins_like_ours() -> list[Any]:
    return swap(etcd_layout, "_OURS", re.compile(etcd_layout._OURS.pattern + ".*"))


def _up_to_its_own() -> list[Any]:
    def nearest(key: bytes, end: bytes, *, before: int | None, limit: int) -> Any:
        return original(key, end, before=None if before is None else before + 1, limit=limit)

    original = etcd_codec.nearest
    return swap(etcd_codec, "nearest", nearest)


def _without_leases() -> list[Any]:
    def keys(found: Any) -> Any:
        return [kv._replace(lease=0) for kv in original(found)]

    original = etcd_codec.keys
    return swap(etcd_codec, "keys", keys)


def _latest_for_oldest() -> list[Any]:
    def oldest(key: bytes, end: bytes, limit: int) -> Any:
        return {**original(key, end, limit), "sort_order": "DESCEND"}

    original = etcd_codec.oldest
    return swap(etcd_codec, "oldest", oldest)


def _children_as_listed() -> list[Any]:
    sorted_ = Nodes.children
    return swap(Nodes, "children", lambda self, names: sorted_(self, names)[::-1])


def _of_no_session() -> list[Any]:
    return [
        *swap(zookeeper_codec, "_EPHEMERAL", 2),
        *swap(zookeeper_codec, "_SEQUENCE", 1),
    ]


def _first_holds(queue: Any) -> list[bool]:
    return [number == 0 for number, _ in enumerate(queue)]


def _any_owner() -> list[Any]:
    return swap(inspection, "_SOUND", dict.fromkeys(inspection._SOUND, lambda value: value is not None))


def _all_taken() -> list[Any]:
    def take(self: Any, number: int) -> None:
        self._before.setdefault(number, signals.signal.signal(number, self._on_signal))

    return swap(Signals, "_take", take)


def _forgetting(self: Signals) -> None:
    self._asked = None
    self.arrived.clear()
    _LET_END(self)


_LET_END = Signals.let_end


def _stuck_is_forgotten() -> list[Any]:
    def as_fields(self: Any) -> Any:
        return fields(replace(self, stuck=()))

    fields = Ending.as_fields
    return swap(Ending, "as_fields", as_fields)


def _bare_number() -> list[Any]:
    def ending_of(status: int, token: int | None, left: int, stuck: tuple[int, ...] = ()) -> Ending:
        found = made(status, token, left, stuck)
        code = found.code - endings.codes.SIGNALLED if found.outcome.value == "signalled" else found.code
        return replace(found, code=code)

    made = endings.ending_of
    return swap(endings, "ending_of", ending_of)


def _planted(where: str, tests: str, bugs: dict[str, Any]) -> list[TransportMutant]:
    return [TransportMutant(name, where, tests, plant) for name, plant in bugs.items()]


OUTSIDE = [
    *_planted(
        LAYOUT,
        "tests/stores/test_etcd_layout.py",
        {
            "sessions are below a name that others may lock": _sessions_in_the_root,
            "a session is a queue": _sessions_are_queues,
            "readers wait for readers": _readers_see_readers,
            "what only begins like ours is ours": _begins_like_ours,
            "all that a session withdraws shares a tombstone": lambda: swap(
                Keys, "tombstone", lambda self, ticket_id, lease: self.anchor(lease) + b"/x"
            ),
        },
    ),
    *_planted(
        LAYOUT,
        "tests/stores/test_etcd_nested.py",
        {
            "what other recipes keep is counted when one joins": _whole_range,
            "a queue is listed once for each contender": lambda: swap(
                Keys, "behind", lambda self, key: key + b"\0"
            ),
        },
    ),
    *_planted(
        LAYOUT,
        "tests/stores/test_etcd_protocol.py",
        {"a contender without a session is not reported": lambda: swap(Keys, "foreign", nothing)},
    ),
    *_planted(
        CODEC,
        "tests/stores/test_etcd_codec.py",
        {
            "one waits for itself": _up_to_its_own,
            "whoever is read has no lease": _without_leases,
            "the head of a queue is its tail": _latest_for_oldest,
            "what is absent is an error": lambda: swap(etcd_codec, "number", int),
        },
    ),
    *_planted(
        NODES,
        "tests/stores/test_zookeeper_layout.py",
        {
            "the first of a queue comes last": _children_as_listed,
            "other recipes are contenders": lambda: swap(zookeeper_layout, "NO_LOCK", "\0"),
            "a number that no server counts is a place": lambda: swap(zookeeper_layout, "LAST", 2**63),
            "readers of other clients exclude": lambda: swap(
                zookeeper_layout, "_SHARED_ELSEWHERE", re.compile("(?!)")
            ),
            "the end of the counter is not minded": lambda: swap(zookeeper_layout, "NEAR_THE_END", 2**63),
            "a kind has no numbers": lambda: swap(
                zookeeper_layout, "_OURS", re.compile(r"_c_(?P<id>[0-9a-f-]{36})-(?:(?P<kind>[A-Z])-)?lock-")
            ),
        },
    ),
    *_planted(
        JUTE,
        "tests/stores/test_zookeeper_codec.py",
        {
            "a contender is not bound to its session": _of_no_session,
            "a watch is not asked for": lambda: swap(
                zookeeper_codec, "_watching", lambda request: zookeeper_codec._text(request.path) + b"\0"
            ),
        },
    ),
    *_planted(
        LOOKING,
        "tests/test_inspection.py",
        {
            "only the first holds": lambda: swap(inspection, "granted", _first_holds),
            "whatever was noted is shown": _any_owner,
            "any number may be read at once": lambda: swap(
                inspection, "checked_limit", lambda limit, *_: limit
            ),
        },
    ),
    *_planted(
        KIT,
        "tests/test_testing.py",
        {
            "readers beside a downgraded writer wait": lambda: swap(kit, "granted", _first_holds),
            "what an operator removes stays": lambda: swap(kit.Store, "remove", nothing),
        },
    ),
    *_planted(
        RUNNING,
        "tests/cli/test_signals.py",
        {
            "a second signal cuts the clean-up off": lambda: swap(Signals, "spare", nothing),
            "the clean-up may take for ever": lambda: swap(signals, "CLEAN_UP_S", 1e9),
            "what was ignored is not": _all_taken,
            "a loss makes it forget that it was asked to end": lambda: swap(Signals, "let_end", _forgetting),
            "after a loss signals are for a command that is over": lambda: swap(Signals, "let_end", nothing),
        },
    ),
    *_planted(
        RUNNING,
        "tests/cli/test_ending.py",
        {
            "a lock that was lost is not told": lambda: swap(Ending, "but_lost", lambda self, reason: self),
            "what could not be ended is not reported": _stuck_is_forgotten,
            "a signal's number is the exit code": _bare_number,
        },
    ),
    *_planted(
        HISTORY,
        "tests/cli/test_history.py",
        {
            "a cluster is a store for each order of its servers": lambda: swap(
                spans, "first_names", lambda urls: {url: url for url in urls}
            ),
            "members of a group exclude each other": lambda: swap(
                reading, "held_together", lambda noun, mode: mode == "shared"
            ),
            "locks of one name are one on all stores": lambda: swap(
                spans, "first_names", lambda urls: dict.fromkeys(urls, "any")
            ),
        },
    ),
    *_planted(
        "ZooKeeper transport",
        "tests/stores/zookeeper/test_log.py",
        {
            "nothing is told of servers out of reach": lambda: swap(
                KazooLog, "trouble", lambda self, store: ""
            )
        },
    ),
    *_planted(
        CELLS,
        "tests/stores/test_cell_protocol.py",
        {"what lands after the end stays": _what_lands_after_the_end_stays},
    ),
]
