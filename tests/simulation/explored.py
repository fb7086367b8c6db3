"""The models, with what the exhaustive search asks of them.

What is *alone* is something that a client hears while nothing else can reach it before: no other
client and no server can tell whether it is notified of it now or later, so all orders but one are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from recipes.errors import StoreUnavailable
from tests.simulation.etcd_store import EtcdStore, Unary, Watching
from tests.simulation.exploring import label, pausing
from tests.simulation.moving import Pipe, Task
from tests.simulation.world import World
from tests.simulation.zookeeper_connection import BROKEN, Part
from tests.simulation.zookeeper_model import ZooKeeperStore
from tests.simulation.zookeeper_server import Server

__all__ = ["STORES", "ExploredEtcd", "ExploredZooKeeper"]


class ExploredEtcd(EtcdStore):
    """The model of etcd."""

    def vary(self, choose: Any) -> None:
        """Have what counts as a short queue be chosen: none, or each; the programs differ."""
        self.sorted_soon = (0, 100)[choose([("none is short", None), ("each is short", None)])]
        for client in self.world.clients:
            client.runtime.state.session.protocol.sorted_soon = self.sorted_soon

    def at_once(self, one: Any) -> bool:
        """Whether something goes on at once: who was told, and what the keepalive loops ask."""
        if type(one) is Unary:
            return one.asked.task is one.connection.client.runtime.keepalive
        return type(one) is Task

    def is_alone(self, one: Any) -> bool:
        """Whether a client hears something, and nothing else can reach it before."""
        if type(one) is Unary:
            connection = one.connection
            return one.reply is not None and not connection.booked and not self._moves(connection.client, one)
        connection = self._stream_of(one)
        return connection is not None and connection.down is one and not self._moves(connection.client, one)

    def _stream_of(self, one: Any) -> Any:
        return next(
            (connection for connection in self.connections if one is connection.up or one is connection.down),
            None,
        )

    def _moves(self, client: Any, but: Any) -> bool:
        """Whether anything of a client is under way, but for this."""
        others = (self._owner(one) for one in self.world.moving if one is not but)
        if any(owner is None or owner is client for owner in others):
            return True
        return any(task.client is client and pausing(task) for task in self.world.tasks)

    def _owner(self, one: Any) -> Any:
        if type(one) is Unary:
            return one.connection.client
        if type(one) is Pipe:
            connection = self._stream_of(one)
            return None if connection is None else connection.client
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
        connection = self._stream_of(one)
        if connection is not None:
            connection.disturb()

    def may_be_late(self, one: Any) -> bool:
        """Whether it is a write of a value on its way."""
        return type(one) is Unary and one.reply is None and one.asked.write is not None

    def delay(self, one: Any) -> None:
        """Have whoever waits for it hear that its connection broke, while it goes on."""
        one.asked.answer(one.position, StoreUnavailable("model", BROKEN))

    def lives(self, client: Any) -> bool:
        """Whether it has a session that could end."""
        session = client.runtime.state.session
        return session is not None and bool(session.id) and int(session.id, 16) in self.server.leases

    def expire_session(self, client: Any) -> None:
        """End its session."""
        self.server.revoke(int(client.runtime.state.session.id, 16))

    def state(self) -> Any:
        """Return all that decides what it will do, but for what is on its way."""
        server = self.server
        keys = [
            (key, entry.created, entry.version, entry.lease, entry.kv.value)
            for key, entry in server.keys.items()
        ]
        watches = [(watch.connection.client.number, watch.key, watch.changes) for watch in server.watches]
        return (
            self.sorted_soon,
            server.revision,
            tuple(sorted(keys)),
            tuple((number, lease.ends_at) for number, lease in server.leases.items()),
            tuple(server.revoked),
            tuple(sorted(watches)),
            tuple(tuple(map(label, connection.booked)) for connection in self.connections),
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
        """Whether something goes on at once.

        Who was told, what goes on to the leader, dialling, keepalive loops.
        """
        if type(one) is not Pipe:
            return type(one) is Task
        takes = one.arrive.__name__
        if takes in ("_commit", "_call"):
            return True
        if takes == "apply":  # nobody reads there
            server = one.arrive.__self__
            return not any(
                connection.server is server and not connection.closed for connection in self.connections
            )
        message = one.messages[0]
        return type(message) is Part and message.asked.task is message.asked.task.client.runtime.keepalive

    def is_alone(self, one: Any) -> bool:
        """Whether a client hears something: all that it hears comes in order."""
        return type(one) is Pipe and one.arrive.__name__ == "_heard"

    def is_message(self, one: Any) -> bool:
        """Whether it can get lost: a request or a reply, with the connection."""
        return type(one) is Pipe and type(one.messages[0]) is Part

    def lose(self, one: Any) -> None:
        """Have its connection break, with all that is on it."""
        one.arrive.__self__.break_()

    def may_be_late(self, one: Any) -> bool:
        """Whether it may arrive later than its caller hears of it: no server takes what comes so late."""
        return False

    def lives(self, client: Any) -> bool:
        """Whether it has a session that could end."""
        session = client.runtime.state.session
        return session is not None and session.connection.session in self.sessions

    def expire_session(self, client: Any) -> None:
        """End its session."""
        self.end(client.runtime.state.session.connection.session)

    def state(self) -> Any:
        """Return all that decides what it will do, but for what is on its way."""
        tree = tuple((path, node.stat, node.data) for path, node in sorted(self.leader.tree.items()))
        sessions = tuple((number, one.touched_at, one.passed_on) for number, one in self.sessions.items())
        connections = tuple(map(_connection_state, self.connections))
        return (
            (self.zxid, self.picked),
            tree,
            tuple(map(self._server_state, self.servers)),
            sessions,
            connections,
        )

    def _server_state(self, server: Server) -> Any:
        watches = [
            (kind, path, [connection.client.number for connection in connections])
            for kind, watches in enumerate((server.watches, server.child_watches))
            for path, connections in watches.items()
        ]
        behind = tuple(server.tree) if server.applied != self.zxid else ()
        return server.applied, behind, repr(sorted(watches)), tuple(label(entry) for entry in server.waiting)


def _connection_state(connection: Any) -> Any:
    return (
        (
            connection.client.number,
            connection.session,
            connection.server.number,
            connection.seen,
            len(connection.outstanding),
        ),
        (connection.connected, connection.over, connection.closed, connection.busy),
        tuple(map(label, connection.queue)),
        tuple((path, len(boxes)) for path, boxes in connection.mailboxes.items()),
    )


STORES: dict[str, Any] = {"etcd": ExploredEtcd, "zookeeper": ExploredZooKeeper}
