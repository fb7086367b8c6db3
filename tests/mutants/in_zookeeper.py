"""Bugs to plant in the transport to ZooKeeper: the session over kazoo, its connection, and its handler.

Each names the tests that have to notice it; all of them are part of the default run.
"""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

from kazoo.protocol.connection import ConnectionHandler

from recipes.stores.zookeeper import kazoo_client, kazoo_client_connection
from recipes.stores.zookeeper.handler import LeanHandler
from recipes.stores.zookeeper.handler_sockets import LeanSocket, Waker
from recipes.stores.zookeeper.kazoo_client import KazooSession
from recipes.stores.zookeeper.kazoo_client_calls import Call
from recipes.stores.zookeeper.kazoo_client_connection import LeanClient, LeanConnection
from recipes.stores.zookeeper.kazoo_client_watches import Watches
from recipes.stores.zookeeper.requests import SessionInfo
from recipes.stores.zookeeper.tasks import AsyncKazooConnection, _resolve
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import KAZOO, TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["IN_ZOOKEEPER"]

HANDLER = "tests/stores/zookeeper/test_handler.py"
LIFE = "tests/stores/zookeeper/test_life.py"
REQUESTS = "tests/stores/zookeeper/test_requests.py"
WATCHES = "tests/stores/zookeeper/test_watches.py"


def _silent_for_the_whole_timeout() -> list[Any]:
    original = KazooSession._on_session

    def on_session(self: Any, session_id: int, timeout_ms: int) -> None:
        original(self, session_id, timeout_ms)
        self._handler.silence_limit_s = timeout_ms / 1000

    return swap(KazooSession, "_on_session", on_session)


def _parked_for_ever() -> list[Any]:
    return swap(KazooSession, "_unpark", lambda self, call: id(call) in self._parked)


def _each_request_counts_as_an_answer() -> list[Any]:
    def asked(self: Any) -> None:
        self._asked_at = time.monotonic()

    return swap(LeanHandler, "asked", asked)


def _any_session_will_do() -> list[Any]:
    original = KazooSession._on_connected

    def on_connected(self: Any) -> None:
        if self._info is not None:
            self._granted = SessionInfo(self._info.id, self._granted.timeout_s)
        original(self)

    return swap(KazooSession, "_on_connected", on_connected)


def _nothing_is_known_of_the_servers_state() -> list[Any]:
    original = LeanConnection._take

    def take(self: Any, xid: int, _: int, error: int, *message: Any) -> bool:
        return bool(original(self, xid, 0, error, *message))

    return swap(LeanConnection, "_take", take)


def _out_of_turn() -> list[Any]:
    def send_at_once(self: Any, parts: Any) -> bool:
        if not self._open:
            return False
        with self._sending:
            self._send([(part, part) for part in parts])
        return True

    return swap(LeanConnection, "send_at_once", send_at_once)


def _counted_twice() -> list[Any]:
    def settle(self: Any, position: int, reply: Any) -> None:
        with self._lock:
            if self.over:
                return
            self._replies[position] = reply
            self._left -= 1
            if self._left:
                return
            self.over = True
        self._wake()

    return swap(Call, "settle", settle)


def _announced_too_long() -> list[Any]:
    def deliver(self: Any) -> None:
        while self._arrived:
            _resolve(self._arrived.popleft())
        self._announced = False

    return swap(AsyncKazooConnection, "_deliver", deliver)


def _failed_though_connected() -> list[Any]:
    original = KazooSession._on_round_failed

    def on_round_failed(self: Any) -> None:
        self._reached = False
        original(self)

    return swap(KazooSession, "_on_round_failed", on_round_failed)


def _told_again() -> list[Any]:
    def tell(self: Any, path: str, event: Any) -> None:
        for mailbox in tuple(self._by_path.get(path, {}).values()):
            mailbox.post(event)

    return swap(Watches, "_tell", tell)


def _joins_what_has_ended() -> list[Any]:
    original = Watches.add

    def add(self: Any, path: str, mailbox: Any, queue: str = "", *, joins: bool = False) -> None:
        original(self, path, mailbox, queue)

    return swap(Watches, "add", add)


def _cut_short() -> list[Any]:
    def flush(self: Any) -> None:
        if self.unsent:
            super(LeanSocket, self).send(self.unsent)
            self._last = (b"", [None])
        self.full = False

    return swap(LeanSocket, "flush", flush)


def _one_ring_for_all() -> list[Any]:
    original = Waker.send

    def send(self: Any, data: bytes) -> int:
        return original(self, data[:1])

    return swap(Waker, "send", send)


