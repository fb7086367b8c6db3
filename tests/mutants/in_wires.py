"""Bugs to plant in etcd's links: their connections, their watching, and what they read and write."""

from __future__ import annotations

import asyncio
from typing import Any

from recipes._run import green
from recipes.stores import streams
from recipes.stores.etcd import gateway_json, protocol, tasks, wire, wire_answers
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.etcd.blocking import _Armed as BlockingArmed
from recipes.stores.etcd.blocking_reader import Reader
from recipes.stores.etcd.gateway import HttpLine
from recipes.stores.etcd.stream import Documents, Stream
from recipes.stores.etcd.stream_book import WatchBook
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.tasks import AsyncEtcdConnection
from recipes.stores.etcd.tasks import _Armed as AsyncArmed
from recipes.stores.etcd.tasks import _Server as AsyncServer
from recipes.stores.etcd.tasks_conn import Conn
from recipes.stores.etcd.tasks_watching import Watching, _Stream
from recipes.stores.etcd.wire_dial import Attempt, Endpoints
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["IN_WIRES"]

WIRES = "etcd wires"
TASKS = "tests/stores/etcd/test_tasks.py"
BLOCKING = "tests/stores/etcd/test_blocking.py"
CONNECTIONS = "tests/stores/etcd/test_connections.py"
STRUCK = "tests/stores/etcd/test_struck.py"
STREAM = "tests/stores/etcd/test_stream.py"
BOOK = "tests/stores/etcd/test_stream_book.py"
MULTIPLEXER = "tests/stores/etcd/test_stream_multiplexer.py"
WIRE = "tests/stores/etcd/test_wire.py"
GATEWAY = "tests/stores/etcd/test_gateway.py"
DIAL = "tests/stores/etcd/test_wire_dial.py"
ANSWERS = "tests/stores/etcd/test_wire_answers.py"


def after(target: Any, name: str, then: Any) -> list[Any]:
    """Have ``then(self)`` done behind a method."""
    original = getattr(target, name)

    def method(self: Any, *args: Any, **options: Any) -> Any:
        result = original(self, *args, **options)
        then(self)
        return result

    return swap(target, name, method)


