"""A model of a ZooKeeper ensemble: a leader, followers that lag, sessions, one-shot watches.

Writes go to the leader and come back to each server in the order of their zxid; reads
show what the server at hand has applied. Events are delivered before any reply that
shows the newer state. A session is touched by what arrives and by the client library's
pings; servers pass touches on to the leader in batches, and the leader expires sessions
in ticks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recipes.errors import StoreRefused, StoreUnavailable
from recipes.stores.base import Batch, Changed, Disturbed, Gone
from recipes.stores.zookeeper.layout import Layout
from recipes.stores.zookeeper.protocol import ZooKeeperProtocol
from recipes.stores.zookeeper.requests import (
    BadVersion,
    Children,
    Close,
    Connect,
    Create,
    Delete,
    Exists,
    Get,
    NodeExists,
    NoNode,
    SessionExpired,
    SessionInfo,
    SetData,
    Stat,
    Sync,
    ZooKeeperError,
)
from tests.simulation.world import Asked, Pipe, World

__all__ = ["ZooKeeperLink", "ZooKeeperStore"]

TICK_S = 2.0
LAYOUT = Layout("app")
LAST = 2**31 - 1
BROKEN = "the connection broke"


class NotEmpty(ZooKeeperError):
    """The node to be deleted has children."""

    code = -111


@dataclass(slots=True, eq=False)
class Node:
    data: bytes
    czxid: int
    owner: int
    version: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(self.czxid, self.owner, self.version)


@dataclass(slots=True)
class Session:
    timeout_s: float
    touched_at: float  # as the server of the client knows
    passed_on: float  # as the leader knows


Txn = tuple[str, str, Any]


class Server:
    """One server's tree, and the watches that its clients left with it."""

    def __init__(self, store: ZooKeeperStore, number: int) -> None:
        self.store = store
        self.number = number
        self.tree: dict[str, Node] = {"/": Node(b"", 0, 0)}
        self.applied = 0
        self.watches: dict[str, list[ZooKeeperLink]] = {}
        self.behind = Pipe(store.world, self._hears_leader)
        self.ahead = Pipe(store.world, self._hears_leader)
        self.waiting: list[tuple[int, Callable[[], None]]] = []
        self.cut_off = False

    def _hears_leader(self) -> bool:
        return not self.cut_off

    def apply(self, zxid: int, txns: list[Txn]) -> None:
        """Apply what was committed under one zxid, tell the watchers, then let replies out."""
        for kind, path, value in txns:
            if kind == "create":
                data, owner = value
                self.tree[path] = Node(data, zxid, owner)
                self.tree[_parent(path)].children.add(path.rpartition("/")[2])
            elif kind == "delete":
                del self.tree[path]
                self.tree[_parent(path)].children.discard(path.rpartition("/")[2])
                self._tell(path, Gone(path))
            elif kind == "set":
                node = self.tree[path]
                node.data, node.version = value, node.version + 1
                self._tell(path, Changed(path))
            else:  # the end of a session
                for link in self.store.links:
                    if link.server is self and link.session == value:
                        link.down.push(link.expired)
        self.applied = zxid
        if self.waiting:
            ready = [act for at, act in self.waiting if at <= zxid]
            self.waiting = [entry for entry in self.waiting if entry[0] > zxid]
            for act in ready:
                act()

    def when(self, zxid: int, act: Callable[[], None]) -> None:
        if self.applied >= zxid:
            act()
        else:
            self.waiting.append((zxid, act))

    def _tell(self, path: str, event: Any) -> None:
        for link in self.watches.pop(path, ()):
            link.tell(path, event)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _disturb(told: dict[str, list[Any]]) -> None:
    """Tell everyone once, however many nodes he watches."""
    for mailbox in {id(one): one for mailboxes in told.values() for one in mailboxes}.values():
        mailbox.post(Disturbed())


