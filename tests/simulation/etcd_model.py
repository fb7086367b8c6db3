"""A model of etcd: revisions, transactions, leases, watches from now on.

It answers the documents that etcd answers, zero and false left out. Unary calls are independent of each
other; what a watch stream carries keeps its order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any

from recipes.stores.etcd.codec import Kv
from recipes.stores.etcd.requests import EtcdError

__all__ = ["EtcdServer"]

LEASE_NOT_FOUND = "etcdserver: requested lease not found"
LEASE_EXISTS = "etcdserver: lease already exists"
MAX_OPS = 128
MAX_TTL_S = 9_000_000_000


class Keys(dict[bytes, "Key"]):
    """Keys by their names, which are kept sorted: a range costs what is in it, whatever else there is."""

    def __init__(self) -> None:
        super().__init__()
        self._names: list[bytes] = []

    def __setitem__(self, name: bytes, key: Key) -> None:
        if name not in self:
            insort(self._names, name)
        super().__setitem__(name, key)

    def __delitem__(self, name: bytes) -> None:
        super().__delitem__(name)
        del self._names[bisect_left(self._names, name)]

    def between(self, start: bytes, end: bytes) -> list[bytes]:
        """Return the names from ``start`` on and before ``end``, in order."""
        return self._names[bisect_left(self._names, start) : bisect_left(self._names, end)]


class Key:
    """A key's value, as etcd keeps it and as it is told."""

    __slots__ = ("created", "kv", "lease", "modified", "version")

    def __init__(
        self, name: bytes, value: bytes, *, created: int, modified: int, version: int, lease: int = 0
    ) -> None:
        self.created = created
        self.modified = modified
        self.version = version
        self.lease = lease
        self.kv = Kv(name, created, value, lease, modified, version)


class Lease:
    """A lease; ``ends_at`` by the server's clock."""

    __slots__ = ("ends_at", "ttl")

    def __init__(self, ttl: int, ends_at: float) -> None:
        self.ttl = ttl
        self.ends_at = ends_at


