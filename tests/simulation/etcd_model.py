"""A model of etcd behind its JSON gateway: revisions, transactions, leases, watches from now on.

It answers the very documents that the gateway answers: 64 bit numbers as strings, zero
and false left out. Unary calls are independent of each other; what a watch stream
carries keeps its order.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from recipes.errors import StoreUnavailable
from recipes.stores.base import Batch, Changed, Disturbed, Gone
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.requests import EtcdError, Post, Watch
from tests.simulation.world import Asked, Pipe, World

__all__ = ["EtcdLink", "EtcdServer", "EtcdStore"]

LEASE_NOT_FOUND = "etcdserver: requested lease not found"
LEASE_EXISTS = "etcdserver: lease already exists"
MAX_OPS = 128
MAX_TTL_S = 9_000_000_000
UNREACHABLE = StoreUnavailable("model", "the connection broke")

decode = lru_cache(maxsize=100_000)(b64decode)


@lru_cache(maxsize=100_000)
def encode(raw: bytes) -> str:
    return b64encode(raw).decode()


@dataclass(slots=True)
class Key:
    """A key's value, as etcd keeps it."""

    value: str
    created: int
    modified: int
    version: int
    lease: int


@dataclass(slots=True)
class Lease:
    """A lease; ``ends_at`` by the server's clock."""

    ttl: int
    ends_at: float
    early: bool = False