class ZooKeeperLink:
    """One session of one client: what kazoo and its connection are to the package."""

    def __init__(self, store: ZooKeeperStore, client: Any, on_end: Any) -> None:
        self.store = store
        self.client = client
        self.world: World = client.world
        self.on_end = on_end
        self.server: Server = store.pick_server(0)
        self.session = 0
        self.connected = True
        self.cut = self.half_cut = False
        self.over = False
        self.closed = False
        self.up = Pipe(self.world, self._can_say)
        self.down = Pipe(self.world, self._can_hear)
        self.dial = Pipe(self.world, self._can_dial)
        self.queue: deque[tuple[Asked, int, Any]] = deque()
        self.busy = False
        self.outstanding: list[tuple[Asked, int]] = []
        self.mailboxes: dict[str, list[Any]] = {}
        self.seen = 0

    def _can_say(self) -> bool:
        return self.connected and not self.cut and not self.client.paused

    def _can_hear(self) -> bool:
        return not (self.cut or self.half_cut or self.client.paused)

    def _can_dial(self) -> bool:
        return not (self.cut or self.client.paused)

    @property
    def healthy(self) -> bool:
        return self.connected and not (self.cut or self.over or self.closed)

    # The client's side.

    def send(self, task: Any, request: Any) -> Asked:
        world = self.world
        single = type(request) is not Batch
        parts = (request,) if single else request.parts
        asked = Asked(world, task, [None] * len(parts), len(parts), single)
        for position, part in enumerate(parts):
            world.requests += 1
            world.note(task.name, type(part).__name__, getattr(part, "path", ""))
            if self.over or (self.closed and type(part) is not Close):
                self.dial.push(self._refuse(asked, position, part))
                continue
            self.outstanding.append((asked, position))
            if type(part) is Get and part.mailbox is not None:
                self._drop_mailbox(part)
                self.mailboxes.setdefault(part.path, []).append(part.mailbox)
            elif type(part) is Close:
                self._end()
            self.up.push(self._arrival(asked, position, part))
        return asked

    def _refuse(self, asked: Asked, position: int, part: Any) -> Callable[[], None]:
        return lambda: asked.answer(position, None if type(part) is Close else SessionExpired())

    def _end(self) -> None:
        """Take no more requests, and tell whoever watches: the session is being closed from here."""
        self.over = True
        told, self.mailboxes = self.mailboxes, {}
        _disturb(told)

    def _drop_mailbox(self, part: Get) -> None:
        """Have no mailbox of this request, to add it anew or because nothing is watched."""
        kept = [other for other in self.mailboxes.get(part.path, ()) if other is not part.mailbox]
        if kept:
            self.mailboxes[part.path] = kept
        else:
            self.mailboxes.pop(part.path, None)

    def _arrival(self, asked: Asked, position: int, part: Any) -> Callable[[], None]:
        fate = self.store.fate()

        def arrive() -> None:
            if fate == "lost request":
                self.break_()
                return
            self.queue.append((asked, position, (part, fate)))
            self._work()

        return arrive

    def reply(
        self, asked: Asked, position: int, part: Any, answer: Any, *, zxid: int, fate: str | None
    ) -> None:
        """Send a reply on its way back."""
        if fate == "lost reply":
            self.break_()
            return
        if not self.connected:
            return

        def arrive() -> None:
            if (asked, position) in self.outstanding:
                self.outstanding.remove((asked, position))
            self.seen = max(self.seen, zxid)
            if type(part) is Get and type(answer) is NoNode:
                self._drop_mailbox(part)
            asked.answer(position, answer)

        self.down.push(arrive)

    def tell(self, path: str, event: Any) -> None:
        """Send a watch event on its way: one a session, for whoever watches when it comes."""

        def arrive() -> None:
            for mailbox in self.mailboxes.pop(path, ()):
                mailbox.post(event)

        if self.connected:
            self.down.push(arrive)

    def break_(self) -> None:
        """The connection breaks: what is under way is lost, watches are dropped, kazoo dials again."""
        if not self.connected:
            return
        self.connected = False
        self.up.clear()
        self.down.clear()
        self.queue.clear()
        self.busy = False
        self._drop_watches()
        failed, self.outstanding = self.outstanding, []
        if not (self.over or self.closed):
            self.dial.push(self.reconnect)
        told, self.mailboxes = self.mailboxes, {}
        for asked, position in failed:
            asked.answer(position, StoreUnavailable("model", BROKEN))
        _disturb(told)

    def _drop_watches(self) -> None:
        for path, watching in list(self.server.watches.items()):
            left = [link for link in watching if link is not self]
            if left:
                self.server.watches[path] = left
            else:
                del self.server.watches[path]

    def reconnect(self) -> None:
        """Attach to a server that is not behind what was seen; the session goes on, or is over."""
        if self.over or self.closed or self.connected:
            return
        self.server = self.store.pick_server(self.seen)
        self.connected = True
        if self.session and self.session not in self.store.sessions:
            self.expired()
        elif self.session:
            self.store.touch(self.session)

    def expired(self) -> None:
        """The server says that the session is over."""
        if self.over:
            return
        self.over = True
        self.up.clear()
        failed, self.outstanding = self.outstanding, []
        self._drop_watches()
        told, self.mailboxes = self.mailboxes, {}
        self.on_end("the session has expired")
        for asked, position in failed:
            asked.answer(position, SessionExpired())
        _disturb(told)

    def forget(self, mailbox: Any) -> None:
        for path, mailboxes in list(self.mailboxes.items()):
            kept = [other for other in mailboxes if other is not mailbox]
            if kept:
                self.mailboxes[path] = kept
            else:
                del self.mailboxes[path]

    def close(self) -> None:
        self.closed = True
        self.mailboxes.clear()
        self.break_()

    # The server's side.

    def _work(self) -> None:
        """Serve this session's requests one after the other."""
        while self.queue and not self.busy:
            asked, position, (part, fate) = self.queue.popleft()
            self.store.touch(self.session)
            if type(part) in (Children, Get, Exists):
                self.reply(asked, position, part, self._read(part), zxid=self.server.applied, fate=fate)
            else:
                self.busy = True
                self._forward(asked, position, part, fate)

    def _forward(self, asked: Asked, position: int, part: Any, fate: str | None) -> None:
        server = self.server

        def commit() -> None:
            if self.server is not server:
                return  # the session has moved: the leader refuses what comes from where it was
            answer, zxid = self.store.commit(self, part)
            server.when(zxid, lambda: done(answer, zxid))

        def done(answer: Any, zxid: int) -> None:
            if self.server is server:
                self.busy = False
                self.reply(asked, position, part, answer, zxid=zxid, fate=fate)
                self._work()

        server.ahead.push(commit)

    def _read(self, part: Any) -> Any:
        node = self.server.tree.get(part.path)
        if type(part) is Exists:
            return None if node is None else node.stat()
        if node is None:
            return NoNode()
        if type(part) is Children:
            return tuple(sorted(node.children))
        if part.mailbox is not None:
            watching = self.server.watches.setdefault(part.path, [])
            if self not in watching:
                watching.append(self)
        return node.data, node.stat()


