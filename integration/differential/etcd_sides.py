"""etcd as scripts see it: the model, and a real server through the package's own connection."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from integration.differential.etcd_scripts import CONNECTIONS, LEASES, NEVER_GRANTED
from integration.differential.model_world import InOrder
from integration.differential.script import Box, Forget, Outcome, Script, Told
from integration.servers import Etcd
from recipes._contract.connection import Batch
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.etcd.codec import Kv, put, revision, txn
from recipes.stores.etcd.requests import EtcdError, Post, Watch
from tests.simulation.etcd_model import EtcdServer
from tests.simulation.etcd_store import EtcdStore

__all__ = ["EtcdModel", "RealEtcd", "floor_of"]

REQUEST_S = 10.0
REVISIONS = {"revision", "created", "modified"}


def floor_of(server: Etcd) -> int:
    """Return the shortest TTL a server grants, as etcd's source reckons it."""
    return -(-3 * server._election_ms // 2000)


class EtcdSide(ABC):
    """What both sides share: names in, names out.

    Watch events come over another connection than replies. Before a step that would meet
    them, the connection is settled on both sides: a key that nobody has used is watched and put,
    and its event comes behind all others.
    """

    def begin(self, script: Script) -> None:
        unique = secrets.token_hex(6)
        self.prefix = f"diff/{script.seed}-{unique}/"
        first = secrets.randbits(60) + 1
        self.leases = {name: first + offset for offset, name in enumerate((*LEASES, NEVER_GRANTED))}
        self.names = {number: name for name, number in self.leases.items()}
        self.seen: dict[str, int] = {}
        self.modified: dict[str, int] = {}
        self.logs: list[list[Told]] = [[] for _ in range(CONNECTIONS)]
        self.boxes: dict[tuple[int, str], Box] = {}
        self.barriers = 0
        self.step = 0
        self.open()
        self.start = revision(self.send(0, Post("/kv/txn", txn())))

    def ask(self, step: int, connection: int, request: Any) -> Outcome:
        self.step = step
        parts = request.parts if isinstance(request, Batch) else (request,)
        told = self.settle(connection) if any(isinstance(part, Watch | Forget) for part in parts) else []
        if isinstance(request, Forget):
            self.forget(connection, self.box(connection, request.mailbox))
            return Outcome(None, told)
        try:
            reply = self.send(connection, self.real(connection, request))
        except Exception as error:
            reply = error
        if isinstance(request, Batch) and isinstance(reply, tuple):
            return Outcome([self.plain(*pair) for pair in zip(parts, reply, strict=True)], told)
        return Outcome(self.plain(request, reply), told)

    def end(self, outcomes: list[Outcome]) -> list[Outcome]:
        last = [told for connection in range(CONNECTIONS) for told in self.settle(connection)]
        for (connection, _), box in self.boxes.items():
            self.forget(connection, box)
        self.close()
        if outcomes:
            outcomes[-1].told += last
        return outcomes

    @abstractmethod
    def open(self) -> None:
        """Have connections ready."""

    @abstractmethod
    def send(self, connection: int, request: Any) -> Any:
        """Ask over a connection."""

    @abstractmethod
    def forget(self, connection: int, box: Box) -> None:
        """End what a mailbox watches."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind that concerns another script."""

    def settle(self, connection: int) -> list[Told]:
        """Wait until every event so far has come; return what was told since the last time."""
        self.barriers += 1
        key = f"{self.prefix}~{self.barriers}".encode()
        barrier = Box("barrier", self.logs[connection], lambda: -1)
        self.send(connection, Watch(key, barrier, changes=True))
        self.send(connection, Post("/kv/txn", txn(then=[put(key, b"", 0)])))
        patience = time.monotonic() + REQUEST_S
        while not any(told.step == -1 for told in self.logs[connection]):
            assert time.monotonic() < patience, "the event of a barrier should have come"
            time.sleep(0.0001)
        told = [told for told in self.logs[connection] if told.step != -1]
        self.logs[connection].clear()
        return [replace(one, event=str(one.event).replace(self.prefix, "")) for one in told]

    # Names in.

    def box(self, connection: int, name: str) -> Box:
        if (connection, name) not in self.boxes:
            self.boxes[connection, name] = Box(name, self.logs[connection], lambda: self.step)
        return self.boxes[connection, name]

    def real(self, connection: int, request: Any) -> Any:
        if isinstance(request, Batch):
            return Batch(tuple(self.real(connection, part) for part in request.parts))
        if isinstance(request, Watch):
            box: Any = request.mailbox
            key, end = (self.prefix.encode() + name if name else b"" for name in (request.key, request.end))
            return replace(request, key=key, end=end, mailbox=self.box(connection, box))
        return Post(request.path, self.filled(request.body))

    def filled(self, body: Any) -> Any:
        if isinstance(body, list):
            return [self.filled(one) for one in body]
        return {name: self._fill(name, value) for name, value in body.items()}

    def _fill(self, name: str, value: Any) -> Any:
        if isinstance(value, list | dict):
            return self.filled(value)
        if name in ("key", "range_end"):
            return (self.prefix + value).encode()
        if name == "value":
            return value.encode()
        return value if value is True else self._number(value)

    def _number(self, value: str) -> Any:
        """Return the lease, the revision or the number that a script means; a word is what it is."""
        if value in self.leases:
            return self.leases[value]
        if value.startswith("@"):
            return self._revision(value)
        return int(value) if value.isdecimal() else value

    def _revision(self, value: str) -> int:
        """Return the revision that a script means."""
        if value.startswith("@@"):
            return self.modified.get(value[2:], 0)
        key, before, _ = value[1:].rpartition("-1") if value.endswith("-1") else (value[1:], "", "")
        return max(self.seen.get(key, 0) - bool(before), 0)

    # Names out.

    def plain(self, request: Any, reply: Any) -> Any:
        if isinstance(reply, EtcdError):
            return f"error {reply.code}"
        if isinstance(reply, Exception):
            return type(reply).__name__
        if isinstance(request, Watch):
            return f"created at {self.relative(reply)}"
        if request.path == "/kv/txn":
            self.learn(request.body, reply)
        elif request.path == "/kv/range":
            self.learn_found(reply)
        elif request.path == "/kv/deleterange":
            self.learn_deleted(request.body)
        return self.named(reply)

    def learn(self, body: Any, reply: Mapping[str, Any]) -> None:
        """Note the revisions that a reply tells of."""
        done = body["success" if reply.get("succeeded") else "failure"]
        for operation, response in zip(done, reply.get("responses", ()), strict=True):
            ((kind, request),) = operation.items()
            if kind == "request_put":
                self.seen.setdefault(request["key"], revision(reply))
                self.modified[request["key"]] = revision(reply)
            elif kind == "request_delete_range":
                self.learn_deleted(request)
            self.learn_found(response.get("response_range", {}))

    def learn_deleted(self, request: Mapping[str, Any]) -> None:
        """Forget what was deleted: one key, or a range."""
        start, end = request["key"], request.get("range_end")
        for name in [name for name in self.seen if name == start or (end and start <= name < end)]:
            del self.seen[name]
            self.modified.pop(name, None)

    def learn_found(self, found: Mapping[str, Any]) -> None:
        """Note the revisions of what was read."""
        for kv in found.get("kvs", ()):
            name = self.name_of(kv.key)
            self.seen[name], self.modified[name] = kv.created, kv.modified

    def named(self, found: Any) -> Any:
        if isinstance(found, list):
            return [self.named(one) for one in found]
        if isinstance(found, Kv):
            return {name: self._name(name, value) for name, value in found._asdict().items()}
        return {name: self._name(name, value) for name, value in found.items()}

    def _name(self, name: str, value: Any) -> Any:
        if name == "header":
            return {
                "revision": self.relative(value["revision"])
            }  # and ids of cluster and member, and the term
        if isinstance(value, dict | list | Kv):
            return self.named(value)
        if name in REVISIONS:
            return self.relative(value)
        if name in ("lease", "ID"):
            return self.names.get(value, value)
        return self.name_of(value) if name == "key" else value

    def name_of(self, key: bytes) -> str:
        return key.decode().removeprefix(self.prefix)

    def relative(self, at: int) -> str:
        return f"start+{at - self.start}"


class EtcdModel(EtcdSide):
    """The model of the simulation; ``make`` may make a broken one."""

    def __init__(self, floor: int, make: Callable[..., EtcdServer] = EtcdServer) -> None:
        self._floor = floor
        self._make = make

    def open(self) -> None:
        self.world = InOrder(lambda: 0.5)
        world: Any = self.world
        store = EtcdStore(world)
        store.server = self._make(floor=self._floor)
        self.connections = [store.connection(self.world.client, None) for _ in range(CONNECTIONS)]

    def send(self, connection: int, request: Any) -> Any:
        return self.world.ask(self.connections[connection], request)

    def forget(self, connection: int, box: Box) -> None:
        self.connections[connection].forget(box)
        self.world.settle()

    def close(self) -> None:
        assert not self.connections[0].server.watches, "every watch should be forgotten"


class RealEtcd(EtcdSide):
    """A real server; the connections stay for script after script."""

    def __init__(self, server: Etcd) -> None:
        self.connections = [EtcdConnection([(server.host, server.port)]) for _ in range(CONNECTIONS)]

    def open(self) -> None:
        """The connections open themselves."""

    def send(self, connection: int, request: Any) -> Any:
        return self.connections[connection].ask(request, REQUEST_S)

    def forget(self, connection: int, box: Box) -> None:
        self.connections[connection].forget(box)

    def close(self) -> None:
        for lease in self.leases.values():
            try:
                self.send(0, Post("/lease/revoke", {"ID": lease}))
            except EtcdError:
                continue  # it never was, or is no more
        end = self.prefix[:-1].encode() + bytes([ord("/") + 1])
        rest = {"key": self.prefix.encode(), "range_end": end}
        self.send(0, Post("/kv/txn", txn(then=[{"request_delete_range": rest}])))

    def shut(self) -> None:
        """Close the connections."""
        for connection in self.connections:
            connection.close()