class EtcdServer:
    """What the majority agrees on.

    Args:
        floor: The shortest TTL it grants (etcd: 1.5 election timeouts, rounded up).
        ok_for_revoked: Answer a keepalive of a revoked lease as if it lived (before 3.4.38).
    """

    def __init__(self, *, floor: int = 2, ok_for_revoked: bool = False) -> None:
        self.revision = 1
        self.compacted = 0
        self.keys: dict[bytes, Key] = {}
        self.leases: dict[int, Lease] = {}
        self.floor = floor
        self.ok_for_revoked = ok_for_revoked
        self.revoked: dict[int, int] = {}
        self.watches: list[Any] = []
        self.now = 0.0
        self.deleted: list[bytes] = []
        self._events: list[tuple[bytes, bool]] = []
        self._changed = False

    def handle(self, path: str, body: Any) -> Any:
        """Answer one call, or raise ``EtcdError``."""
        reply = getattr(self, path.replace("/", "_"))(body)
        if "header" not in reply and "result" not in reply:
            reply["header"] = {"revision": str(self.revision)}
        return reply

    def _kv_txn(self, body: Any) -> Any:
        _check(body)
        holds = all(self._compare(compare) for compare in body.get("compare", ()))
        operations = body.get("success" if holds else "failure", ())
        for operation in operations:  # checked before anything is done
            put = operation.get("request_put")
            if put is not None and int(put.get("lease", 0)) and int(put["lease"]) not in self.leases:
                raise EtcdError(5, LEASE_NOT_FOUND)
        responses = [self._operate(operation) for operation in operations]
        self._tell()
        reply: dict[str, Any] = {"header": {"revision": str(self.revision)}}
        if holds:
            reply["succeeded"] = True
        if responses:
            reply["responses"] = responses
        return reply

    def _kv_range(self, body: Any) -> Any:
        return self._range(decode(body["key"]), body)

    def _compare(self, compare: Any) -> bool:
        key = decode(compare["key"])
        if compare["target"] == "VALUE":
            entry = self.keys.get(key)
            return entry is not None and entry.value == compare.get("value", "")
        wanted = int(compare["create_revision"])
        if "range_end" in compare:
            end = decode(compare["range_end"])
            found = [entry.created for name, entry in self.keys.items() if key <= name < end]
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
        key = decode(request["key"])
        if kind == "request_range":
            return {"response_range": self._range(key, request)}
        if kind == "request_put":
            self._write()
            old = self.keys.get(key)
            created, version = (self.revision, 1) if old is None else (old.created, old.version + 1)
            lease = int(request.get("lease", 0))
            self.keys[key] = Key(request.get("value", ""), created, self.revision, version, lease)
            self._events.append((key, True))
            return {"response_put": {"header": {"revision": str(self.revision)}}}
        if self.keys.pop(key, None) is None:
            return {"response_delete_range": {"header": {"revision": str(self.revision)}}}
        self._write()
        self._events.append((key, False))
        self.deleted.append(key)
        return {"response_delete_range": {"header": {"revision": str(self.revision)}, "deleted": "1"}}

    def _write(self) -> None:
        """Begin the revision of a transaction, with its first change."""
        if not self._changed:
            self._changed = True
            self.revision += 1

    def _range(self, key: bytes, request: Any) -> Any:
        if "range_end" not in request:
            entry = self.keys.get(key)
            found = [] if entry is None else [(key, entry)]
        else:
            end = decode(request["range_end"])
            found = sorted(item for item in self.keys.items() if key <= item[0] < end) if self.keys else []
        count = len(found)
        most = int(request.get("max_create_revision", 0))
        if most:
            found = [item for item in found if item[1].created <= most]
        if request.get("sort_target") == "CREATE":
            found.sort(key=lambda item: item[1].created, reverse=request.get("sort_order") == "DESCEND")
        limit = int(request.get("limit", 0))
        more = bool(limit) and len(found) > limit
        if limit:
            found = found[:limit]
        reply: dict[str, Any] = {"header": {"revision": str(self.revision)}}
        if found:
            reply["kvs"] = [_kv(name, entry) for name, entry in found]
        if count:
            reply["count"] = str(count)
        if more:
            reply["more"] = True
        return reply

    def _lease_grant(self, body: Any) -> Any:
        lease_id = int(body.get("ID", 0))
        if int(body["TTL"]) > MAX_TTL_S:
            raise EtcdError(11, "etcdserver: too large lease TTL")
        if lease_id in self.leases:
            raise EtcdError(9, LEASE_EXISTS)
        ttl = max(int(body["TTL"]), self.floor)
        self.leases[lease_id] = Lease(ttl, self.now + ttl)
        return {"ID": str(lease_id), "TTL": str(ttl)}

    def _lease_keepalive(self, body: Any) -> Any:
        lease_id = int(body["ID"])
        result = {"header": {"revision": str(self.revision)}, "ID": str(lease_id)}
        lease = self.leases.get(lease_id)
        if lease is not None:
            lease.ends_at = self.now + lease.ttl
            result["TTL"] = str(lease.ttl)
        elif self.ok_for_revoked and lease_id in self.revoked:
            result["TTL"] = str(self.revoked[lease_id])
        return {"result": result}

    def _lease_revoke(self, body: Any) -> Any:
        lease_id = int(body["ID"])
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
        if self.keys.pop(key, None) is not None:
            self.revision += 1
            self._events.append((key, False))
            self._tell()

    def put(self, key: bytes) -> None:
        """Put a key of nobody's, as a foreign client would."""
        self.revision += 1
        self.keys[key] = Key("", self.revision, self.revision, 1, 0)
        self._events.append((key, True))
        self._tell()

    def _tell(self) -> None:
        events, self._events = self._events, []
        self._changed = False
        for key, put in events:
            for watch in [watch for watch in self.watches if watch.key == key]:
                watch.happened(put)


def _check(body: Any) -> None:
    """Refuse what etcd refuses before it compares anything."""
    if max(len(body.get(part, ())) for part in ("compare", "success", "failure")) > MAX_OPS:
        raise EtcdError(3, "etcdserver: too many operations in txn request")
    for branch in ("success", "failure"):
        operations = body.get(branch, ())
        if len(operations) > 1:
            puts = [operation["request_put"]["key"] for operation in operations if "request_put" in operation]
            deletes = (operation.get("request_delete_range") for operation in operations)
            if len({*puts}) < len(puts) or any(delete and delete["key"] in puts for delete in deletes):
                raise EtcdError(3, "etcdserver: duplicate key given in txn request")