def _interrupts_swallowed() -> list[Any]:
    def hand_over(self: Any, asked: Any) -> bool:
        try:
            self._queue.extend(asked)
            self._connection._write_sock.send(b"\0" * len(asked))
        except BaseException:
            kazoo_client_connection._fail(asked, ConnectionError())
        return True

    return swap(LeanClient, "_hand_over", hand_over)


def _bug(name: str, tests: str, target: Any, attribute: str, value: Any) -> TransportMutant:
    return TransportMutant(name, KAZOO, tests, lambda: swap(target, attribute, value))


def _edited(name: str, owner: type, of: str, old: str, new: str) -> TransportMutant:
    return TransportMutant(name, KAZOO, LIFE, lambda: rewritten(owner, of, (old, new)))


IN_ZOOKEEPER = [
    TransportMutant(
        "a server may be silent for the whole timeout", KAZOO, LIFE, _silent_for_the_whole_timeout
    ),
    TransportMutant("parked calls that were abandoned stay", KAZOO, REQUESTS, _parked_for_ever),
    TransportMutant(
        "each request counts as a sign of the server", KAZOO, LIFE, _each_request_counts_as_an_answer
    ),
    TransportMutant("a session comes back with another id", KAZOO, LIFE, _any_session_will_do),
    TransportMutant(
        "a reconnect goes to a server that lags behind",
        KAZOO,
        REQUESTS,
        _nothing_is_known_of_the_servers_state,
    ),
    TransportMutant("requests overtake those that are queued", KAZOO, REQUESTS, _out_of_turn),
    TransportMutant("a part that is answered twice counts as two", KAZOO, REQUESTS, _counted_twice),
    TransportMutant("an answer that arrives last wakes nobody", KAZOO, LIFE, _announced_too_long),
    TransportMutant("a pause fails what was asked since", KAZOO, REQUESTS, _failed_though_connected),
    TransportMutant("a watch is notified twice", KAZOO, WATCHES, _told_again),
    TransportMutant("a node is watched for a listing that has ended", KAZOO, WATCHES, _joins_what_has_ended),
    TransportMutant("what does not fit in is lost", KAZOO, HANDLER, _cut_short),
    TransportMutant("one ring for many requests", KAZOO, HANDLER, _one_ring_for_all),
    TransportMutant("an interrupt amid queueing is swallowed", KAZOO, LIFE, _interrupts_swallowed),
    _bug("an answer does not end the silence", HANDLER, LeanHandler, "heard", nothing),
    _bug("a connection may be made when all is over", HANDLER, LeanHandler, "_check_wanted", nothing),
    _bug("the end of a session reaches no connect under way", HANDLER, LeanHandler, "retire",
         lambda self: self._retired.set()),
    _bug("what arrives late keeps a session that was given up", HANDLER, LeanHandler, "_take_back", nothing),
    _bug("the first answer may take for ever", HANDLER, LeanHandler, "_limit_s",
         lambda self: self.silence_limit_s),
    _bug("callers send on a connection that is lost", REQUESTS, LeanConnection, "stand_still", nothing),
    _bug("kazoo's thread never leaves a busy connection", REQUESTS, kazoo_client_connection, "LONGEST_S",
         math.inf),
    _bug("a watch that was refused stays", REQUESTS, Watches, "drop", nothing),
    _bug("a listing is notified of each of its nodes", WATCHES, Watches, "_drop_all", nothing),
    _bug("all clients begin with the same server", LIFE, kazoo_client, "random",
         SimpleNamespace(shuffle=nothing)),
    _bug("a forked child asks for its parent", LIFE, KazooSession, "_inherited", lambda self: False),
    _bug("over TLS kazoo takes all replies", HANDLER, LeanConnection, "_read_response",
         ConnectionHandler._read_response),
    _bug("the first connection that ends in a login says that it was refused", LIFE, kazoo_client_connection,
         "LOGINS_CUT", 1),
    _bug("no login is ever refused by its end", LIFE, kazoo_client_connection, "LOGINS_CUT", 10**9),
    _bug("one server of two addresses counts as two", LIFE, LeanHandler, "resolved",
         lambda self, servers: self._on_resolved(servers + 1)),
    _edited("a name counts as one server", KazooSession, "_on_resolved",
            "self._servers = servers", "pass"),
    _edited("what is open is looked at before the lock is there", LeanConnection, "_is_clear",
            "self._open and not", "not"),
    _edited("what an interrupt left of a close is done by nobody", KazooSession, "_close",
            "self._end(CLOSED)\n", "if not self._end(CLOSED) and not self._shut:\n        return\n"),
]  # fmt: skip