class EtcdServer:
    """What the majority agrees on.

    Args:
        floor: The shortest TTL it grants (etcd: 1.5 election timeouts, rounded up).
        ok_for_revoked: Answer a keepalive of a revoked lease as if it lived (before 3.4.38).

    Attributes:
        read: How many keys it has gone through so far, to sort them or to return them.
    """

    def __init__(self, *, floor: int = 2, ok_for_revoked: bool = False) -> None:
        self.revision = 1
        self.compacted = 0
        self.keys = Keys()
        self.read = 0
        self.leases: dict[int, Lease] = {}
        self.floor = floor
        self.ok_for_revoked = ok_for_revoked
        self.revoked: dict[int, int] = {}
        self.watches: list[Any] = []
        self.now = 0.0
        self.written: list[Callable[[], None]] = []
        self._events: list[tuple[bytes, bool]] = []
        self._changed = False
        self._paths: dict[str, Callable[[Any], Any]] = {
            "/kv/txn": self._kv_txn,
            "/kv/range": self._kv_range,
            "/kv/deleterange": self._kv_deleterange,
            "/lease/grant": self._lease_grant,
            "/lease/keepalive": self._lease_keepalive,
            "/lease/revoke": self._lease_revoke,
        }

    @property
    def revision(self) -> int:
        """What the last change made of it; every reply begins with it."""
        return self._revision

    @revision.setter
    def revision(self, revision: int) -> None:
        self._revision = revision
        self.header = {"revision": revision}

    def handle(self, path: str, body: Any) -> Any:
        """Answer one call, or raise ``EtcdError``."""
        reply = self._paths[path](body)
        if "header" not in reply and "result" not in reply:
            reply["header"] = self.header
        return reply

    def _kv_txn(self, body: Any) -> Any:
        _check(body)
        holds = True
        for compare in body.get("compare", ()):
            if not self._compare(compare):
                holds = False
                break
        operations = body.get("success" if holds else "failure", ())
        for operation in operations:  # checked before anything is done
            put = operation.get("request_put")
            if put is not None:
                lease = put.get("lease", 0)
                if lease and lease not in self.leases:
                    raise EtcdError(5, LEASE_NOT_FOUND)
        responses = [self._operate(operation) for operation in operations]
        if self._events:
            self._tell()
        reply: dict[str, Any] = {"header": self.header}
        if holds:
            reply["succeeded"] = True
        if responses:
            reply["responses"] = responses
        return reply

    def _kv_range(self, body: Any) -> Any:
        return self._range(body["key"], body)

    def _kv_deleterange(self, body: Any) -> Any:
        reply = self._delete_range(body["key"], body)
        if self._events:
            self._tell()
        return reply

    def _compare(self, compare: Any) -> bool:
        key = compare["key"]
        if compare["target"] == "VERSION":
            entry = self.keys.get(key)
            return (0 if entry is None else entry.version) == compare["version"]
        if compare["target"] == "MOD":
            entry = self.keys.get(key)
            return (0 if entry is None else entry.modified) == compare["mod_revision"]
        wanted = compare["create_revision"]
        if "range_end" in compare:
            end = compare["range_end"]
            found = [self.keys[name].created for name in self.keys.between(key, end)]
            return found.count(wanted) == len(found) if found else wanted == 0
        entry = self.keys.get(key)
        created = 0 if entry is None else entry.created
        result = compare["result"]
        return (
            created == wanted
            if result == "EQUAL"
            else created > wanted
            if result == "GREATER"
            else created < wanted
        )

    def _operate(self, operation: Any) -> Any:
        ((kind, request),) = operation.items()
        key = request["key"]
        if kind == "request_range":
            return {"response_range": self._range(key, request)}
        if kind == "request_put":
            self._write()
            old = self.keys.get(key)
            created, version = (self.revision, 1) if old is None else (old.created, old.version + 1)
            lease = request.get("lease", 0)
            self.keys[key] = Key(
                key,
                request.get("value", b""),
                created=created,
                modified=self.revision,
                version=version,
                lease=lease,
            )
            self._events.append((key, True))
            reply: dict[str, Any] = {"header": self.header}
            if old is not None and request.get("prev_kv"):
                reply["prev_kv"] = old.kv
            return {"response_put": reply}
        return {"response_delete_range": self._delete_range(key, request)}

    def _delete_range(self, key: bytes, request: Any) -> Any:
        doomed = [key] if key in self.keys else []
        if "range_end" in request:
            end = request["range_end"]
            doomed = self.keys.between(key, end)
        for name in doomed:
            self._write()
            del self.keys[name]
            self._events.append((name, False))
        reply: dict[str, Any] = {"header": self.header}
        if doomed:
            reply["deleted"] = len(doomed)
        return reply

    def _write(self) -> None:
        """Begin the revision of a transaction, with its first change."""
        if not self._changed:
            self._changed = True
            self.revision += 1

    def _range(self, key: bytes, request: Any) -> Any:
        reply: dict[str, Any] = {"header": self.header}
        found: list[Any]
        if "range_end" not in request:
            entry = self.keys.get(key)
            if entry is None:
                return reply
            found = [(key, entry)]
        else:
            end = request["range_end"]
            found = [(name, self.keys[name]) for name in self.keys.between(key, end)]
        count = len(found)
        if not count:
            return reply
        self.read += count
        most = request.get("max_create_revision", 0)
        if most:
            found = [item for item in found if item[1].created <= most]
        if len(found) > 1:
            found = _sorted(found, request)
        limit = request.get("limit", 0)
        if limit and len(found) > limit:
            reply["more"] = True
            found = found[:limit]
        if found:
            reply["kvs"] = [entry.kv for _, entry in found]
        reply["count"] = count
        return reply

    def _lease_grant(self, body: Any) -> Any:
        lease_id = body.get("ID", 0)
        if body["TTL"] > MAX_TTL_S:
            raise EtcdError(11, "etcdserver: too large lease TTL")
        if lease_id in self.leases:
            raise EtcdError(9, LEASE_EXISTS)
        ttl = max(body["TTL"], self.floor)
        self.leases[lease_id] = Lease(ttl, self.now + ttl)
        return {"ID": lease_id, "TTL": ttl}

    def _lease_keepalive(self, body: Any) -> Any:
        lease_id = body["ID"]
        result: dict[str, Any] = {"header": self.header, "ID": lease_id}
        lease = self.leases.get(lease_id)
        if lease is not None:
            lease.ends_at = self.now + lease.ttl
            result["TTL"] = lease.ttl
        elif self.ok_for_revoked and lease_id in self.revoked:
            result["TTL"] = self.revoked[lease_id]
        return {"result": result}

    def _lease_revoke(self, body: Any) -> Any:
        lease_id = body["ID"]
        if lease_id not in self.leases:
            raise EtcdError(5, LEASE_NOT_FOUND)
        self.revoke(lease_id)
        return {}

    def revoke(self, lease_id: int) -> None:
        """End a lease and delete its keys, in one revision."""
        self.revoked[lease_id] = self.leases.pop(lease_id).ttl
        doomed = [name for name, entry in self.keys.items() if entry.lease == lease_id]
        if doomed:
            self.revision += 1
        for name in doomed:
            del self.keys[name]
            self._events.append((name, False))
        self._tell()

    def expire(self, now: float) -> None:
        """Revoke what has ended by the server's clock."""
        self.now = now
        for lease_id in [key for key, lease in self.leases.items() if lease.ends_at <= now]:
            self.revoke(lease_id)

    def leader_changed(self) -> None:
        """Every lease starts anew, with its whole TTL."""
        for lease in self.leases.values():
            lease.ends_at = self.now + lease.ttl

    def delete(self, key: bytes) -> None:
        """Delete one key, as an operator would."""
        if key in self.keys:
            del self.keys[key]
            self.revision += 1
            self._events.append((key, False))
            self._tell()

    def put(self, key: bytes) -> None:
        """Put a key of nobody's, as a foreign client would."""
        self.revision += 1
        self.keys[key] = Key(key, b"", created=self.revision, modified=self.revision, version=1)
        self._events.append((key, True))
        self._tell()

    def _tell(self) -> None:
        events, self._events = self._events, []
        self._changed = False
        for act in self.written:
            act()
        for key, put in events:
            for watch in [watch for watch in self.watches if watch.covers(key)]:
                watch.happened(put)