def _kv(name: bytes, entry: Key) -> dict[str, str]:
    kv = {
        "key": encode(name),
        "create_revision": str(entry.created),
        "mod_revision": str(entry.modified),
        "version": str(entry.version),
    }
    if entry.value:
        kv["value"] = entry.value
    if entry.lease:
        kv["lease"] = str(entry.lease)
    return kv


class _Watching:
    """One watch on the wire of one link; as in the client's book, a later arming of its key joins it."""

    __slots__ = ("armings", "changes", "created", "key", "link")

    def __init__(self, link: EtcdLink, watch: Watch) -> None:
        self.link = link
        self.key = watch.key
        self.changes = watch.changes
        self.created: int | None = None
        self.armings: list[tuple[Any, Asked, int]] = []

    def happened(self, put: bool) -> None:
        if put and not self.changes:
            return
        store = self.link.store
        if store.lossy and store.world.random() < store.lossy:
            return  # the server forgot to tell
        self.link.server.watches.remove(self)
        ref = self.key.decode()
        self.tell(Changed(ref) if put else Gone(ref))

    def confirm(self, revision: int) -> None:
        """Tell all that wait that it stands."""
        self.created = revision
        for _, asked, position in self.armings:
            asked.answer(position, revision)

    def tell(self, event: Any) -> None:
        """Send the one event of this watch on its way; the client has it booked until it comes."""
        link = self.link

        def arrive() -> None:
            if self in link.booked:
                link.booked.remove(self)
                for mailbox, _, _ in self.armings:
                    mailbox.post(event)

        link.down.push(arrive)


class EtcdLink:
    """The way of one session of one client to the servers."""

    def __init__(self, store: EtcdStore, client: Any) -> None:
        self.store = store
        self.server = store.server
        self.client = client
        self.world: World = client.world
        self.cut = self.half_cut = False
        self.closed = False
        self.down = Pipe(self.world, self._can_hear)
        self.up = Pipe(self.world, self._can_say)
        self.booked: list[_Watching] = []

    def _can_hear(self) -> bool:
        return not (self.cut or self.half_cut or self.client.paused)

    def _can_say(self) -> bool:
        return not self.cut

    def _runs(self) -> bool:
        return not self.client.paused

    def send(self, task: Any, request: Any) -> Asked:
        world = self.world
        single = type(request) is not Batch
        parts = (request,) if single else request.parts
        asked = Asked(world, task, [None] * len(parts), len(parts), single)
        for position, part in enumerate(parts):
            world.requests += 1
            world.note(task.name, type(part).__name__, getattr(part, "path", None))
            if type(part) is Post:
                self._post(asked, position, part)
            else:
                self._watch(asked, position, part)
        return asked

    def _post(self, asked: Asked, position: int, post: Post) -> None:
        fate = self.store.fate(self.client, post)
        if fate == "lost request":
            return
        up = Pipe(self.world, self._can_say)
        down = Pipe(self.world, self._can_hear)

        def arrive() -> None:
            try:
                reply = self.server.handle(post.path, post.body)
            except EtcdError as error:
                reply = error
            self.store.handled(self.client, post, reply)
            if fate != "lost reply":
                down.push(lambda: asked.answer(position, reply))

        if fate == "late request":
            self.store.late.append(arrive)
            return
        up.push(arrive)

    def _watch(self, asked: Asked, position: int, watch: Watch) -> None:
        arming = (watch.mailbox, asked, position)
        for joined in self.booked:
            if joined.key == watch.key and joined.changes == watch.changes:
                if joined.created is not None:
                    here = Pipe(self.world, self._runs)
                    here.push(partial(asked.answer, position, joined.created))
                    if any(mailbox is watch.mailbox for mailbox, _, _ in joined.armings):
                        return  # it watches already, and goes on
                joined.armings.append(arming)
                return
        watching = _Watching(self, watch)
        watching.armings.append(arming)
        self.booked.append(watching)

        def arrive() -> None:
            if watching not in self.booked:
                return
            self.server.watches.append(watching)
            created = self.server.revision
            self.down.push(lambda: watching.confirm(created))

        self.up.push(arrive)

    def disturb(self) -> None:
        """The stream broke: whoever has a watch on it is told, unless he still waits for it."""
        self.up.clear()
        self.down.clear()
        booked, self.booked = self.booked, []
        self.server.watches = [watch for watch in self.server.watches if watch.link is not self]
        for watch in booked:
            for mailbox, asked, position in watch.armings:
                if watch.created is None:
                    asked.answer(position, UNREACHABLE)
                else:
                    mailbox.post(Disturbed())

    def compacted(self) -> None:
        """The server cancels every watch that has told of nothing yet."""
        mine = [watch for watch in self.server.watches if watch.link is self]
        for watch in mine:
            self.server.watches.remove(watch)
            watch.tell(Disturbed())

    def forget(self, mailbox: Any) -> None:
        for watch in list(self.booked):
            watch.armings = [arming for arming in watch.armings if arming[0] is not mailbox]
            if not watch.armings:
                self.booked.remove(watch)
                if watch in self.server.watches:
                    self.server.watches.remove(watch)

    def close(self) -> None:
        self.closed = True
        self.disturb()


