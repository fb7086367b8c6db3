"""The models, with what the exhaustive search asks of them.

What is *alone* is something that a client hears while nothing else can reach it before: no other
client and no server can tell whether it hears of it now or later, so all orders but one are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from recipes.errors import StoreUnavailable
from tests.simulation.etcd_store import EtcdStore, Unary, Watching
from tests.simulation.exploring import label, pausing
from tests.simulation.moving import Pipe, Task
from tests.simulation.world import World
from tests.simulation.zookeeper_link import BROKEN, Part
from tests.simulation.zookeeper_model import ZooKeeperStore
from tests.simulation.zookeeper_server import Server

__all__ = ["STORES", "ExploredEtcd", "ExploredZooKeeper"]


class ExploredEtcd(EtcdStore):
    """The model of etcd."""

    def vary(self, choose: Any) -> None:
        """Have what counts as a short queue be chosen: none, or each; the programs differ."""
        self.sorted_soon = (0, 100)[choose([("none is short", None), ("each is short", None)])]
        for client in self.world.clients:
            client.runtime.board.epoch.protocol.sorted_soon = self.sorted_soon

    def at_once(self, one: Any) -> bool:
        """Whether something goes on at once: who was told, and what the keepers ask."""
        if type(one) is Unary:
            return one.asked.task is one.link.client.runtime.keeper
        return type(one) is Task

    def is_alone(self, one: Any) -> bool:
        """Whether a client hears something, and nothing else can reach it before."""
        if type(one) is Unary:
            link = one.link
            return one.reply is not None and not link.booked and not self._moves(link.client, one)
        link = self._stream_of(one)
        return link is not None and link.down is one and not self._moves(link.client, one)

    def _stream_of(self, one: Any) -> Any:
        return next((link for link in self.links if one is link.up or one is link.down), None)

    def _moves(self, client: Any, but: Any) -> bool:
        """Whether anything of a client is under way, but for this."""
        others = (self._owner(one) for one in self.world.moving if one is not but)
        if any(owner is None or owner is client for owner in others):
            return True
        return any(task.client is client and pausing(task) for task in self.world.tasks)

    def _owner(self, one: Any) -> Any:
        if type(one) is Unary:
            return one.link.client
        if type(one) is Pipe:
            link = self._stream_of(one)
            return None if link is None else link.client
        return one.client if type(one) is Task else one.task.client

    def is_message(self, one: Any) -> bool:
        """Whether it can get lost: a call on its way, a reply, or all that a stream carries."""
        return type(one) is Unary or (type(one) is Pipe and type(one.messages[0]) in (Watching, partial))

    def lose(self, one: Any) -> None:
        """Have its connection break; whoever waits for it is told."""
        if type(one) is Unary:
            self.world.drop(self.world.moving.index(one))
            one.asked.answer(one.position, StoreUnavailable("model", BROKEN))
            return
        link = self._stream_of(one)
        if link is not None:
            link.disturb()

    def lives(self, client: Any) -> bool:
        """Whether it has a session that could end."""
        epoch = client.runtime.board.epoch
        return epoch is not None and bool(epoch.id) and int(epoch.id, 16) in self.server.leases

    def expire_session(self, client: Any) -> None:
        """End its session."""
        self.server.revoke(int(client.runtime.board.epoch.id, 16))

    def state(self) -> Any:
        """Return all that decides what it will do, but for what is on its way."""
        server = self.server
        keys = [
            (key, entry.created, entry.version, entry.lease, entry.kv.get("value"))
            for key, entry in server.keys.items()
        ]
        watches = [(watch.link.client.number, watch.key, watch.changes) for watch in server.watches]
        return (
            self.sorted_soon,
            server.revision,
            tuple(sorted(keys)),
            tuple((number, lease.ends_at) for number, lease in server.leases.items()),
            tuple(server.revoked),
            tuple(sorted(watches)),
            tuple(tuple(map(label, link.booked)) for link in self.links),
        )


class ExploredZooKeeper(ZooKeeperStore):
    """The model of ZooKeeper; each client begins on a server of its own, and the queue's node is there."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.picked = 0
        self.put("/app")
        self.put("/app/q")

    def vary(self, choose: Any) -> None:
        """Have nothing chosen: there is one way."""

    def pick_server(self, seen: int) -> Server:
        fit = [server for server in self.servers if server.applied >= seen] or [self.leader]
        self.picked += 1
        return fit[(self.picked - 1) % len(fit)]

    def at_once(self, one: Any) -> bool:
        """Whether something goes on at once: who was told, what goes on to the leader, dialling, keepers."""
        if type(one) is not Pipe:
            return type(one) is Task
        takes = one.arrive.__name__
        if takes in ("_commit", "_call"):
            return True
        if takes == "apply":  # nobody reads there
            server = one.arrive.__self__
            return not any(link.server is server and not link.closed for link in self.links)
        message = one.messages[0]
        return type(message) is Part and message.asked.task is message.asked.task.client.runtime.keeper

    def is_alone(self, one: Any) -> bool:
        """Whether a client hears something: all that it hears comes in order."""
        return type(one) is Pipe and one.arrive.__name__ == "_heard"

    def is_message(self, one: Any) -> bool:
        """Whether it can get lost: a request or a reply, with the connection."""
        return type(one) is Pipe and type(one.messages[0]) is Part

    def lose(self, one: Any) -> None:
        """Have its connection break, with all that is on it."""
        one.arrive.__self__.break_()

    def lives(self, client: Any) -> bool:
        """Whether it has a session that could end."""
        epoch = client.runtime.board.epoch
        return epoch is not None and epoch.link.session in self.sessions

    def expire_session(self, client: Any) -> None:
        """End its session."""
        self.end(client.runtime.board.epoch.link.session)

    def state(self) -> Any:
        """Return all that decides what it will do, but for what is on its way."""
        tree = tuple((path, node.stat, node.data) for path, node in sorted(self.leader.tree.items()))
        sessions = tuple((number, one.touched_at, one.passed_on) for number, one in self.sessions.items())
        links = tuple(map(_link_state, self.links))
        return (self.zxid, self.picked), tree, tuple(map(self._server_state, self.servers)), sessions, links

    def _server_state(self, server: Server) -> Any:
        watches = [
            (kind, path, [link.client.number for link in links])
            for kind, watches in enumerate((server.watches, server.child_watches))
            for path, links in watches.items()
        ]
        behind = tuple(server.tree) if server.applied != self.zxid else ()
        return server.applied, behind, repr(sorted(watches)), tuple(label(entry) for entry in server.waiting)


def _link_state(link: Any) -> Any:
    return (
        (link.client.number, link.session, link.server.number, link.seen, len(link.outstanding)),
        (link.connected, link.over, link.closed, link.busy),
        tuple(map(label, link.queue)),
        tuple((path, len(boxes)) for path, boxes in link.mailboxes.items()),
    )


STORES: dict[str, Any] = {"etcd": ExploredEtcd, "zookeeper": ExploredZooKeeper}