def _asyncio_alone() -> list[Any]:
    def made(self: Any, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    return [*swap(Conn, "connection_made", made), *swap(_Stream, "connection_made", made)]


def _good_while_open() -> list[Any]:
    return swap(Conn, "good", lambda self: not self._over and not self.transport.is_closing())


def _an_end_completes_nothing() -> list[Any]:
    return swap(Conn, "eof_received", lambda self: False)


def _one_address() -> list[Any]:
    original = streams._resolve

    async def resolve(endpoint: Any) -> Any:
        return (await original(endpoint))[:1]

    return swap(streams, "_resolve", resolve)


def _waits_for_ever_in_line() -> list[Any]:
    async def enter(slots: Any, until: float) -> None:
        await slots.acquire()

    return swap(tasks, "_enter", enter)


def _joins_what_has_told() -> list[Any]:
    """A watch whose event has come is still offered to others."""

    def remove(self: Any, wired: Any) -> None:
        kept = dict(self._open)
        original(self, wired)
        self._open.update(kept)

    original = WatchBook._remove
    return swap(WatchBook, "_remove", remove)


def _answers_the_first() -> list[Any]:
    def created(self: Any, wired: Any, revision: int) -> None:
        if wired.revision is None:
            wired.revision = revision
            self.told += [arming.answer(revision) for arming in wired.armings[:1]]

    return swap(WatchBook, "_created", created)


def _refusals_by_number() -> list[Any]:
    def take(self: Any, result: dict[str, Any], only: int | None = None) -> list[int]:
        if result.get("created") and result.get("canceled"):
            self._unanswered.pop(int(result.get("watch_id", 0)), None)
            if int(result.get("watch_id", 0)) not in self._wired:
                return []
        return original(self, result, only)

    original = WatchBook.take
    return swap(WatchBook, "take", take)


def _kept_unanswered() -> list[Any]:
    def lose(self: Any, numbers: list[int], error: Exception) -> None:
        kept = dict(self._unanswered)
        original(self, numbers, error)
        self._unanswered = kept

    original = WatchBook.lose
    return swap(WatchBook, "lose", lose)


def _rest_is_dropped() -> list[Any]:
    return after(Documents, "feed", lambda self: self._part.clear())


def _refusals_without_words() -> list[Any]:
    return after(Stream, "_events", lambda self: setattr(self, "_refusal", b""))


def _known_until_full() -> list[Any]:
    return swap(wire, "_SPECIAL", wire.re.compile(rb"(?!)"))


def _blames_at_once() -> list[Any]:
    def unanswered(self: Any, attempt: Attempt, now: float) -> None:
        self.failed(attempt.endpoint)

    return swap(Endpoints, "unanswered", unanswered)


def _no_shares() -> list[Any]:
    return swap(Endpoints, "attempt", lambda self, now, deadline: Attempt(self.current(), now, deadline))


def _leaves_the_next_one_too() -> list[Any]:
    def failed(self: Any, endpoint: Any) -> None:
        self._at = (self._at + 1) % len(self.all)

    return swap(Endpoints, "failed", failed)


def _token_at_login() -> list[Any]:
    return swap(wire, "LOGIN", "/none")


def _one_after_the_other() -> list[Any]:
    def txn(
        self: Any, compare: Any = (), then: Any = (), otherwise: Any = (), *, urgent: bool = False
    ) -> Any:
        try:
            body = protocol.codec.txn(compare, then, otherwise)
            return (yield from self._post("/kv/txn", body, urgent=urgent))
        except protocol.StoreFull:
            if then:
                raise
        found: list[Any] = []
        for read in reversed(otherwise):
            part = yield from self._post("/kv/range", read["request_range"], urgent=urgent)
            found.insert(0, {"response_range": part})
        return {"responses": found}

    return swap(protocol.EtcdProtocol, "_txn", txn)


def _a_bug(name: str, tests: str, plant: Any) -> TransportMutant:
    return TransportMutant(name, WIRES, tests, plant)


IN_WIRES = [
    _a_bug("a transport that is no asyncio.Transport is refused", TASKS, _asyncio_alone),
    _a_bug("a connection with news that nobody asked for is used", CONNECTIONS, _good_while_open),
    _a_bug("the end of a connection completes no reply", CONNECTIONS, _an_end_completes_nothing),
    _a_bug(
        "a closed connection answers nobody",
        CONNECTIONS,
        lambda: swap(Conn, "connection_lost", lambda self, exc: self.closed.set_result(None)),
    ),
    _a_bug("only the first address is tried", CONNECTIONS, _one_address),
    _a_bug("idle connections stay after a failure", TASKS, lambda: swap(AsyncServer, "drain", nothing)),
    _a_bug("connections of a burst stay", TASKS, lambda: swap(AsyncServer, "_sweep", nothing)),
    _a_bug(
        "releases wait behind acquires",
        TASKS,
        lambda: swap(AsyncEtcdConnection, "_slots_for", lambda self, posts: self._slots),
    ),
    _a_bug("waiting in line has no end", TASKS, _waits_for_ever_in_line),
    _a_bug("a cancelled watch stays", TASKS, lambda: swap(AsyncArmed, "give_up", nothing)),
    _a_bug(
        "a link closed while it connects keeps the connection",
        TASKS,
        lambda: swap(AsyncEtcdConnection, "_check_open", nothing),
    ),
    _a_bug(
        "asyncio never looks at the silence of a stream",
        CONNECTIONS,
        lambda: swap(Watching, "_set_timer", nothing),
    ),
    _a_bug("asyncio does not notice a closed stream", CONNECTIONS, lambda: swap(Watching, "lost", nothing)),
    _a_bug(
        "asyncio leaves streams of servers that were left",
        CONNECTIONS,
        lambda: swap(Watching, "follow", nothing),
    ),
    _a_bug(
        "asyncio closes no stream that is given up", CONNECTIONS, lambda: swap(Watching, "_close", nothing)
    ),
    _a_bug(
        "an interrupted call leaves the watches as they are", STRUCK, lambda: swap(Reader, "_mend", nothing)
    ),
    _a_bug("every thread that starts reads", STRUCK, lambda: swap(Reader, "_noted", lambda self: True)),
    _a_bug(
        "what does not fit is not sent", BLOCKING, lambda: swap(Reader, "_needs_thread", lambda self: False)
    ),
    _a_bug(
        "the reader sleeps until it is woken",
        CONNECTIONS,
        lambda: swap(Reader, "_nap", lambda self, now: None),
    ),
    _a_bug(
        "the reader leaves streams of servers that were left",
        CONNECTIONS,
        lambda: swap(Reader, "follow", nothing),
    ),
    _a_bug("an interrupted wait leaves its watch", BLOCKING, lambda: swap(BlockingArmed, "give_up", nothing)),
    _a_bug(
        "a call without an answer leaves the watches where they are",
        CONNECTIONS,
        lambda: swap(EtcdConnection, "_unanswered", nothing),
    ),
    _a_bug("half a document is dropped", STREAM, _rest_is_dropped),
    _a_bug("a refused stream says no reason", STREAM, _refusals_without_words),
    _a_bug("a watch whose event has come is joined", BOOK, _joins_what_has_told),
    _a_bug("of those who share a watch one is answered", BOOK, _answers_the_first),
    _a_bug("a refusal without a number is nobody's", BOOK, _refusals_by_number),
    _a_bug("creates of a lost stream stay unanswered", BOOK, _kept_unanswered),
    _a_bug(
        "a stream with an old token is kept", MULTIPLEXER, lambda: swap(Multiplexer, "_renew_token", nothing)
    ),
    _a_bug("spent watches are never cancelled", MULTIPLEXER, lambda: swap(Multiplexer, "_sweep", nothing)),
    _a_bug(
        "a stream that never says anything is waited for",
        MULTIPLEXER,
        lambda: swap(Multiplexer, "connected", nothing),
    ),
    _a_bug("headers that end a connection are not seen", WIRE, _known_until_full),
    _a_bug("an old token is sent with a login", WIRE, _token_at_login),
    _a_bug(
        "numbers are read as they are written", GATEWAY, lambda: swap(gateway_json, "_NUMBERS", frozenset())
    ),
    _a_bug(
        "a whole reply goes with the nonsense behind it",
        GATEWAY,
        lambda: rewritten(HttpLine, "feed", ("if not replies:", "if True:")),
    ),
    _a_bug(
        "a line that is at its end is used again",
        GATEWAY,
        lambda: rewritten(HttpLine, "feed", ("self.usable = False", "self.usable = True")),
    ),
    _a_bug(
        "a body of any shape is a document",
        ANSWERS,
        lambda: swap(wire_answers, "checked", lambda store, found: found),
    ),
    _a_bug("what passes is an error for good", ANSWERS, lambda: swap(wire_answers, "_PASSING", ())),
    _a_bug("a server that had no time is left", DIAL, _blames_at_once),
    _a_bug("a silent server takes all the time", DIAL, _no_shares),
    _a_bug("many failures of one server leave the next one too", DIAL, _leaves_the_next_one_too),
    _a_bug(
        "what lets go does not say so",
        "tests/stores/test_etcd_protocol.py",
        lambda: swap(protocol, "_freeing", lambda steps: steps),
    ),
    _a_bug(
        "a full store is read key by key",
        "tests/stores/test_etcd_protocol.py",
        _one_after_the_other,
    ),
    _a_bug("eventlet is let in", "tests/run/test_green.py", lambda: swap(green, "_PARTS", ())),
]
