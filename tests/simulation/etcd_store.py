"""The model of etcd as a store for simulated clients: the way there, and the faults on it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from recipes._contract.connection import Batch
from recipes._contract.contents import unpack
from recipes._contract.operations import Stored
from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes.errors import StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores.etcd.layout import Layout
from recipes.stores.etcd.protocol import EtcdProtocol
from recipes.stores.etcd.requests import EtcdError, Post, Watch
from tests.simulation.etcd_model import EtcdServer
from tests.simulation.fates import DOUBLED, Fates
from tests.simulation.moving import Asked, Pipe, Way
from tests.simulation.standing import Stands
from tests.simulation.world import NEVER, World

__all__ = ["EtcdConnection", "EtcdStore"]

BROKEN = "the connection broke"
LAYOUT = Layout("app")
POST, WATCH = 10, 11
IS_HEARD = 0.7
"""How often a caller whose write has gone astray hears that its connection broke; else it waits."""
_VALUE = re.compile(r"app/~(value|counter|latch|barrier)/[^/]+")


class Unary:
    """One call on its way to the server, and its reply on the way back; no other delays it."""

    __slots__ = ("asked", "connection", "fate", "gate", "position", "post", "priority", "reply")

    def __init__(
        self, connection: EtcdConnection, asked: Asked, position: int, post: Post, fate: str | None
    ) -> None:
        self.connection = connection
        self.asked = asked
        self.position = position
        self.post = post
        self.fate = fate
        self.gate = connection.says
        self.reply: Any = None
        world = connection.world
        self.priority = world.random() if world.pct else 0.0

    def go(self, at: int) -> None:
        """Arrive: first there, then here."""
        world = self.connection.world
        if self.reply is not None:
            world.drop(at)
            self.asked.answer(self.position, self.reply)
            return
        if self.fate == "lost reply":
            world.drop(at)
        self.handle()
        if world.pct:
            self.priority = world.random()

    def handle(self) -> None:
        """Have the server handle it."""
        post, connection = self.post, self.connection
        self.gate = connection.hears
        connection.store.by = self.asked
        try:
            self.reply = connection.server.handle(post.path, post.body)
        except EtcdError as error:
            self.reply = error
        connection.store.by = None

    def land(self) -> None:
        """Arrive at the server when nobody expects it any more; the reply goes back all the same."""
        self.handle()
        self.connection.world.moving.append(self)


class Watching:
    """One watch on the wire of one connection.

    As in the client's book, a later arming of the same joins it.
    """

    __slots__ = ("armings", "changes", "connection", "created", "end", "key", "queue")

    def __init__(self, connection: EtcdConnection, watch: Watch) -> None:
        self.connection = connection
        self.key = watch.key
        self.end = watch.end
        self.queue = watch.queue
        self.changes = watch.changes
        self.created: int | None = None
        self.armings: list[tuple[Any, Asked, int]] = []

    def arrive(self) -> None:
        """Begin, at the server."""
        connection = self.connection
        if self in connection.booked:
            connection.server.watches.append(self)
            connection.down.push(partial(self.confirm, connection.server.revision))

    @property
    def wanted(self) -> tuple[bytes, bytes, bool]:
        return self.key, self.end, self.changes

    def is_of(self, mailbox: Any) -> bool:
        return any(one is mailbox for one, _, _ in self.armings)

    def needless(self, mailbox: Any) -> None:
        """End it for one that another watch has told; who waits for its creation is answered."""
        mine = [arming for arming in self.armings if arming[0] is mailbox]
        self.leave(mailbox)
        for _, asked, position in mine if self.created is None else ():
            asked.answer(position, 0)

    def leave(self, mailbox: Any) -> None:
        self.armings = [arming for arming in self.armings if arming[0] is not mailbox]
        if not self.armings:
            self.connection.booked.remove(self)
            if self in self.connection.server.watches:
                self.connection.server.watches.remove(self)

    def covers(self, key: bytes) -> bool:
        return self.key <= key < self.end if self.end else self.key == key

    def happened(self, put: bool) -> None:
        if put and not self.changes:
            return
        store = self.connection.store
        if store.lossy and store.world.random() < store.lossy:
            return  # the server forgot to tell
        self.connection.server.watches.remove(self)
        ref = self.queue or self.key.decode()
        self.tell(Changed(ref) if put or self.end else Gone(ref))

    def confirm(self, revision: int) -> None:
        """Tell all that wait that it stands."""
        self.created = revision
        for _, asked, position in self.armings:
            asked.answer(position, revision)

    def tell(self, event: Any) -> None:
        """Send the one event of this watch on its way; the client has it booked until it comes."""
        self.connection.down.push(partial(self.told, event))

    def told(self, event: Any) -> None:
        """The event arrives at the client."""
        connection = self.connection
        if self in connection.booked:
            connection.booked.remove(self)
            for mailbox, _, _ in self.armings:
                mailbox.post(event)
                for second in connection.same(mailbox, self.wanted):
                    second.needless(mailbox)


class EtcdConnection(Way):
    """The way of one session of one client to the servers."""

    def __init__(self, store: EtcdStore, client: Any) -> None:
        super().__init__(client)
        self.store = store
        self.server = store.server
        self.down = Pipe(self.world, self.hears, _call)
        self.up = Pipe(self.world, self.says, Watching.arrive)
        self.booked: list[Watching] = []
        self.set_gates()

    def send(self, task: Any, request: Any) -> Asked:
        if type(request) is Batch:
            parts = request.parts
            asked = Asked(self.world, task, len(parts))
            for position, part in enumerate(parts):
                self._send(asked, position, part)
        else:
            asked = Asked(self.world, task)
            self._send(asked, 0, request)
        return asked

    def _send(self, asked: Asked, position: int, part: Any) -> None:
        world = self.world
        world.requests += 1
        if world.trace is not None:
            world.note(asked.task.name, type(part).__name__, getattr(part, "path", None))
        if type(part) is not Post:
            world.mark(WATCH, asked.task.number)
            self._watch(asked, position, part)
            return
        world.mark(POST, asked.task.number)
        store = self.store
        fate = store.fate() if store.fated and store.strikes(asked, part) else None
        if fate and fate != DOUBLED and asked.write is not None and world.random() < IS_HEARD:
            broken = Unary(self, asked, position, part, None)
            broken.gate, broken.reply = self.hears, StoreUnavailable("model", BROKEN)
            world.moving.append(broken)
        store.launch(partial(Unary, self, asked, position, part), fate)

    def _watch(self, asked: Asked, position: int, watch: Watch) -> None:
        if self.closed:  # as what had several requests to send may find it
            here = Pipe(self.world, self.client.gate, _call)
            here.push(partial(asked.answer, position, StoreUnavailable("model", BROKEN)))
            return
        arming, wanted = (watch.mailbox, asked, position), (watch.key, watch.end, watch.changes)
        mine = self.same(watch.mailbox, wanted)
        others = [one for one in self.booked if one.wanted == wanted and one not in mine]
        confirmed = [one.created for one in mine if one.created is not None]
        if watch.again and not mine:
            self._answer(asked, position, 0)
        elif confirmed and (not watch.again or len(mine) > 1):  # it watches already, and goes on
            self._answer(asked, position, confirmed[0])
        elif found := others if watch.again else mine or others:
            if found[-1].created is not None:
                self._answer(asked, position, found[-1].created)
            found[-1].armings.append(arming)
        else:
            self._create(watch, arming)

    def _answer(self, asked: Asked, position: int, revision: int) -> None:
        here = Pipe(self.world, self.client.gate, _call)
        here.push(partial(asked.answer, position, revision))

    def _create(self, watch: Watch, arming: Any) -> None:
        watching = Watching(self, watch)
        watching.armings.append(arming)
        self.booked.append(watching)
        self.up.push(watching)

    def same(self, mailbox: Any, wanted: Any) -> list[Watching]:
        """Return the watches by which a mailbox watches just this."""
        return [one for one in self.booked if one.wanted == wanted and one.is_of(mailbox)]

    def disturb(self) -> None:
        """The stream broke: each that has a watch on it is notified, unless it still waits for it."""
        self.up.clear()
        self.down.clear()
        booked, self.booked = self.booked, []
        self.server.watches = [watch for watch in self.server.watches if watch.connection is not self]
        disturbed = {}
        for watch in booked:
            for mailbox, asked, position in watch.armings:
                if watch.created is None:
                    asked.answer(position, StoreUnavailable("model", BROKEN))
                else:
                    disturbed[id(mailbox)] = mailbox
        for mailbox in disturbed.values():
            mailbox.post(Disturbed())

    def compacted(self) -> None:
        """The server cancels every watch that has told of nothing yet."""
        mine = [watch for watch in self.server.watches if watch.connection is self]
        for watch in mine:
            self.server.watches.remove(watch)
            watch.tell(Disturbed())

    def forget(self, mailbox: Any) -> None:
        if not self.booked:
            return
        for watch in list(self.booked):
            watch.leave(mailbox)

    def close(self) -> None:
        self.closed = True
        self.disturb()


class EtcdStore(Fates):
    """The model as a store for simulated clients, with the faults that can strike it."""

    name = "etcd"
    guarantees = STORES["etcd"]

    def __init__(self, world: World, *, rate: float = 1.0) -> None:
        super().__init__(world)
        self.rate = rate
        self.server = EtcdServer(ok_for_revoked=world.random() < 0.3)
        self.server.now = world.now * rate
        self.server.written = self.written
        self.connections: list[EtcdConnection] = []
        self.lossy = 0.0
        self.leases = 0
        self.sorted_soon = (0, 3, 100)[int(3 * world.random())]
        self.most_tombstones = (0, 2, 100)[int(3 * world.random())]
        self._seen: dict[str, tuple[int, list[Stands]]] = {}
        world.timers.append(self.next_expiry)
        world.ticks.append(self.tick)

    def protocol(self, client: Any) -> EtcdProtocol:
        self.leases += 1
        made = EtcdProtocol("model", LAYOUT, 1000 + self.leases)
        made.sorted_soon = self.sorted_soon
        made.most_tombstones = self.most_tombstones
        return made

    def connection(self, client: Any, on_end: Any) -> EtcdConnection:
        connection = EtcdConnection(self, client)
        self.connections.append(connection)
        return connection

    def next_expiry(self) -> float:
        soonest = NEVER
        for lease in self.server.leases.values():
            soonest = min(soonest, lease.ends_at)
        soonest /= self.rate
        return min(soonest, *(at for at, _ in self.very_late)) if self.very_late else soonest

    def tick(self) -> None:
        now = self.world.now
        self.server.expire(now * self.rate + 1e-9)
        if self.very_late:
            due = [unary for at, unary in self.very_late if at <= now]
            self.very_late = [entry for entry in self.very_late if entry[0] > now]
            for unary in due:
                self.world.note(unary.asked.task.name, "arrives very late", unary.post.path)
                unary.land()

    def strikes(self, asked: Asked, request: Post) -> bool:
        return super().strikes(asked, request) and (not self.creates_only or _creates(request))

    @property
    def last_comes_at(self) -> float:
        """When the last of what was held back will arrive, whatever can come of it."""
        return max((at for at, _ in self.very_late), default=0.0)

    @property
    def all_has_come_by(self) -> float:
        """When the last of what was held back, and could still do anything, will have arrived."""
        return max((at for at, unary in self.very_late if not unary.connection.over), default=0.0)

    def land(self) -> None:
        """Let what is late arrive."""
        late, self.late = self.late, []
        for unary in late:
            unary.land()

    def ends_renewal(self, world: World) -> bool:
        """Whether what was just sent is the read behind a keepalive."""
        last = world.moving[-1] if world.moving else None
        return type(last) is Unary and last.post.path == "/kv/txn"

    @property
    def version(self) -> int:
        """What changes with every write."""
        return self.server.revision

    # What the oracle asks.

    def standing(self, queue: str) -> list[Stands]:
        """Return all that stand in a queue, in order."""
        revision, found = self._seen.get(queue, (0, []))
        if revision != self.server.revision:
            start = LAYOUT.queue(queue)
            found = sorted(
                _stands(queue, key, entry, key[len(start) :].decode())
                for key, entry in self.server.keys.items()
                if key.startswith(start)
            )
            self._seen[queue] = (self.server.revision, found)
        return found

    def has_session(self, session: int) -> bool:
        """Whether a session lasts."""
        return session in self.server.leases

    def owned(self, queue: str) -> list[tuple[int, str]]:
        """Return (session, contender id) of all that stand in a queue."""
        start = LAYOUT.queue(queue)
        keys = self.server.keys.items()
        return [(entry.lease, key[-36:].decode()) for key, entry in keys if key.startswith(start)]

    def value(self, key: str) -> Stored:
        """Return a value, as it is there."""
        entry = self.server.keys.get(b"app/" + key.encode())
        return Stored() if entry is None else Stored(entry.kv.value, entry.modified)

    def receipts(self, key: str) -> list[int]:
        """Return the session of each receipt of a value."""
        end = b"/" + key.encode()
        found = ((name, entry) for name, entry in self.server.keys.items() if name.endswith(end))
        return [entry.lease for name, entry in found if name.startswith(b"~session/")]

    def leftovers(self) -> list[str]:
        """Return what should not be there when every client has closed: all but values."""
        keys = (key.decode() for key in self.server.keys if b"foreign" not in key)
        return [key for key in keys if not _VALUE.fullmatch(key)]

    def watch_count(self) -> int:
        """Watches of clients that live; a dead one's go with its connection."""
        return sum(not watch.connection.client.dead for watch in self.server.watches)


def _creates(post: Post) -> bool:
    """Whether a request makes a contender: a transaction that puts a key that is to be absent."""
    puts = [entry["request_put"]["key"] for entry in post.body.get("success", ()) if "request_put" in entry]
    absent = [compare["key"] for compare in post.body.get("compare", ()) if compare["result"] == "EQUAL"]
    return any(key in absent for key in puts)


def _call(message: Any) -> None:
    message()


def _stands(queue: str, key: bytes, entry: Any, name: str) -> Stands:
    mark, _, data = unpack(queue, entry.kv.value)
    kind = name.partition("-")[0]
    return Stands(entry.created, key[-36:].decode(), kind, mark, data, entry.version - 1, entry.lease)