class ZooKeeperStore:
    """The ensemble as a store for simulated clients, with the faults that can strike it.

    Args:
        world: The schedule.
        rate: The servers' clock against true time.
        counter: Where the sequence numbers of the queue under test begin.
        wraps: At its end the counter turns negative; otherwise it sticks.
    """

    name = "zookeeper"

    def __init__(self, world: World, *, rate: float = 1.0, counter: int = 0, wraps: bool = False) -> None:
        self.world = world
        self.rate = rate
        self.zxid = 0
        self.counters: dict[str, int] = {}
        self.first = counter
        self.wraps = wraps
        self.sessions: dict[int, Session] = {}
        self.links: list[ZooKeeperLink] = []
        self.servers = [Server(self, number) for number in range(3)]
        self.leader = self.servers[0]
        self.fated: str | None = None
        self.plan: dict[int, str] = {}
        self.next_session = 100
        self.phase = world.random() * TICK_S / 2  # of the batches, against the ticks of expiry
        self._seen: tuple[int, list[tuple[int, str]]] = (-1, [])
        world.timers.append(self.next_expiry)
        world.ticks.append(self.tick)

    def protocol(self, client: Any) -> ZooKeeperProtocol:
        return ZooKeeperProtocol("model", LAYOUT)

    def link(self, client: Any, on_end: Any) -> ZooKeeperLink:
        link = ZooKeeperLink(self, client, on_end)
        self.links.append(link)
        return link

    def pick_server(self, seen: int) -> Server:
        fit = [server for server in self.servers if server.applied >= seen and not server.cut_off]
        return fit[int(self.world.random() * len(fit))] if fit else self.leader

    def fate(self) -> str | None:
        if self.plan:
            return self.plan.pop(self.world.requests, None)
        fated, self.fated = self.fated, None
        return fated

    # Writes.

    def commit(self, link: ZooKeeperLink, request: Any) -> tuple[Any, int]:
        """Carry out a write at the leader; returns the answer, and from which zxid on it may be told."""
        if type(request) is Connect:
            return self._connect(link, request), self.zxid
        if link.session not in self.sessions and type(request) is not Close:
            return SessionExpired(), self.zxid
        if link.server.number and link.closed and type(request) is not Close:
            return SessionExpired(), self.zxid
        return getattr(self, f"_{type(request).__name__.lower()}")(link, request), self.zxid

    def _txn(self, txns: list[Txn]) -> None:
        self.zxid += 1
        zxid = self.zxid
        self.leader.apply(zxid, txns)
        for server in self.servers[1:]:
            server.behind.push(lambda server=server: server.apply(zxid, txns))  # type: ignore[misc]

    def _connect(self, link: ZooKeeperLink, request: Connect) -> SessionInfo:
        self.next_session += 1
        link.session = self.next_session
        now = self.world.now * self.rate
        self.sessions[link.session] = Session(request.timeout_s, now, now)
        self.zxid += 1  # the session is a transaction too
        zxid = self.zxid
        self.leader.apply(zxid, [])
        for server in self.servers[1:]:
            server.behind.push(lambda server=server: server.apply(zxid, []))  # type: ignore[misc]
        return SessionInfo(link.session, request.timeout_s)

    def _create(self, link: ZooKeeperLink, request: Create) -> Any:
        tree = self.leader.tree
        parent = _parent(request.path)
        if parent not in tree:
            return NoNode()
        path = request.path
        if request.sequence:
            path = f"{path}{self.counters.setdefault(parent, self.first):010d}"
        if path in tree:
            return NodeExists()
        if tree[parent].owner:
            return StoreRefused("model", "the parent is an ephemeral node")
        self._count(parent)
        owner = link.session if request.ephemeral else 0
        self._txn([("create", path, (request.data, owner))])
        return path, tree[path].stat()

    def _count(self, parent: str) -> None:
        """Count a child that is made, whether it asked for its number or not."""
        number = self.counters.setdefault(parent, self.first)
        last = -(2**31) if self.wraps else LAST
        self.counters[parent] = number + 1 if number < LAST else last

    def _delete(self, link: ZooKeeperLink, request: Delete) -> Any:
        node = self.leader.tree.get(request.path)
        if node is None:
            return NoNode()
        if request.version not in (-1, node.version):
            return BadVersion()
        if node.children:
            return NotEmpty()
        self.delete(request.path)
        return None

    def _setdata(self, link: ZooKeeperLink, request: SetData) -> Any:
        node = self.leader.tree.get(request.path)
        if node is None:
            return NoNode()
        if request.version not in (-1, node.version):
            return BadVersion()
        self._txn([("set", request.path, request.data)])
        return node.stat()

    def _sync(self, link: ZooKeeperLink, request: Sync) -> None:
        return None

    def _close(self, link: ZooKeeperLink, request: Close) -> None:
        self.end(link.session)

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

    def touch(self, session: int) -> None:
        known = self.sessions.get(session)
        if known is not None:
            known.touched_at = self.world.now * self.rate

    def next_expiry(self) -> float | None:
        if not self.sessions:
            return None
        return min(self._ends_at(session) for session in self.sessions.values()) / self.rate

    def _ends_at(self, session: Session) -> float:
        return (math.floor((session.passed_on + session.timeout_s) / TICK_S) + 1) * TICK_S

    def tick(self) -> None:
        """Pings and batches of touches up to now; then expire what is due."""
        now = self.world.now * self.rate
        every = TICK_S / 2
        batch = math.floor((now - self.phase) / every) * every + self.phase
        for link in self.links:
            session = self.sessions.get(link.session)
            if session is None:
                continue
            if link.healthy and not link.client.paused:
                ping = math.floor(now * 3 / session.timeout_s) * session.timeout_s / 3
                session.touched_at = max(session.touched_at, ping)
            if link.server is self.leader:
                session.passed_on = max(session.passed_on, session.touched_at)
            elif not link.server.cut_off and batch - every < session.touched_at <= batch:
                session.passed_on = max(session.passed_on, batch)  # as of when the leader heard
        for session_id, session in list(self.sessions.items()):
            if self._ends_at(session) <= now + 1e-9:
                self.end(session_id)

    # What the oracle asks.

    def standing(self, queue: str) -> list[tuple[int, str]]:
        if self._seen[0] != self.zxid:
            parent = LAYOUT.queue(queue)
            tree = self.leader.tree
            node = tree.get(parent)
            names = () if node is None else node.children
            found = sorted((tree[f"{parent}/{name}"].czxid, name[3:39]) for name in names)
            self._seen = (self.zxid, found)
        return self._seen[1]

    def leftovers(self) -> list[str]:
        return [path for path, node in self.leader.tree.items() if node.owner]

    def watch_count(self) -> int:
        """Watches of mailboxes; those left with a server for a node that is gone do not count."""
        links = [link for link in self.links if not link.client.dead]
        return sum(len(mailboxes) for link in links for mailboxes in link.mailboxes.values())
