"""Bugs to plant in the store protocols."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes._contract.connection import Batch
from recipes._contract.operations import Checked
from recipes.stores.etcd import codec
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.zookeeper import protocol as zookeeper
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import Children, Create, Exists, Sync
from tests.simulation.bugs import admit_without_the_clock, session_loss_ignored_while_waiting, swap

# The etcd protocol.


def no_tombstone() -> list[Any]:
    def withdraw(self: Any, op: Any, context: Any) -> Any:
        key = self._layout.contender(op.ticket, self.session_id)
        yield from self._txn(then=[codec.delete(key)])
        return True

    return swap(EtcdProtocol, "withdraw", withdraw)


def watch_gap_ignored() -> list[Any]:
    def watch(self: Any, op: Any, context: Any) -> Any:
        yield from self._arm(op.mine, op.targets, context)
        return True

    return swap(EtcdProtocol, "watch", watch)


def look_gap_ignored() -> list[Any]:
    def look(self: Any, op: Any, context: Any) -> Any:
        return (yield from original(self, replace(op, mine=op.mine), context))

    original = EtcdProtocol.look

    def blind(self: Any, requests: Any, **how: Any) -> Any:
        replies = yield from together(self, requests, **how)
        return tuple(0 if isinstance(reply, int) else reply for reply in replies)

    together = EtcdProtocol._together
    return [*swap(EtcdProtocol, "look", look), *swap(EtcdProtocol, "_together", blind)]


def keepalive_is_proof() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        from recipes._contract.operations import Renewal
        from recipes.errors import SessionLost

        kept = yield from self._post("/lease/keepalive", {"ID": self._lease})
        ttl = codec.number(kept.get("result", {}).get("TTL"))
        if ttl <= 0:
            raise SessionLost("gone")
        return Renewal(float(ttl))

    return swap(EtcdProtocol, "renew", renew)


def everybody_alone() -> list[Any]:
    def enqueue(self: Any, op: Any, context: Any) -> Any:
        snapshot = yield from original(self, op, context)
        return replace(snapshot, ahead=()) if snapshot.position <= 1 else snapshot

    original = EtcdProtocol.enqueue
    return swap(EtcdProtocol, "enqueue", enqueue)


def probe_compares_nothing() -> list[Any]:
    def compare_absent(key: bytes, end: bytes | None = None) -> Any:
        return original(key if end is None else b"nothing", None if end is None else b"nothing0")

    original = codec.compare_absent
    return swap(codec, "compare_absent", compare_absent)


def no_create_is_in_doubt() -> list[Any]:
    def create(self: Any, ticket: Any, key: bytes, context: Any, **parts: Any) -> Any:
        try:
            return (yield from original(self, ticket, key, context, **parts))
        finally:
            self._in_doubt.discard(ticket.id)

    original = EtcdProtocol._create
    return swap(EtcdProtocol, "_create", create)


def answer_to_the_second_ends_doubt() -> list[Any]:
    def create(self: Any, ticket: Any, key: bytes, context: Any, **parts: Any) -> Any:
        reply = yield from original(self, ticket, key, context, **parts)
        self._in_doubt.discard(ticket.id)
        return reply

    original = EtcdProtocol._create
    return swap(EtcdProtocol, "_create", create)


def tombstones_go_after_a_minute() -> list[Any]:
    """The rule there was: no create is under way for longer than that."""
    renewals: dict[Any, int] = {}
    tombstones: dict[Any, dict[bytes, int]] = {}

    def bury(self: Any, ticket: Any, key: bytes) -> Any:
        found = yield from original_bury(self, ticket, key)
        tombstones.setdefault(self, {})[self._tombstone(ticket)] = renewals.get(self, 0)
        return found

    def renew(self: Any, op: Any, context: Any) -> Any:
        renewal = yield from original_renew(self, op, context)
        count = renewals[self] = renewals.get(self, 0) + 1
        mine = tombstones.get(self, {})
        enough = 60.0 / (renewal.ttl_s / self.renewals_per_ttl)
        old = [key for key, since in mine.items() if count - since > enough]
        if old:
            yield from self._txn(then=[codec.delete(key) for key in old])
        for key in old:
            del mine[key]
        return renewal

    original_bury, original_renew = EtcdProtocol._bury, EtcdProtocol.renew
    return [*swap(EtcdProtocol, "_bury", bury), *swap(EtcdProtocol, "renew", renew)]


def sweep_leaves_the_anchor() -> list[Any]:
    def txn(self: Any, compare: Any = (), then: Any = (), otherwise: Any = (), **more: Any) -> Any:
        if len(then) == 3 and "request_delete_range" in then[2]:
            compare, then = (), [then[0], then[2]]
        return (yield from original(self, compare, then, otherwise, **more))

    original = EtcdProtocol._txn
    return swap(EtcdProtocol, "_txn", txn)


def anchor_not_compared() -> list[Any]:
    return swap(codec, "compare_modified", lambda key, mod_revision: codec.compare_absent(b"nothing"))


def tombstone_not_compared() -> list[Any]:
    def compare_absent(key: bytes, end: bytes | None = None) -> Any:
        return original(b"nothing" if b"~session" in key else key, end)

    original = codec.compare_absent
    return swap(codec, "compare_absent", compare_absent)


# The ZooKeeper protocol.


def create_again_without_looking() -> list[Any]:
    def find(self: Any, ticket: Any, rule: Any) -> Any:
        yield from ()

    return swap(ZooKeeperProtocol, "_find", find)


def sequence_is_the_order() -> list[Any]:
    return swap(zookeeper, "dubious", lambda children: False)


def dying_session_grants() -> list[Any]:
    def check(self: Any, op: Any, context: Any) -> Any:
        if op.evidence is not None:
            return Checked(mine=True, present=frozenset())
        return (yield from original(self, op, context))

    original = ZooKeeperProtocol.check
    return [
        *swap(ZooKeeperProtocol, "check", check),
        *admit_without_the_clock(),
        *session_loss_ignored_while_waiting(),
    ]


def missing_node_is_watched() -> list[Any]:
    def watch(self: Any, op: Any, context: Any) -> Any:
        yield from self._arm(op.targets, context)
        return True

    return swap(ZooKeeperProtocol, "watch", watch)


def ping_is_renewal() -> list[Any]:
    def renew(self: Any, op: Any, context: Any) -> Any:
        from recipes._contract.operations import Renewal

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
    def enqueue(self: Any, op: Any, context: Any) -> Any:
        program = original(self, op, context)
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
    def look(self: Any, op: Any, context: Any) -> Any:
        return (yield from original(self, replace(op, targets=()), context))

    original = ZooKeeperProtocol.look
    return swap(ZooKeeperProtocol, "look", look)


def withdraws_everybody() -> list[Any]:
    def withdraw(self: Any, op: Any, context: Any) -> Any:
        if op.entry is None:
            node = self._layout.queue(op.ticket.queue)
            (names,) = yield from self._together((Children(node),))
            for name in names or ():
                yield from self._delete(f"{node}/{name}", again=True)
        return (yield from original(self, op, context))

    original = ZooKeeperProtocol.withdraw
    return swap(ZooKeeperProtocol, "withdraw", withdraw)