def _check(body: Any) -> None:
    """Refuse what etcd refuses before it compares anything."""
    success, failure = body.get("success", ()), body.get("failure", ())
    if len(body.get("compare", ())) > MAX_OPS or len(success) > MAX_OPS or len(failure) > MAX_OPS:
        raise EtcdError(3, "etcdserver: too many operations in txn request")
    for operations in (success, failure):
        if len(operations) > 1:
            puts = [operation["request_put"]["key"] for operation in operations if "request_put" in operation]
            if not puts:
                continue
            deletes = (operation.get("request_delete_range") for operation in operations)
            if len({*puts}) < len(puts) or any(delete and _deletes(delete, puts) for delete in deletes):
                raise EtcdError(3, "etcdserver: duplicate key given in txn request")


def _deletes(delete: Any, puts: list[str]) -> bool:
    """Whether one of these keys is to be deleted."""
    if "range_end" not in delete:
        return delete["key"] in puts
    start, end = delete["key"], delete["range_end"]
    return any(start <= key < end for key in puts)


def _sorted(found: list[Any], request: Any) -> list[Any]:
    """Sort by name; or by creation, and what one transaction created by name."""
    found.sort()
    if request.get("sort_target") == "CREATE":
        found.sort(key=_created, reverse=request.get("sort_order") == "DESCEND")
    return found


def _created(item: Any) -> int:
    created: int = item[1].created
    return created
