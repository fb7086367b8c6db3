"""The model of acts as a Redis for simulated clients: its servers, the way there, and the faults on it."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from recipes._contract.connection import Batch
from recipes._contract.operations import Stored
from recipes._contract.wakeups import Disturbed
from recipes.errors import StoreUnavailable
from recipes.guarantees import STORES
from recipes.stores.redis.bells import INVALIDATE, Bells
from recipes.stores.redis.keys import Keys
from recipes.stores.redis.protocol import RedisProtocol
from recipes.stores.redis.requests import Command, Listen, Run, Sure, Track
from tests.simulation.acts_model import RECEIPT_MS, Acts
from tests.simulation.fates import DOUBLED, Fates
from tests.simulation.moving import Asked, Pipe, Way
from tests.simulation.standing import Stands
from tests.simulation.world import NEVER, Violation, World

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GRACE_S", "KEYS", "Node", "RedisConnection", "RedisStore"]

BROKEN = "the connection broke"
UNSURE = "not all replicas acknowledged it"
GRACE_S = 4.0
"""As long as sessions are: the shortest that may be."""
KEYS = Keys("app:")
BELL = KEYS.bell
REACHED_S = 2.0
"""After how long a server that took over is known to all clients, and has been asked."""
NEWS_S = 1.0
"""As in `recipes.stores.redis.wire`."""
SESSION = KEYS.session("")
KINDS = {kind: 40 + at for at, kind in enumerate((Run, Command, Sure, Track, Listen, Batch))}
IS_HEARD = 0.7
"""How often a caller whose write has gone astray hears that its connection broke; else it waits."""


class Node:
    """One server: what it has, and since when it may grant.

    Attributes:
        graced: It was started or promoted a moment ago: nothing is granted for a while from ``since_us`` on,
            which is when it was first asked.
        log: All that it has done, with the time of each; a replica has done the first ``sure`` of these.
        replicated: Its replica acknowledges what it does.
    """

    def __init__(
        self, store: RedisStore, log: Sequence[tuple[int, Any, int]] = (), *, graced: bool = False
    ) -> None:
        self.store = store
        self.acts = Acts()
        self.graced = graced
        self.since_us = 0
        self.dead = False
        for self.acts.now_us, request, until_us in log:
            self.carry_out(request, until_us)
        self.log = list(log)
        self.sure = len(self.log)
        self.replicated = True
        self.tracking: defaultdict[str, dict[RedisConnection, None]] = defaultdict(dict)
        self.acts.ring = self.ring
        self.acts.changed = self.changed

    def do(self, request: Any, until_us: int | None = None) -> Any:
        """Carry out one request, at a moment of its own."""
        acts = self.acts
        acts.now_us = self.store.tick_us()
        until_us = self.until_us(acts.now_us) if until_us is None else until_us
        self.log.append((acts.now_us, request, until_us))
        return self.carry_out(request, until_us)

    def carry_out(self, request: Any, until_us: int) -> Any:
        if type(request) is Run:
            return self.acts.run(until_us, request.keys, request.words)
        if type(request) is Command:
            return self.acts.command(request.words)
        assert type(request) is Track, f"{request} should be known"
        return self.acts.get(request.key)

    def until_us(self, now_us: int) -> int:
        """Return until when nothing is granted."""
        if not self.graced:
            return 0
        if not self.since_us:
            self.since_us = now_us
        return self.since_us + self.store.grace_us

    def ring(self, channel: str, message: str) -> None:
        connection = self.store.listeners.get(channel.removeprefix(BELL))
        if connection is not None and connection.hears_of is self:
            if self.store.lossy and self.store.world.random() < self.store.lossy:
                return
            connection.hear(b"message", channel.encode(), message.encode())

    def changed(self, key: str) -> None:
        for connection in self.tracking.pop(key, ()):
            if connection.hears_of is self:
                connection.hear(b"message", INVALIDATE, [key.encode()])


class Message:
    """What was sent together on one connection, on its way to the server, and the reply on the way back."""

    __slots__ = (
        "asked",
        "connection",
        "fate",
        "gate",
        "node",
        "parts",
        "priority",
        "replies",
        "reply",
        "request",
    )

    def __init__(self, connection: RedisConnection, asked: Asked, request: Any, fate: str | None) -> None:
        self.connection = connection
        self.node = connection.node
        self.asked = asked
        self.request = request
        self.parts: Sequence[Any] = request.parts if type(request) in (Batch, Sure) else (request,)
        self.replies: list[Any] = []
        self.fate = fate
        self.gate = connection.says
        self.reply: Any = None
        world = connection.world
        self.priority = world.random() if world.pct else 0.0

    def go(self, at: int) -> None:
        """Arrive: part after part there, then here."""
        world = self.connection.world
        if self.gate is self.connection.hears:
            world.drop(at)
            self.asked.answer(0, self.reply)
        elif self.handled() and self.fate == "lost reply":
            world.drop(at)
        if world.pct:
            self.priority = world.random()

    def handled(self) -> bool:
        """Have the server do the next part; whether it was the last."""
        node, store = self.node, self.connection.store
        if node.dead:
            return self.failed(BROKEN)
        part = self.parts[len(self.replies)]
        store.by = self.asked
        if type(part) is Track:
            node.tracking[part.key][self.connection] = None
        self.replies.append(node.do(part))
        store.wrote()
        store.by = None
        if len(self.replies) < len(self.parts):
            return False
        if type(self.request) is Sure:
            if not store.acknowledged(node):
                return self.failed(UNSURE)
            node.sure = len(node.log)
        return self.answered(tuple(self.replies) if self.together else self.replies[0])

    @property
    def together(self) -> bool:
        return type(self.request) in (Batch, Sure)

    def failed(self, said: str) -> bool:
        """Have an error be the answer; of what was sent together it stands for each part."""
        error = StoreUnavailable("model", said)
        return self.answered((error,) * len(self.parts) if self.together else error)

    def answered(self, reply: Any) -> bool:
        self.reply = reply
        self.gate = self.connection.hears
        return True

    def land(self) -> None:
        """Arrive at the server when nobody expects it any more; the reply goes back all the same."""
        while not self.handled():
            continue
        self.connection.world.moving.append(self)


class RedisConnection(Way):
    """The way of one session of one client to a server: requests beside each other, and its bell.

    Attributes:
        node: Where requests go.
        hears_of: The server on which its listener is subscribed; None: on none.
    """

    def __init__(self, store: RedisStore, client: Any) -> None:
        super().__init__(client)
        self.store = store
        self.node = self.hears_of = store.master
        self.down = Pipe(self.world, self.hears, _call)
        self.up = Pipe(self.world, self.says, _call)
        self.here = Pipe(self.world, client.gate, _call)
        self.bells = Bells()
        self.disturbed_at = -NEWS_S
        self.set_gates()

    def send(self, task: Any, request: Any) -> Asked:
        world, store, kind = self.world, self.store, type(request)
        world.requests += 1
        asked = Asked(world, task)
        if self.closed:  # as what had several requests to send may find it
            self.here.push(partial(asked.answer, 0, StoreUnavailable("model", BROKEN)))
            return asked
        if world.trace is not None:
            world.note(task.name, _said(request))
        world.mark(KINDS[kind], task.number)
        if kind is Listen:
            self.bells.listen(request.mailbox, request.refs)
            if world.now - self.disturbed_at < NEWS_S:
                request.mailbox.post(Disturbed())
            self.here.push(partial(asked.answer, 0, None))
            return asked
        if kind is Track:
            self.bells.track(request.mailbox, request.key, request.ref)
        for part in request.parts if kind is Sure else (request,):
            if type(part) is Run and part.mailbox is not None:
                self.bells.listen(part.mailbox, part.refs, afresh=True)
        fate = store.fate() if store.fated and store.strikes(asked, request) else None
        if fate and fate != DOUBLED and asked.write is not None and world.random() < IS_HEARD:
            broken = Message(self, asked, request, None)
            broken.failed(BROKEN)
            world.moving.append(broken)
        store.launch(partial(Message, self, asked, request), fate)
        return asked

    def hear(self, *message: Any) -> None:
        """Have something on its way to the listener."""
        self.down.push(partial(self.bells.hear, message))

    def disturb(self) -> None:
        """The listener's connection broke: what was on its way is lost, and what comes meanwhile."""
        self.down.clear()
        self.up.clear()
        self.hears_of = None  # type: ignore[assignment]
        if not self.closed:
            self.up.push(self.subscribe)

    def subscribe(self) -> None:
        """Be heard by the server where requests go now."""
        self.hears_of = self.node
        self.down.push(self.subscribed)

    def subscribed(self) -> None:
        """The listener is there again."""
        self.disturbed_at = self.world.now
        self.bells.disturb()

    def move(self) -> None:
        """Go to the server that is the master now."""
        self.node = self.store.master
        self.disturb()

    def forget(self, mailbox: Any) -> None:
        self.bells.forget(mailbox)

    def close(self) -> None:
        self.closed = True
        self.disturb()
        self.bells.disturb()


