"""Bugs to plant in what becomes of etcd's connections, endpoints and creates that were given up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from recipes._contract.operations import Withdraw
from recipes.errors import SessionLost, StoreFull
from recipes.stores import sockets
from recipes.stores.etcd import codec, pool, tasks, tasks_conn
from recipes.stores.etcd.blocking_loan import Loan
from recipes.stores.etcd.blocking_reader import Reader
from recipes.stores.etcd.pool import Pipeline, Pool
from recipes.stores.etcd.protocol import EtcdProtocol, stands
from recipes.stores.etcd.stream_book import WatchBook
from recipes.stores.etcd.wire_dial import Endpoints
from recipes.stores.sockets import Conn
from tests.mutants.in_sqlite import rewritten
from tests.mutants.transports import TransportMutant, nothing
from tests.simulation.bugs import swap

__all__ = ["CONNECTIONS"]


def _swept_by_its_own_server_only() -> list[Any]:
    def take(self: Any, deadline: float) -> Any:
        self._sweep(time.monotonic())
        return original(self, deadline)

    original = Pool.take
    return [*swap(Pool, "sweep", nothing), *swap(Pool, "take", take)]


def _swept_before_it_has_answered() -> list[Any]:
    original = Pool._sweep
    return swap(Pool, "_sweep", lambda self, now: original(self, math.inf))


def _free_though_it_never_answered() -> list[Any]:
    def sweep(self: Any, now: float) -> None:
        while self._given_up:
            self.give(Pipeline(self, ()), self._given_up.popleft()[1])

    def take(self: Any, deadline: float) -> Any:
        self._sweep(0.0)
        return original(self, deadline)

    original = Pool.take
    return [*swap(Pool, "_sweep", sweep), *swap(Pool, "take", take)]


def _any_number_is_kept() -> list[Any]:
    def give(self: Any, pipeline: Any, talk: Any) -> None:
        pipeline.talk = None
        self._idle.append(talk)

    return swap(Pool, "give", give)


def _closed_and_not_swept() -> list[Any]:
    def close(self: Any) -> None:
        self._closed = True
        self.drain()

    return swap(Pool, "close", close)


def _left_to_the_collector() -> list[Any]:
    kept: list[Any] = []

    def close(self: Any) -> None:
        if self._left and self.talk is not None:
            kept.append(self.talk)
            self.talk = None
        original(self)

    original = Pipeline.close
    return swap(Pipeline, "close", close)


def _cut_short() -> list[Any]:
    def send(self: Any, data: bytes, deadline: float) -> None:
        self.send_some(data)

    return swap(Conn, "send", send)


def _for_ever_given_up() -> list[Any]:
    return rewritten(tasks_conn.Conn, "give_up", ("self._loop.call_later(GIVEN_UP_S, self.reset)", "pass"))


def _used_when_given_up() -> list[Any]:
    def give_up(self: Any, error: Exception, *, reads: bool) -> None:
        if reads:
            self._tell(error)
        else:
            self.fail(error)

    return swap(tasks_conn.Conn, "give_up", give_up)


def _answers_close_nothing() -> list[Any]:
    def data_received(self: Any, data: bytes) -> None:
        if not self._given_up:
            original(self, data)

    original = tasks_conn.Conn.data_received
    return swap(tasks_conn.Conn, "data_received", data_received)


def _earliest_for_latest() -> list[Any]:
    """Of several ranges, the own key has to be read after the last; here after the first."""

    def with_own(self: Any, mine: Any, rule: Any, replies: Any) -> Any:
        *parts, own = replies
        if not rule.exclusive_only:
            return (yield from original(self, mine, rule, replies))
        if codec.revision(own) < min(map(codec.revision, parts)):
            return (yield from original(self, mine, rule, replies))
        snapshot = self._seen(mine, rule, parts)
        return snapshot if stands(own, mine) else (yield from original(self, mine, rule, replies))

    original = EtcdProtocol._with_own
    return swap(EtcdProtocol, "_with_own", with_own)


def _full_is_done() -> list[Any]:
    def bury(self: Any, ticket: Any, key: bytes) -> Any:
        try:
            return (yield from original(self, ticket, key))
        except StoreFull:
            return True

    original = EtcdProtocol._bury
    return swap(EtcdProtocol, "_bury", bury)


def _refused_is_in_doubt() -> list[Any]:
    def create(self: Any, ticket: Any, key: bytes, context: Any, **parts: Any) -> Any:
        try:
            return (yield from original(self, ticket, key, context, **parts))
        except StoreFull:
            self._in_doubt.add(ticket.id)
            raise

    original = EtcdProtocol._create
    return swap(EtcdProtocol, "_create", create)


def _swept_is_lost() -> list[Any]:
    """A create that came just before a sweep counts as withdrawn, and the session with it."""

    def create(self: Any, ticket: Any, key: bytes, context: Any, **parts: Any) -> Any:
        asking = original(self, ticket, key, context, **parts)
        reply = yield asking.send(None)
        try:
            asking.send(reply)
        except StopIteration as done:
            return done.value
        raise SessionLost("its contender was withdrawn")

    original = EtcdProtocol._create
    return swap(EtcdProtocol, "_create", create)


def _probe_withdraws_itself() -> list[Any]:
    """Asked again after that was not answered, it may be granted, and the withdrawal land then."""

    def probe(self: Any, op: Any, context: Any) -> Any:
        snapshot = yield from original(self, op, context)
        if snapshot is not None and snapshot.mine is None and op.ticket.id in self._in_doubt:
            yield from self.withdraw(Withdraw(op.ticket), context)
            return None
        return snapshot

    original = EtcdProtocol.probe
    return swap(EtcdProtocol, "probe", probe)


def _doubt_outlives_its_end() -> list[Any]:
    def bury(self: Any, ticket: Any, key: bytes) -> Any:
        deleted = yield from original(self, ticket, key)
        self._in_doubt.add(ticket.id)
        return deleted

    original = EtcdProtocol._bury
    return swap(EtcdProtocol, "_bury", bury)


def _leaves_at_once(self: Any, attempt: Any, now: float) -> None:
    self.failed(attempt.endpoint)


def _leaves_twice(self: Any, endpoint: Any) -> None:
    self._at = (self._at + 1) % len(self.all)


def _lent(name: str, of: str, *changes: tuple[str, str]) -> tuple[str, str, str, Callable[[], list[Any]]]:
    return name, LENDING, LENT, lambda: rewritten(Reader, of, *changes)


LENDING, LENT = "etcd connection that is lent", "tests/stores/etcd/test_lending.py"
ETCD, PROTOCOL = "etcd connections", "etcd creates given up"
GIVEN_UP, POOL, DIAL = (f"tests/stores/etcd/test_{name}.py" for name in ("given_up", "pool", "wire_dial"))
TASKS, STEPS = "tests/stores/etcd/test_tasks.py", "tests/stores/test_etcd_protocol.py"
CONNECTIONS = [
    TransportMutant(name, where, tests, plant)
    for name, where, tests, plant in (
        (
            "what was given up is closed, and delivered all the same (blocking)",
            ETCD,
            GIVEN_UP,
            lambda: swap(sockets, "forget_unsent", nothing),
        ),
        (
            "what was given up is closed, and delivered all the same (asyncio)",
            ETCD,
            GIVEN_UP,
            lambda: swap(tasks_conn, "forget_unsent", nothing),
        ),
        (
            "a write that was given up is left to the server (blocking)",
            ETCD,
            GIVEN_UP,
            lambda: swap(pool, "only_reads", lambda *_: True),
        ),
        (
            "a write that was given up is left to the server (asyncio)",
            ETCD,
            GIVEN_UP,
            lambda: swap(tasks, "only_reads", lambda *_: True),
        ),
        (
            "a read is cut under the server's hands (blocking)",
            ETCD,
            GIVEN_UP,
            lambda: swap(pool, "only_reads", lambda *_: False),
        ),
        (
            "a read is cut under the server's hands (asyncio)",
            ETCD,
            GIVEN_UP,
            lambda: swap(tasks, "only_reads", lambda *_: False),
        ),
        (
            "only calls to a server close what was given up there",
            ETCD,
            GIVEN_UP,
            _swept_by_its_own_server_only,
        ),
        ("what was given up is closed at the next call", ETCD, GIVEN_UP, _swept_before_it_has_answered),
        (
            "a given-up connection counts as free though it never answered",
            ETCD,
            GIVEN_UP,
            _free_though_it_never_answered,
        ),
        ("a given-up connection counts as good (asyncio)", ETCD, TASKS, _used_when_given_up),
        ("a closed link keeps what was given up", ETCD, GIVEN_UP, _closed_and_not_swept),
        ("the connection of an interrupted call stays open", ETCD, POOL, _left_to_the_collector),
        ("silence is waited for without end (asyncio)", ETCD, GIVEN_UP, _for_ever_given_up),
        ("an answer that nobody waits for closes nothing (asyncio)", ETCD, TASKS, _answers_close_nothing),
        ("a long request is cut short", ETCD, POOL, _cut_short),
        (
            "after a failure the idle connections stay",
            ETCD,
            POOL,
            lambda: swap(Pool, "drain", nothing),
        ),
        (
            "any number of idle connections is kept",
            ETCD,
            POOL,
            _any_number_is_kept,
        ),
        (
            "a server is left that hardly had any time",
            ETCD,
            DIAL,
            lambda: swap(Endpoints, "unanswered", _leaves_at_once),
        ),
        (
            "two failures of one server leave two",
            ETCD,
            DIAL,
            lambda: swap(Endpoints, "failed", _leaves_twice),
        ),
        ("slow servers are left for being slow", ETCD, DIAL, lambda: swap(Endpoints, "answered", nothing)),
        (
            "it is lent to one that watches beside others",
            LENDING,
            LENT,
            lambda: swap(WatchBook, "watched_by", lambda self, mailbox: id(mailbox) in self._of),
        ),
        ("what others post rings no bell", LENDING, LENT, lambda: swap(Loan, "ring", nothing)),
        _lent(
            "two wait at one bell",
            "_lend_or_take_back",
            ("elif arms_alone and loan.waiter is None:", "elif arms_alone:"),
        ),
        _lent("one that waits elsewhere is lent to", "_begins", ("self._take_back()", "pass")),
        _lent(
            "what is left lying is a silent server", "_after", ("readable(loan.conn.sock.fileno())", "False")
        ),
        _lent("nobody reads what is lent and idle", "_turn", ("self._take_back()", "pass")),
        _lent("an interrupt amid the reading is nothing", "_read_lent", ("self._struck()", "pass")),
        _lent("an interrupt as it is taken back is nothing", "_begins", ("self._struck()", "pass")),
        _lent("an end that nobody has read fails the next", "_step", ("self._catch_up()", "pass")),
        (
            "a forked child reads for its parent",
            LENDING,
            LENT,
            lambda: rewritten(Loan, "serves", (" and self._of == os.getpid()", "")),
        ),
        ("`min` for `max` of the revisions in the own-key read", PROTOCOL, STEPS, _earliest_for_latest),
        ("beyond a quota a withdrawal counts as done", PROTOCOL, STEPS, _full_is_done),
        ("what a full store refused is in doubt", PROTOCOL, STEPS, _refused_is_in_doubt),
        ("a create that a sweep refuses is lost", PROTOCOL, STEPS, _swept_is_lost),
        ("a probe withdraws by itself", PROTOCOL, STEPS, _probe_withdraws_itself),
        ("what was buried is in doubt for ever", PROTOCOL, STEPS, _doubt_outlives_its_end),
        (
            "tombstones are never swept",
            PROTOCOL,
            "tests/simulation/test_late_requests.py",
            lambda: swap(EtcdProtocol, "most_tombstones", 10**9),
        ),
    )
]
