"""Model servers with one mistake each: what the comparison has to notice, or it proves nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from recipes.stores.zookeeper.requests import (
    Check,
    Create,
    Delete,
    Multi,
    MultiFailed,
    Stat,
    ZooKeeperError,
)
from tests.simulation.acts_model import Act, Acts
from tests.simulation.etcd_model import EtcdServer
from tests.simulation.zookeeper_connection import ZooKeeperConnection
from tests.simulation.zookeeper_model import ZooKeeperStore
from tests.simulation.zookeeper_server import Tentative

__all__ = ["ETCD", "REDIS", "ZOOKEEPER"]


class CountsWhatItShows(EtcdServer):
    """``count`` is what is returned, not what there is."""

    def _range(self, key: bytes, request: Any) -> Any:
        reply = super()._range(key, request)
        if "count" in reply:
            reply["count"] = len(reply.get("kvs", ()))
        return reply


class BoundIsExclusive(EtcdServer):
    """``max_create_revision`` leaves out the revision itself."""

    def _range(self, key: bytes, request: Any) -> Any:
        most = request.get("max_create_revision", 0)
        return super()._range(key, {**request, "max_create_revision": most - 1} if most > 1 else request)


class RevokeKeepsKeys(EtcdServer):
    """Ending a lease deletes nothing."""

    def revoke(self, lease_id: int) -> None:
        del self.leases[lease_id]


class DeadLeaseLives(EtcdServer):
    """A revoked lease is kept alive, as before 3.4.38 at times."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, ok_for_revoked=True)


class PutCreatesAnew(EtcdServer):
    """Every put begins the key again."""

    def _operate(self, operation: Any) -> Any:
        if "request_put" in operation:
            body = {"success": [{"request_delete_range": {"key": operation["request_put"]["key"]}}]}
            super()._operate(body["success"][0])
        return super()._operate(operation)


class ModifiedIsCreated(EtcdServer):
    """A comparison of when a key was last put looks at when it was created."""

    def _compare(self, compare: Any) -> bool:
        if compare["target"] == "MOD":
            compare = {**compare, "target": "CREATE", "create_revision": compare["mod_revision"]}
        return super()._compare(compare)


class VersionsNotCompared(EtcdServer):
    """A comparison of how often a key was put holds, whatever it asks."""

    def _compare(self, compare: Any) -> bool:
        return compare["target"] == "VERSION" or super()._compare(compare)


class PreviousIsPresent(EtcdServer):
    """A put shows the key as it is by now."""

    def _operate(self, operation: Any) -> Any:
        reply = super()._operate(operation)
        if "prev_kv" in reply.get("response_put", {}):
            reply["response_put"]["prev_kv"] = self.keys[operation["request_put"]["key"]].kv
        return reply


class RangesUnwatched(EtcdServer):
    """A watch of a range hears of its first key alone."""

    def _tell(self) -> None:
        self.watches = [watch for watch in self.watches if not watch.end]
        super()._tell()


class DeletesOne(EtcdServer):
    """Of a range one key is deleted."""

    def _delete_range(self, key: bytes, request: Any) -> Any:
        return super()._delete_range(key, {name: value for name, value in request.items() if name == "key"})


class EmptyRangeEqualsAll(EtcdServer):
    """A comparison of a range that is empty holds whatever it asks, as in the model before."""

    def _compare(self, compare: Any) -> bool:
        if "range_end" in compare and "kvs" not in self._range(compare["key"], compare):
            return True
        return super()._compare(compare)


