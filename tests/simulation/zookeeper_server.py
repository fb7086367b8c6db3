"""One server of the modelled ensemble: its tree, its sessions' watches, and its way to the leader."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from recipes._contract.wakeups import Changed, Gone
from recipes.stores.zookeeper.requests import Children, Exists, NoNode, Stat
from tests.simulation.moving import Gate, Pipe

if TYPE_CHECKING:
    from tests.simulation.zookeeper_connection import Part, ZooKeeperConnection
    from tests.simulation.zookeeper_model import ZooKeeperStore

__all__ = ["TICK_S", "Node", "Server", "Session", "Tentative", "Txn"]

TICK_S = 2.0


class Node:
    """A node of the tree; its stat is made anew when it changes."""

    __slots__ = ("children", "data", "listed", "owner", "stat")

    def __init__(self, data: bytes | None, czxid: int, owner: int) -> None:
        self.data = data
        self.owner = owner
        self.stat = Stat(czxid, owner, 0)
        self.children: set[str] = set()
        self.listed: tuple[str, ...] | None = ()


class Session:
    """A session, as the server of its client knows it, and as the leader does."""

    __slots__ = ("passed_on", "timeout_s", "touched_at")

    def __init__(self, timeout_s: float, now: float) -> None:
        self.timeout_s = timeout_s
        self.touched_at = now
        self.passed_on = now

    def ends_at(self) -> float:
        return (math.floor((self.passed_on + self.timeout_s) / TICK_S) + 1) * TICK_S


Txn = tuple[str, str, Any]


class Tentative:
    """The nodes as they would be after the first parts of a multi."""

    def __init__(self, tree: dict[str, Node]) -> None:
        self._tree = tree
        self._changed: dict[str, Node | None] = {}

    def get(self, path: str) -> Node | None:
        """Return a node; None if there would be none."""
        return self._changed[path] if path in self._changed else self._tree.get(path)

    def apply(self, zxid: int, txn: Txn) -> None:
        """Do a part."""
        kind, path, value = txn
        parent, _, name = path.rpartition("/")
        if kind == "create":
            self._changed[path] = Node(value[0], zxid, value[1])
            self._own(parent or "/").children.add(name)
        elif kind == "delete":
            self._changed[path] = None
            self._own(parent or "/").children.discard(name)
        else:
            node = self._own(path)
            node.stat = Stat(node.stat.czxid, node.owner, node.stat.version + 1)

    def _own(self, path: str) -> Node:
        """Return a node to be changed, which is no longer that of the tree."""
        before = self.get(path)
        assert before is not None, f"{path} should be there"
        node = self._changed[path] = Node(before.data, before.stat.czxid, before.owner)
        node.stat, node.children = before.stat, set(before.children)
        return node


class Server:
    """One server's tree, and the watches that its clients left with it."""

    def __init__(self, store: ZooKeeperStore, number: int) -> None:
        self.store = store
        self.number = number
        self.tree: dict[str, Node] = {"/": Node(b"", 0, 0)}
        self.applied = 0
        self.watches: dict[str, list[ZooKeeperConnection]] = {}
        self.child_watches: dict[str, list[ZooKeeperConnection]] = {}
        self.gate = Gate()
        self.behind = Pipe(store.world, self.gate, self.apply)
        self.ahead = Pipe(store.world, self.gate, self._commit)
        self.waiting: list[tuple[int, Callable[[], None]]] = []

    @property
    def cut_off(self) -> bool:
        """Whether it has lost the leader."""
        return not self.gate.open

    def set_cut_off(self, cut_off: bool) -> None:
        self.gate.open = not cut_off

    def apply(self, message: tuple[int, list[Txn]]) -> None:
        """Apply what was committed under one zxid, tell the watchers, then let replies out."""
        zxid, txns = message
        tree = self.tree
        for kind, path, value in txns:
            if kind == "create":
                data, owner = value
                tree[path] = Node(data, zxid, owner)
                parent, _, name = path.rpartition("/")
                above = tree[parent or "/"]
                above.children.add(name)
                above.listed = None
                self._tell(Changed(path), self.watches)
                self._tell(Changed(parent or "/"), self.child_watches)
            elif kind == "delete":
                del tree[path]
                parent, _, name = path.rpartition("/")
                above = tree[parent or "/"]
                above.children.discard(name)
                above.listed = None
                self._tell(Gone(path), self.watches, self.child_watches)
                self._tell(Changed(parent or "/"), self.child_watches)
            elif kind == "set":
                node = tree[path]
                node.data = value
                node.stat = Stat(node.stat.czxid, node.owner, node.stat.version + 1)
                self._tell(Changed(path), self.watches)
            else:  # the end of a session
                for connection in self.store.connections:
                    if connection.server is self and connection.session == value:
                        connection.down.push(connection.expired)
        self.applied = zxid
        if self.waiting:
            ready = [act for at, act in self.waiting if at <= zxid]
            self.waiting = [entry for entry in self.waiting if entry[0] > zxid]
            for act in ready:
                act()

    def _tell(self, event: Changed | Gone, *kinds: dict[str, list[ZooKeeperConnection]]) -> None:
        """Send an event to each session that watches, once; that ends those watches."""
        told = [connection for watches in kinds for connection in watches.pop(event.ref, ())]
        for connection in dict.fromkeys(told):
            connection.tell(event.ref, event)

    def read(self, connection: ZooKeeperConnection, request: Any) -> Any:
        """Answer a read with what this server has applied, and leave a watch if one is wanted."""
        node = self.tree.get(request.path)
        kind = type(request)
        if node is None and kind is not Exists:
            return NoNode()
        if request.mailbox is not None:
            watches = self.child_watches if kind is Children else self.watches
            watching = watches.setdefault(request.path, [])
            if connection not in watching:
                watching.append(connection)
        if node is None:
            return None
        if kind is Exists:
            return node.stat
        if kind is Children:
            if node.listed is None:
                node.listed = tuple(sorted(node.children))
            return node.listed
        return node.data, node.stat

    # Writes go by way of the leader.

    def forward(self, connection: ZooKeeperConnection, part: Part) -> None:
        self.ahead.push((connection, part, connection.moves))

    def _commit(self, message: tuple[ZooKeeperConnection, Part, int]) -> None:
        connection, part, moves = message
        if connection.moves != moves:
            return  # the session has moved (and maybe back): the leader refuses what comes from where it was
        self.store.by = part.asked
        part.answer, part.zxid = self.store.commit(connection, part.request)
        self.store.by = None
        if self.applied >= part.zxid:
            self._done(connection, part)
        else:
            self.waiting.append((part.zxid, partial(self._done, connection, part)))

    def _done(self, connection: ZooKeeperConnection, part: Part) -> None:
        if connection.server is self:
            connection.busy = False
            connection.reply(part, part.answer, part.zxid)
            connection.work()