class RedisStore(Fates):
    """A server, its replica, and what can strike them.

    Args:
        world: The schedule.
        rate: The servers' clock against true time.

    Attributes:
        master: The server that new connections go to.
        polls: Strangers are looked for by time, as on a cluster.
        replicas: How many have to acknowledge: then one may take over.
        theirs: What strangers have written to the keys of locks, and until when.
        lost_us: What was granted up to here may have been lost, by the servers' clock.
    """

    name = "redis"
    guarantees = STORES["redis"]
    receipts_last_s = 2 * RECEIPT_MS / 1000
    removes_late = True

    def __init__(self, world: World, *, rate: float = 1.0) -> None:
        super().__init__(world)
        self.rate = rate
        self.grace_us = round(GRACE_S * 1e6)
        kind = world.random()
        self.polls = kind < 0.3
        self.replicas = (
            int(kind * 1_000_000 + 1) % 2
        )  # of the same draw, so that all later ones stay as they were
        self.listeners: dict[str, RedisConnection] = {}
        self.connections: list[RedisConnection] = []
        self.lossy = 0.0
        self.theirs: dict[str, tuple[Any, float]] = {}
        self.sessions = 0
        self.acts_done = self.lost_us = 0
        self._us = 0
        self._seen: dict[tuple[Node, str], tuple[int, list[Stands]]] = {}
        self.master = Node(self)
        world.timers.append(self.next_arrival)
        world.ticks.append(self.tick)

    def protocol(self, client: Any) -> RedisProtocol:
        self.sessions += 1
        session = f"{self.sessions:x}"
        self.listeners[session] = client.connections[-1]
        return RedisProtocol("model", KEYS, session, GRACE_S, polls=self.polls, replicas=self.replicas)

    def connection(self, client: Any, on_end: Any) -> RedisConnection:
        connection = RedisConnection(self, client)
        self.connections.append(connection)
        return connection

    def tick_us(self) -> int:
        """Return what the servers' clock says; no two acts are at the same moment."""
        self._us = max(self._us + 1, int(self.world.now * self.rate * 1e6))
        return self._us

    def wrote(self) -> None:
        """Something was done."""
        self.acts_done += 1
        self.outlived |= self.master.acts.outlived
        for act in self.written:
            act()
        now, keys = self.world.now * self.rate * 1000, self.master.acts.keys
        for key, (value, till) in self.theirs.items():
            if keys.get(key, (value,))[0] != value and till >= now:
                raise Violation(f"K1: {key} was taken from a stranger")

    def restart(self, upto: int) -> None:
        """Have the master start again, with so much of what it has done."""
        old = self.master
        old.dead = True
        self.promote(upto)
        self.master.since_us = self.tick_us()
        for connection in self.connections:
            if connection.node is old:
                connection.move()

    def promote(self, upto: int) -> None:
        """Have a server that has done so much of what the master has be the master."""
        if upto < len(self.master.log):
            self.loses()
        self.master = Node(self, self.master.log[:upto], graced=True)
        self.began_at = self.world.now
        self.grants_from = self.began_at + self.grace_us / self.rate / 1e6 + REACHED_S
        self.wrote()

    def retire(self, old: Node) -> None:
        """Have a server that was master end, and its clients go to the master."""
        old.dead = True
        self.split -= 1
        self.loses()
        for connection in self.connections:
            if connection.node is old:
                connection.move()

    def loses(self) -> None:
        """Note that writes are lost."""
        self.lost_us, self.lost_at = self.tick_us(), self.world.now
        self.theirs.clear()

    def forgets(self, hold: Any) -> bool:
        return hold.entry.token <= self.lost_us or self.split > 0

    def acknowledged(self, node: Node) -> bool:
        """Whether all replicas of a server say that they have what it has done."""
        return node.replicated

    # What strikes it.

    def next_arrival(self) -> float:
        return min((at for at, _ in self.very_late), default=NEVER)

    def tick(self) -> None:
        now = self.world.now
        due = [message for at, message in self.very_late if at <= now]
        if due:
            self.very_late = [entry for entry in self.very_late if entry[0] > now]
            for message in due:
                self.world.note(message.asked.task.name, "arrives very late", _said(message.request))
                message.land()

    def strikes(self, asked: Asked, request: Any) -> bool:
        return super().strikes(asked, request) and (not self.creates_only or _creates(request))

    @property
    def last_comes_at(self) -> float:
        """When the last of what was held back will arrive, whatever can come of it."""
        return max((at for at, _ in self.very_late), default=0.0)

    @property
    def all_has_come_by(self) -> float:
        """When the last of what was held back, and whose client goes on, will have arrived."""
        return max((at for at, message in self.very_late if not message.connection.over), default=0.0)

    def land(self) -> None:
        """Let what is late arrive."""
        late, self.late = self.late, []
        for message in late:
            message.land()

    def ends_renewal(self, world: World) -> bool:
        """Whether what was just sent is a renewal: it is sent together."""
        last = world.moving[-1] if world.moving else None
        return type(last) is Message and type(last.request) is Sure and not last.request.grants

    def end(self, session: str) -> None:
        """End a session, as its expiry does."""
        self.master.do(Command(("DEL", KEYS.session(session)), KEYS.session(session)))

    def expel(self, queue: str, token: int) -> None:
        """Remove a contender by hand."""
        words = ("expel", queue, "operator", BELL, 1000, token)
        done = KEYS.beside(queue, f"x:operator-{self.acts_done}")
        self.master.do(Run((*KEYS.of(queue), done), words))
        self.wrote()

    def foreign(self, what: str, queue: str, value: str = "", *words: Any) -> None:
        """Have a program of others write the key of a lock, or delete it, if it is as given."""
        key, acts = KEYS.base(queue), self.master.acts
        if what == "SET":
            self.master.do(Command(("SET", key, value, *words), key))
            self.theirs[key] = acts.keys[key]
        elif not value or acts.get(key) == value.encode():
            self.master.do(Command(("DEL", key), key))
            self.theirs.pop(key, None)
        self.wrote()

    # What the oracle asks.

    @property
    def version(self) -> int:
        """What changes with every act."""
        return self.acts_done

    def queue(self, name: str) -> Any:
        return self.master.acts.queues.get(KEYS.of(name)[3])

    def standing(self, queue: str, node: Node | None = None) -> list[Stands]:
        """Return all that stand in a queue, in order, a stranger ahead of all."""
        node = self.master if node is None else node
        done, found = self._seen.get((node, queue), (-1, []))
        if done == self.acts_done:
            return found
        key, _, _, known, _ = KEYS.of(queue)
        acts, found = node.acts, []
        there = acts.queues.get(known)
        says, till = acts.keys.get(key, (None, 0.0))
        held = None if there is None else there.held
        if says is not None and says != held and till >= self.world.now * self.rate * 1000:
            found.append(Stands(-1, "stranger", "W"))
        for one in () if there is None else there.standing.values():
            session = int(one.session, 16)
            found.append(Stands(one.token, one.id, one.kind, one.mark, one.data, one.version, session))
        self._seen[node, queue] = self.acts_done, found
        return found

    def has_session(self, session: int) -> bool:
        """Whether a session lasts: here each contender does, by itself."""
        return True

    def owned(self, queue: str) -> list[tuple[int, str]]:
        """Return (session, contender id) of all in a queue whose time is not over."""
        there, now = self.queue(queue), self.world.now * self.rate * 1000
        found = () if there is None else there.standing.values()
        return [(int(one.session, 16), one.id) for one in found if one.till > now]

    def value(self, key: str) -> Stored:
        """Return a value, as it is there."""
        there = self.queue(key)
        return Stored() if there is None else Stored(there.data, there.version)

    def receipts(self, key: str) -> list[int]:
        """Return the session of each receipt of a value."""
        start, now = KEYS.beside(key, "receipt:"), self.world.now * self.rate * 1000
        found = (name for name, (said, till) in self.master.acts.keys.items() if said and till >= now)
        return [int(name.removeprefix(start), 16) for name in found if name.startswith(start)]

    def leftovers(self) -> list[str]:
        """Return what should not be there when every client has closed."""
        acts, now = self.master.acts, self.world.now * self.rate * 1000
        left = [one.id for queue in acts.queues.values() for one in queue.standing.values() if one.till > now]
        return left + [key for key, (_, till) in acts.keys.items() if key.startswith(SESSION) and till >= now]

    def watch_count(self) -> int:
        """Calls that listen, of clients that live."""
        return sum(
            len(connection.bells._waiting.refs())
            for connection in self.connections
            if not connection.client.dead
        )


def _creates(request: Any) -> bool:
    return type(request) is Run and request.words[0] in ("join", "put")


def _said(request: Any) -> str:
    """Return a request in few words."""
    if type(request) is Run:
        return f"{request.words[0]} {' '.join(map(str, request.words[5:]))}"
    if type(request) in (Batch, Sure):
        return f"{type(request).__name__}({', '.join(map(_said, request.parts))})"
    if type(request) is Command:
        return " ".join(map(str, request.words))
    return type(request).__name__


def _call(message: Any) -> None:
    message()