class NoFloor(EtcdServer):
    """Leases are as short as one likes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(floor=1)


class DeletionsUntold(EtcdServer):
    """Watches hear of puts only."""

    def _tell(self) -> None:
        self._events = [event for event in self._events if event[1]]
        super()._tell()


class EveryTxnCounts(EtcdServer):
    """A transaction that changes nothing has a revision too."""

    def _kv_txn(self, body: Any) -> Any:
        if body.get("compare"):
            self.revision += 1
        return super()._kv_txn(body)


class CountsItsNumbers(ZooKeeperStore):
    """Only sequential nodes take a number, as in the model before."""

    def _create(self, connection: ZooKeeperConnection, request: Create, tree: Any) -> Any:
        before = dict(self.counters)
        planned = super()._create(connection, request, tree)
        if not request.sequence:
            self.counters = before
        return planned


class NumbersOutlive(ZooKeeperStore):
    """The numbers go on where a node is made again."""

    def _delete(self, request: Delete, node: Any) -> Any:
        number = self.counters.get(request.path, 0)
        planned = super()._delete(request, node)
        self.counters[request.path] = number
        return planned


class DeletesAnyVersion(ZooKeeperStore):
    """A delete does not look at the version."""

    def _plan(self, connection: ZooKeeperConnection, request: Any, tree: Any) -> Any:
        anyhow = replace(request, version=-1) if isinstance(request, Delete) else request
        return super()._plan(connection, anyhow, tree)


class EphemeralsStay(ZooKeeperStore):
    """A session leaves its nodes behind."""

    def end(self, session: int) -> None:
        if self.sessions.pop(session, None) is not None:
            self._txn([("end", "", session)])


class SetMovesCzxid(ZooKeeperStore):
    """A set looks like a creation."""

    def _plan(self, connection: ZooKeeperConnection, request: Any, tree: Any) -> Any:
        reply, txn = super()._plan(connection, request, tree)
        return Stat(self.zxid + 1, reply.owner, reply.version) if isinstance(reply, Stat) else reply, txn


class SetsUntold(ZooKeeperStore):
    """Watches hear of deletions only."""

    def _txn(self, txns: list[Any]) -> None:
        for kind, path, _ in txns:
            if kind == "set":
                for server in self.servers:
                    server.watches.pop(path, None)
        super()._txn(txns)


class OwnWritesUnread(ZooKeeperStore):
    """A follower answers a write before it has it, and the next read of the session does not show it."""

    def commit(self, connection: ZooKeeperConnection, request: Any) -> tuple[Any, int]:
        return super().commit(connection, request)[0], 0


class MultiIsHalfDone(ZooKeeperStore):
    """Of a multi that fails, the parts before that are done."""

    def _multi(self, connection: ZooKeeperConnection, request: Multi) -> Any:
        reply = super()._multi(connection, request)
        if isinstance(reply, MultiFailed):
            for part in request.parts[: reply.part]:
                self._write(connection, part)
        return reply


class MultiLooksOnce(ZooKeeperStore):
    """Each part of a multi is held to the nodes as they were before the first."""

    def _multi(self, connection: ZooKeeperConnection, request: Multi) -> Any:
        tree = Tentative(self.leader.tree)
        for number, part in enumerate(request.parts):
            reply, _ = self._plan(connection, part, tree)
            if isinstance(reply, ZooKeeperError):
                return MultiFailed(number, reply)
        return super()._multi(connection, request)


class NullIsEmpty(ZooKeeperStore):
    """A node without data has empty data."""

    def _txn(self, txns: list[Any]) -> None:
        super()._txn([(kind, path, _filled(value)) for kind, path, value in txns])


def _filled(value: Any) -> Any:
    return (value[0] or b"", value[1]) if isinstance(value, tuple) else value or b""


class ChecksNothing(ZooKeeperStore):
    """A check holds, whatever version the node has."""

    def _plan(self, connection: ZooKeeperConnection, request: Any, tree: Any) -> Any:
        anyhow = replace(request, version=-1) if isinstance(request, Check) else request
        return super()._plan(connection, anyhow, tree)


ETCD = (
    CountsWhatItShows,
    BoundIsExclusive,
    RevokeKeepsKeys,
    DeadLeaseLives,
    PutCreatesAnew,
    ModifiedIsCreated,
    VersionsNotCompared,
    PreviousIsPresent,
    RangesUnwatched,
    DeletesOne,
    EmptyRangeEqualsAll,
    NoFloor,
    DeletionsUntold,
    EveryTxnCounts,
)
ZOOKEEPER = (
    CountsItsNumbers,
    NumbersOutlive,
    DeletesAnyVersion,
    EphemeralsStay,
    SetMovesCzxid,
    SetsUntold,
    OwnWritesUnread,
    MultiIsHalfDone,
    MultiLooksOnce,
    NullIsEmpty,
    ChecksNothing,
)


def _acts(name: str, what: str, does: Any) -> type[Acts]:
    """Return a model of Redis in which one part of the script does something else."""
    part = type(name, (Act,), {what: does})
    return type(name, (Acts,), {"act": part})


RemovalSettlesNothing = _acts(
    "RemovalSettlesNothing", "take_out", lambda self, one: (self.drop(one), setattr(self, "settle", _nothing))
)
REDIS = (
    RemovalSettlesNothing,
    _acts("DeadHeadStays", "first", lambda self: next(iter(self.queue.standing.values()), None)),
    _acts("JoinLooksNothingUp", "join", lambda self, one, *words: _forgetful(self, one, words)),
    _acts("StrangerIsNotSeen", "load", lambda self: None),
    _acts("NobodyListens", "listen", lambda self, what: None),
    _acts("KeyIsNotProlonged", "in_group", lambda self, one: False),
    _acts("ReadersAreAlone", "counting", lambda self, mine, exclusive: Act.counting(self, mine, False)),
    _acts("GuardsAreNotLookedAt", "guards", lambda self, known, token, unchanged: True),
    _acts("TouchedOnesStand", "touch", lambda self, *asked: [1 for _ in asked]),
    _acts("NothingIsThere", "present", lambda self, *words: [0 for _ in words[1::2]]),
    _acts("DroppedOnesAreNotRung", "tell", lambda self, what, said: None),
)


def _nothing(joined: Any = None) -> None:
    """Settle nothing."""


def _forgetful(act: Any, one: str, words: Any) -> Any:
    act.queue.ids.pop(one, None)
    return Act.join(act, one, *words)
