"""Bugs to plant: each replaces one thing of the package, or two where one alone does no harm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from recipes._core import cleaner, local, queueing, session
from recipes._core.ops import Checked, View, Withdraw
from recipes._core.order import Order
from recipes._run import interpret
from recipes._run.runtime import Runtime
from recipes.stores.base import Batch, Disturbed, Gone
from recipes.stores.etcd import codec
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.zookeeper import protocol as zookeeper
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Children, Create, Exists, Sync
from tests.simulation.clients import SimRuntime


def swap(target: Any, name: str, value: Any) -> list[Any]:
    return [mock.patch.object(target, name, value)]


# Programs and predicates.


def no_look_after_waking() -> list[Any]:
    def woken(order: Any, mine: Any, view: Any, armed: Any, event: Any) -> Any:
        if isinstance(event, Gone):
            return View(mine, (), complete=True, position=0), ()
        return (yield from original(order, mine, view, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)


def any_event_grants() -> list[Any]:
    def woken(order: Any, mine: Any, view: Any, armed: Any, event: Any) -> Any:
        if isinstance(event, Disturbed):
            return View(mine, (), complete=True, position=0), ()
        return (yield from original(order, mine, view, armed, event))

    original = queueing._woken
    return swap(queueing, "_woken", woken)


def leak_when_interrupted() -> list[Any]:
    def abandon(self: Any, call: Any, spot: Any, place: Any = None) -> None:
        if spot is None:
            original(self, call, spot, place)

    original = SimRuntime.abandon
    return swap(SimRuntime, "abandon", abandon)


def leak_on_timeout() -> list[Any]:
    def abandon(self: Any, call: Any, spot: Any, place: Any = None) -> None:
        expired = call.deadline.at is not None and call.deadline.at <= self.now()
        if spot is None or not expired:
            original(self, call, spot, place)

    original = SimRuntime.abandon
    return swap(SimRuntime, "abandon", abandon)


def watch_everybody() -> list[Any]:
    return [*swap(Order, "targets", lambda self, ahead: ahead), *swap(Order, "reach", 10)]


def admit_without_the_clock() -> list[Any]:
    def admit(self: Any, call: Any, op: Any) -> Any:
        with mock.patch.object(session.Epoch, "remaining", mock.Mock(return_value=1.0)):
            return original(self, call, op)

    original = SimRuntime.admit
    return swap(SimRuntime, "admit", admit)


def session_loss_ignored_while_waiting() -> list[Any]:
    return swap(interpret, "_still", mock.Mock(return_value=None))


def local_release_wakes_nobody() -> list[Any]:
    def gone(self: Any, contender_id: str) -> None:
        self._standing.pop(contender_id, None)

    return swap(local.Local, "gone", gone)


def try_leaves_its_contender() -> list[Any]:
    def try_acquire(attempt: Any) -> Any:
        program = original(attempt)
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                op = program.send(result) if error is None else program.throw(error)
            except StopIteration as stop:
                return stop.value
            result = error = None
            if isinstance(op, Withdraw):
                result = True
                continue
            try:
                result = yield op
            except BaseException as raised:
                error = raised

    original = queueing.try_acquire
    from tests.simulation import users

    return swap(users, "try_acquire", try_acquire)


# The session.


def deadline_from_the_reply() -> list[Any]:
    def on_renewed(self: Any, sent_at: float, ttl_s: float, now: float) -> bool:
        return original(self, now, ttl_s, now)

    original = session.SessionClock.on_renewed
    return swap(session.SessionClock, "on_renewed", on_renewed)


def deadline_without_margin() -> list[Any]:
    def count(self: Any, sent_at: float, ttl_s: float) -> None:
        original(self, sent_at, ttl_s)
        self.deadline = (self._before if self.lag else self._last) + ttl_s

    original = session.SessionClock._count
    return swap(session.SessionClock, "_count", count)


def late_renewal_revives() -> list[Any]:
    """Neither the clock nor the keeper looks at the deadline; one of them would be enough."""

    def on_renewed(self: Any, sent_at: float, ttl_s: float, now: float) -> bool:
        self._count(sent_at, ttl_s)
        return True

    def renew_once(epoch: Any, clock: Any, sent_at: float) -> Any:
        return (yield from pretending(original(epoch, clock, sent_at)))

    def pretending(program: Any) -> Any:
        reply: Any = None
        error: BaseException | None = None
        while True:
            with mock.patch.object(session.Epoch, "remaining", mock.Mock(return_value=1.0)):
                try:
                    op = program.send(reply) if error is None else program.throw(error)
                except StopIteration as stop:
                    return stop.value
            reply = error = None
            try:
                reply = yield op
            except BaseException as raised:
                error = raised

    original = session._renew_once
    return [
        *swap(session.SessionClock, "on_renewed", on_renewed),
        *swap(session, "_renew_once", renew_once),
    ]


def lost_session_stays_on_the_store() -> list[Any]:
    def abandon(self: Any, call: Any, spot: Any, place: Any = None) -> None:
        if spot is not None:
            original(self, call, spot, place)

    original = SimRuntime.abandon
    return swap(SimRuntime, "abandon", abandon)


def missed_renewals_count() -> list[Any]:
    def on_missed(self: Any, now: float) -> None:
        self._count(now, self.ttl_s)

    return swap(session.SessionClock, "on_missed", on_missed)


def removed_contender_unnoticed() -> list[Any]:
    def missing(epoch: Any, places: Any) -> Any:
        yield from ()

    return swap(session, "_missing", missing)


# The cleaner.


def cleaner_tries_once() -> list[Any]:
    def settles_within(self: Any, job: Any) -> float:
        return 0.5

    return swap(Runtime, "settles_within", settles_within)


def cleaner_trusts_its_first_request() -> list[Any]:
    from tests.simulation import clients

    def clean(job: Any) -> Any:
        if job.spot is None:
            yield from original(job)
        return True

    original = cleaner.clean
    return swap(clients, "clean", clean)


# The etcd protocol.


def no_tombstone() -> list[Any]:
    def withdraw(self: Any, op: Any, turn: Any) -> Any:
        key = self._layout.contender(op.spot, self.session_id)
        yield from self._txn(then=[codec.delete(key)])
        return True

    return swap(EtcdProtocol, "withdraw", withdraw)


def watch_gap_ignored() -> list[Any]:
    def watch(self: Any, op: Any, turn: Any) -> Any:
        yield from self._arm(op.targets, turn)
        return True

    return swap(EtcdProtocol, "watch", watch)


def look_gap_ignored() -> list[Any]:
    def look(self: Any, op: Any, turn: Any) -> Any:
        return (yield from original(self, replace(op, mine=op.mine), turn))

    original = EtcdProtocol.look

    def blind(self: Any, requests: Any) -> Any:
        replies = yield from together(self, requests)
        return tuple(0 if isinstance(reply, int) else reply for reply in replies)

    together = EtcdProtocol._together
    return [*swap(EtcdProtocol, "look", look), *swap(EtcdProtocol, "_together", blind)]


def keepalive_is_proof() -> list[Any]:
    def renew(self: Any, op: Any, turn: Any) -> Any:
        from recipes._core.ops import Renewal
        from recipes.errors import SessionLost

        kept = yield from self._post("/lease/keepalive", {"ID": str(self._lease)})
        ttl = codec.number(kept.get("result", {}).get("TTL"))
        if ttl <= 0:
            raise SessionLost("gone")
        return Renewal(float(ttl))

    return swap(EtcdProtocol, "renew", renew)


def everybody_alone() -> list[Any]:
    def enqueue(self: Any, op: Any, turn: Any) -> Any:
        view = yield from original(self, op, turn)
        return replace(view, ahead=()) if view.position <= 1 else view

    original = EtcdProtocol.enqueue
    return swap(EtcdProtocol, "enqueue", enqueue)


def probe_compares_nothing() -> list[Any]:
    def compare_absent(key: bytes, end: bytes | None = None) -> Any:
        return original(key if end is None else b"nothing", None if end is None else b"nothing0")

    original = codec.compare_absent
    return swap(codec, "compare_absent", compare_absent)


# The ZooKeeper protocol.


def create_again_without_looking() -> list[Any]:
    def find(self: Any, spot: Any, order: Any) -> Any:
        yield from ()

    return swap(ZooKeeperProtocol, "_find", find)


def sequence_is_the_order() -> list[Any]:
    return swap(zookeeper, "dubious", lambda children: False)


def dying_session_grants() -> list[Any]:
    def check(self: Any, op: Any, turn: Any) -> Any:
        if op.evidence is not None:
            return Checked(mine=True, present=frozenset())
        return (yield from original(self, op, turn))

    original = ZooKeeperProtocol.check
    return [
        *swap(ZooKeeperProtocol, "check", check),
        *admit_without_the_clock(),
        *session_loss_ignored_while_waiting(),
    ]


def missing_node_is_watched() -> list[Any]:
    def watch(self: Any, op: Any, turn: Any) -> Any:
        yield from self._arm(op.targets, turn)
        return True

    return swap(ZooKeeperProtocol, "watch", watch)


def ping_is_renewal() -> list[Any]:
    def renew(self: Any, op: Any, turn: Any) -> Any:
        from recipes._core.ops import Renewal

        yield from self._together((Exists("/"),))
        return Renewal(self._timeout_s)

    return swap(ZooKeeperProtocol, "renew", renew)


def last_answered_renewal_counts() -> list[Any]:
    return swap(ZooKeeperProtocol, "renewal_lag", 0)


def withdraw_without_sync() -> list[Any]:
    def together(self: Any, requests: Any) -> Any:
        if len(requests) == 2 and type(requests[0]) is Sync and type(requests[1]) is Children:
            replies = yield from original(self, requests[1:])
            return (None, *replies)
        return (yield from original(self, requests))

    original = ZooKeeperProtocol._together
    return swap(ZooKeeperProtocol, "_together", together)


def list_before_create() -> list[Any]:
    def enqueue(self: Any, op: Any, turn: Any) -> Any:
        program = original(self, op, turn)
        reply: Any = None
        while True:
            try:
                request = program.send(reply)
            except StopIteration as stop:
                return stop.value
            if type(request) is Batch and type(request.parts[0]) is Create and len(request.parts) == 2:
                names, created = yield Batch((request.parts[1], request.parts[0]))
                if isinstance(created, tuple) and isinstance(names, tuple):
                    names = (*names, created[0].rpartition("/")[2])
                reply = (created, names)
            else:
                reply = yield request

    original = ZooKeeperProtocol.enqueue
    return swap(ZooKeeperProtocol, "enqueue", enqueue)


def look_arms_nothing() -> list[Any]:
    def look(self: Any, op: Any, turn: Any) -> Any:
        return (yield from original(self, replace(op, targets=()), turn))

    original = ZooKeeperProtocol.look
    return swap(ZooKeeperProtocol, "look", look)


def second(ahead: Any) -> Any:
    return ahead[1:2]