class EtcdStore:
    """The model as a store for simulated clients, with the faults that can strike it."""

    name = "etcd"

    def __init__(self, world: World, *, rate: float = 1.0) -> None:
        self.world = world
        self.rate = rate
        self.server = EtcdServer(ok_for_revoked=world.random() < 0.3)
        self.server.now = world.now * rate
        self.links: list[EtcdLink] = []
        self.late: list[Any] = []
        self.lossy = 0.0
        self.plan: dict[int, str] = {}
        self.fated: str | None = None
        self.leases = 0
        self._seen: tuple[int, list[tuple[int, str]]] = (0, [])
        world.timers.append(self.next_expiry)
        world.ticks.append(self.tick)

    def protocol(self, client: Any) -> EtcdProtocol:
        self.leases += 1
        return EtcdProtocol("model", LAYOUT, 1000 + self.leases)

    def link(self, client: Any, on_end: Any) -> EtcdLink:
        link = EtcdLink(self, client)
        self.links.append(link)
        return link

    def next_expiry(self) -> float | None:
        leases = self.server.leases
        if not leases:
            return None
        return min(lease.ends_at for lease in leases.values()) / self.rate

    def tick(self) -> None:
        self.server.expire(self.world.now * self.rate + 1e-9)

    def fate(self, client: Any, request: Any) -> str | None:
        """Say what shall become of a request; the fault injector decides."""
        if self.plan:
            return self.plan.pop(self.world.requests, None)
        fated, self.fated = self.fated, None
        return fated

    def handled(self, client: Any, request: Any, reply: Any) -> None:
        """Hook for the oracle."""

    # What the oracle asks.

    def standing(self, queue: str) -> list[tuple[int, str]]:
        """Return (token, contender id) of all that stand in a queue, in order."""
        if self._seen[0] != self.server.revision:
            start = LAYOUT.queue(queue)
            found = sorted(
                (entry.created, key[-36:].decode())
                for key, entry in self.server.keys.items()
                if key.startswith(start)
            )
            self._seen = (self.server.revision, found)
        return self._seen[1]

    def leftovers(self) -> list[str]:
        """Return what should not be there when every client has closed."""
        return [key.decode() for key in self.server.keys if b"foreign" not in key]

    def watch_count(self) -> int:
        """Watches of clients that live; a dead one's go with its connection."""
        return sum(not watch.link.client.dead for watch in self.server.watches)


LAYOUT = Layout("app")
