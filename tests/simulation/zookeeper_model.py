"""A model of a ZooKeeper ensemble: a leader, followers that lag, sessions, one-shot watches.

Writes go to the leader and come back to each server in the order of their zxid; reads
show what the server at hand has applied. Events are delivered before any reply that
shows the newer state. A session is touched by what arrives and by the client library's
pings; servers pass touches on to the leader in batches, and the leader expires sessions
in ticks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from recipes._contract.contents import unpack
from recipes._contract.operations import Stored
from recipes.errors import StoreRefused
from recipes.guarantees import STORES
from recipes.stores.zookeeper.layout import NO_LOCK, Layout
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Check,
    Close,
    Connect,
    Create,
    Delete,
    Multi,
    MultiFailed,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionInfo,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)
from tests.simulation.fates import Fates
from tests.simulation.standing import Stands
from tests.simulation.world import NEVER, World
from tests.simulation.zookeeper_connection import ZooKeeperConnection
from tests.simulation.zookeeper_server import TICK_S, Server, Session, Tentative, Txn

__all__ = ["LAST", "ZooKeeperStore"]

LAYOUT = Layout("app")
LAST = 2**31 - 1


class NotEmpty(ZooKeeperError):
    """The node to be deleted has children."""

    code = -111


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class ZooKeeperStore(Fates):
    """The ensemble as a store for simulated clients, with the faults that can strike it.

    Args:
        world: The schedule.
        rate: The servers' clock against true time.
        counter: Where the sequence numbers of the queue under test begin.
        wraps: At its end the counter turns negative; otherwise it sticks.
    """

    name = "zookeeper"
    guarantees = STORES["zookeeper"]

    def __init__(self, world: World, *, rate: float = 1.0, counter: int = 0, wraps: bool = False) -> None:
        super().__init__(world)
        self.rate = rate
        self.zxid = 0
        self.counters: dict[str, int] = {}
        self.first = counter
        self.wraps = wraps
        self.sessions: dict[int, Session] = {}
        self.connections: list[ZooKeeperConnection] = []
        self.servers = [Server(self, number) for number in range(3)]
        self.leader = self.servers[0]
        self.next_session = 100
        self.phase = world.random() * TICK_S / 2  # of the batches, against the ticks of expiry
        self._seen: dict[str, tuple[int, list[Stands]]] = {}
        self._writes: dict[type, Callable[[Any, Any], Any]] = {
            Create: self._write,
            Delete: self._write,
            SetData: self._write,
            Multi: self._multi,
            Sync: self._sync,
            Close: self._close,
        }
        world.timers.append(self.next_expiry)
        world.ticks.append(self.tick)

    def protocol(self, client: Any) -> ZooKeeperProtocol:
        return ZooKeeperProtocol("model", LAYOUT)

    def connection(self, client: Any, on_end: Any) -> ZooKeeperConnection:
        connection = ZooKeeperConnection(self, client, on_end)
        self.connections.append(connection)
        return connection

    def pick_server(self, seen: int) -> Server:
        fit = [server for server in self.servers if server.applied >= seen and not server.cut_off]
        return fit[int(self.world.random() * len(fit))] if fit else self.leader

    # Writes.

    def commit(self, connection: ZooKeeperConnection, request: Any) -> tuple[Any, int]:
        """Carry out a write at the leader; returns the answer, and from which zxid on it may be told."""
        if type(request) is Connect:
            return self._connect(connection, request), self.zxid
        if connection.session not in self.sessions and type(request) is not Close:
            return SessionExpired(), self.zxid
        if connection.server.number and connection.closed and type(request) is not Close:
            return SessionExpired(), self.zxid
        return self._writes[type(request)](connection, request), self.zxid

    def _txn(self, txns: list[Txn]) -> None:
        self.zxid += 1
        message = self.zxid, txns
        self.leader.apply(message)
        for act in self.written:
            act()
        for server in self.servers[1:]:
            server.behind.push(message)

    def _connect(self, connection: ZooKeeperConnection, request: Connect) -> SessionInfo:
        self.next_session += 1
        connection.session = self.next_session
        self.sessions[connection.session] = Session(request.timeout_s, self.world.now * self.rate)
        self._txn([])  # the session is a transaction too
        return SessionInfo(connection.session, request.timeout_s)

    def _write(self, connection: ZooKeeperConnection, request: Any) -> Any:
        """Carry out a request that writes one node."""
        answer, txn = self._plan(connection, request, self.leader.tree)
        if txn is not None:
            self._txn([txn])
        return answer

    def _multi(self, connection: ZooKeeperConnection, request: Multi) -> Any:
        """Carry out all parts in one transaction, each on what those before it would leave; or none."""
        after, counters = Tentative(self.leader.tree), dict(self.counters)
        answers, txns = [], []
        for number, part in enumerate(request.parts):
            answer, txn = self._plan(connection, part, after)
            if isinstance(answer, Exception):
                self.counters = counters
                return MultiFailed(number, answer) if isinstance(answer, ZooKeeperError) else answer
            answers.append(answer[0] if type(part) is Create else answer)
            if txn is not None:
                txns.append(txn)
                after.apply(self.zxid + 1, txn)
        self._txn(txns)
        return tuple(answers)

    def _plan(self, connection: ZooKeeperConnection, request: Any, tree: Any) -> tuple[Any, Txn | None]:
        """Return the answer to a request as the tree is, and what it changes there."""
        if type(request) is Create:
            return self._create(connection, request, tree)
        node = tree.get(request.path)
        if node is None:
            return NoNode(), None
        if request.version not in (-1, node.stat.version):
            return BadVersion(), None
        if type(request) is SetData:
            stat = Stat(node.stat.czxid, node.owner, node.stat.version + 1)
            return stat, ("set", request.path, request.data)
        return (None, None) if type(request) is Check else self._delete(request, node)

    def _delete(self, request: Delete, node: Any) -> tuple[Any, Txn | None]:
        if node.children:
            return NotEmpty(), None
        self.counters[request.path] = 0
        return None, ("delete", request.path, None)

    def _create(self, connection: ZooKeeperConnection, request: Create, tree: Any) -> tuple[Any, Txn | None]:
        parent = _parent(request.path)
        above = tree.get(parent)
        if above is None:
            return NoNode(), None
        path = request.path
        if request.sequence:
            path = f"{path}{self.counters.setdefault(parent, self.first):010d}"
        if tree.get(path) is not None:
            return NodeExists(), None
        if above.owner:
            return StoreRefused("model", "the parent is an ephemeral node"), None
        self._count(parent)
        owner = connection.session if request.ephemeral else 0
        return (path, Stat(self.zxid + 1, owner, 0)), ("create", path, (request.data, owner))

    def _count(self, parent: str) -> None:
        """Count a child that is made, whether it asked for its number or not."""
        number = self.counters.setdefault(parent, self.first)
        last = -(2**31) if self.wraps else LAST
        self.counters[parent] = number + 1 if number < LAST else last

    def _sync(self, connection: ZooKeeperConnection, request: Sync) -> None:
        return None

    def _close(self, connection: ZooKeeperConnection, request: Close) -> None:
        self.end(connection.session)

    def end(self, session: int) -> None:
        """End a session and delete what it owned, in one transaction."""
        if self.sessions.pop(session, None) is None:
            return
        owned = [path for path, node in self.leader.tree.items() if node.owner == session]
        self._txn([*(("delete", path, None) for path in owned), ("end", "", session)])

    def delete(self, path: str) -> None:
        """Delete a node, as an operator would."""
        if path in self.leader.tree:
            self._txn([("delete", path, None)])
            self.counters[path] = 0

    def put(self, path: str) -> None:
        """Make a node of nobody's."""
        if path not in self.leader.tree and _parent(path) in self.leader.tree:
            self._count(_parent(path))
            self._txn([("create", path, (b"", 0))])

    # Sessions.

    def touch(self, session: int, server: Server) -> None:
        known = self.sessions.get(session)
        if known is not None:
            now = self.world.now * self.rate
            self._pass_on(known, server, now)  # a batch that was held back comes before what follows it
            known.touched_at = now

    def next_expiry(self) -> float:
        soonest = NEVER
        for session in self.sessions.values():
            ends_at = session.ends_at()
            soonest = min(soonest, ends_at)
        return soonest / self.rate

    def tick(self) -> None:
        """Pings and batches of touches up to now; then expire what is due."""
        now = self.world.now * self.rate
        sessions = self.sessions
        for connection in self.connections:
            session = sessions.get(connection.session)
            if session is None:
                continue
            self._pass_on(session, connection.server, now)
            if connection.healthy and not connection.client.paused:
                ping = math.floor(now * 3 / session.timeout_s) * session.timeout_s / 3
                if ping > session.touched_at:
                    session.touched_at = ping
                    self._pass_on(session, connection.server, now)
        due = [number for number, session in sessions.items() if session.ends_at() <= now + 1e-9]
        for number in due:
            self.end(number)

    def ends_renewal(self, world: World) -> bool:
        """Whether what was just sent is the end of a renewal: all of it is sent together."""
        return True

    def _pass_on(self, session: Session, server: Server, now: float) -> None:
        """Tell the leader of the last touch; a follower does so with its next batch."""
        if server is self.leader:
            heard = session.touched_at
        elif server.gate.open:
            every = TICK_S / 2
            heard = math.ceil((session.touched_at - self.phase) / every) * every + self.phase
        else:
            return
        if session.passed_on < heard <= now:
            session.passed_on = heard

    @property
    def version(self) -> int:
        """What changes with every write."""
        return self.zxid

    # What the oracle asks.

    def standing(self, queue: str) -> list[Stands]:
        zxid, found = self._seen.get(queue, (-1, []))
        if zxid != self.zxid:
            parent = LAYOUT.queue(queue)
            tree = self.leader.tree
            node = tree.get(parent)
            names = () if node is None else contenders_of(node)
            found = sorted(_stands(queue, name, tree[f"{parent}/{name}"]) for name in names)
            self._seen[queue] = (self.zxid, found)
        return found

    def has_session(self, session: int) -> bool:
        """Whether a session lasts."""
        return session in self.sessions

    def owned(self, queue: str) -> list[tuple[int, str]]:
        parent, tree = LAYOUT.queue(queue), self.leader.tree
        node = tree.get(parent)
        names = () if node is None else contenders_of(node)
        return [(tree[f"{parent}/{name}"].owner, name[3:39]) for name in names]

    def value(self, key: str) -> Stored:
        """Return a value, as it is there."""
        node = self.leader.tree.get(LAYOUT.queue(key))
        if node is None or node.data is None or (node.data, node.stat.version) == (b"", 0):
            return Stored()
        return Stored(node.data, node.stat.czxid << 32 | node.stat.version)

    def receipts(self, key: str) -> list[int]:
        """Return the session of each receipt of a value; its client's next session may have made it."""
        parent, tree = LAYOUT.queue(key), self.leader.tree
        names = tree[parent].children if parent in tree else ()
        return [int(name.removeprefix(NO_LOCK), 16) for name in names if name.startswith(NO_LOCK)]

    def leftovers(self) -> list[str]:
        return [path for path, node in self.leader.tree.items() if node.owner]

    def watch_count(self) -> int:
        """Watches of mailboxes; those left with a server for a node that is gone do not count."""
        connections = [connection for connection in self.connections if not connection.client.dead]
        return sum(
            len(mailboxes) for connection in connections for mailboxes in connection.mailboxes.values()
        )


def contenders_of(node: Any) -> list[str]:
    """Return the names of the children that are no receipts."""
    return [name for name in node.children if not name.startswith(NO_LOCK)]


def _stands(queue: str, name: str, node: Any) -> Stands:
    mark, _, data = unpack(queue, node.data)
    kind = name[40:].partition("-")[0]
    return Stands(node.stat.czxid, name[3:39], kind, mark, data, node.stat.version, node.owner)
