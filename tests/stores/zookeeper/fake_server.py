"""A ZooKeeper for one process: as much of the wire protocol as a lock needs, and faults on demand.

::

    with FakeZooKeeper() as server:
        connection = KazooLink(server.hosts, on_end=...)
        server.mute("delete")        # carries deletes out, and answers none of them
        server.fail("create2", -102) # answers the next create with an error
        server.drop()                # closes every connection; sessions live on
        server.expire()              # ends every session, and cuts

Every request is listed in ``server.seen`` as (operation, path); ``server.until`` waits for
what a test needs to see, so that no test has to sleep.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

__all__ = ["FakeZooKeeper"]

OPERATIONS = {
    -11: "close",
    1: "create",
    2: "delete",
    3: "exists",
    4: "get",
    5: "set",
    8: "children",
    9: "sync",
    11: "ping",
    13: "check",
    14: "multi",
    15: "create2",
    100: "auth",
}
NO_NODE, NOT_EMPTY, BAD_VERSION, NODE_EXISTS = -101, -111, -103, -110
CREATED, DELETED, CHANGED, CHILD = 1, 2, 3, 4


@dataclass
class Node:
    """A node."""

    czxid: int
    data: bytes | None = b""
    owner: int = 0
    version: int = 0
    sequence: itertools.count[int] = field(default_factory=itertools.count)

    def stat(self) -> bytes:
        size = len(self.data or b"")
        fields = (self.czxid, self.czxid, 0, 0, self.version, 0, 0, self.owner, size, 0, self.czxid)
        return struct.pack("!qqqqiiiqiiq", *fields)


class Refused(Exception):
    """The reply is an error."""


class Reader:
    """Takes a message apart."""

    def __init__(self, message: bytes) -> None:
        self.message, self.at = message, 0

    def take(self, layout: str) -> Any:
        found = struct.unpack_from(f"!{layout}", self.message, self.at)
        self.at += struct.calcsize(f"!{layout}")
        return found[0] if len(found) == 1 else found

    def buffer(self) -> bytes | None:
        size = self.take("i")
        if size < 0:
            return None
        self.at += size
        return self.message[self.at - size : self.at]

    def text(self) -> str:
        return (self.buffer() or b"").decode()


def packed(text: str | bytes | None) -> bytes:
    if text is None:
        return struct.pack("!i", -1)
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("!i", len(raw)) + raw


class Connection:
    """One client's connection."""

    def __init__(self, server: FakeZooKeeper, sock: socket.socket) -> None:
        self.server, self.sock = server, sock
        self.session = 0
        self.watches: set[str] = set()
        self.child_watches: set[str] = set()

    def serve(self) -> None:
        try:
            if self.server.tls is not None:
                self.sock = self.server.tls.wrap_socket(self.sock, server_side=True)
            self.server.on_connect(self, Reader(self.message()))
            while True:
                self.server.on_request(self, Reader(self.message()))
        except (OSError, struct.error):
            pass
        finally:
            self.sock.close()
            self.server.gone(self)

    def message(self) -> bytes:
        return self.exactly(struct.unpack("!i", self.exactly(4))[0])

    def exactly(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            part = self.sock.recv(size - len(parts))
            if not part:
                raise ConnectionResetError
            parts += part
        return parts

    def send(self, message: bytes) -> None:
        self.sock.sendall(packed(message))

    def cut(self) -> None:
        try:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)
        except OSError:
            pass


def _about_a_node(kind: int) -> bool:
    return OPERATIONS[kind] not in ("close", "ping", "multi", "auth")


class FakeZooKeeper:
    """The server. What tests set: ``granted_ms``, ``silent``, ``refuse_auth``; what they read: ``seen``."""

    def __init__(self, *, granted_ms: int = 12_000, tls: ssl.SSLContext | None = None) -> None:
        self.granted_ms = granted_ms
        self.tls = tls
        self.silent = False  # accept, read, and never answer
        self.refuse_auth = False
        self.resumed_as: int | None = None  # sessions are resumed with this id
        self.known_zxid = 0  # the last that the client knew of which connected last
        self.last_zxid = 0  # of the last reply
        self.nodes: dict[str, Node] = {"/": Node(0)}
        self.sessions: dict[int, int] = {}
        self.seen: list[tuple[str, str]] = []
        self.numbers: list[int] = []  # of the requests, as clients count them
        self.connections: list[Connection] = []
        self.accepted = 0
        self._muted: set[str] = set()
        self._garbled: set[str] = set()
        self._failures: dict[str, int] = {}
        self._untold: list[tuple[str, int]] | None = None  # events of a multi that is not done yet
        self._zxid = itertools.count(1)
        self._ids = itertools.count(0x1000)
        self._changed = threading.Condition(threading.RLock())
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.hosts = f"127.0.0.1:{self.port}"

    # What tests do.

    def __enter__(self) -> Self:
        self._spawn(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self.cut()
        for thread in self._threads:
            thread.join(20)

    def until(self, happened: Callable[[], Any], timeout_s: float = 20) -> None:
        """Wait for something that requests or connections bring about."""
        with self._changed:
            assert self._changed.wait_for(happened, timeout_s), f"not in time; seen: {Counter(self.seen)}"

    def count(self, operation: str) -> int:
        return sum(seen == operation for seen, _ in self.seen)

    def mute(self, *operations: str) -> None:
        """Answer these no more (all, if none is named); they are carried out."""
        self._muted = set(operations or OPERATIONS.values())

    def garble(self, *operations: str) -> None:
        """Answer these with what is too short to be a reply; they are carried out."""
        self._garbled = set(operations)

    def fail(self, operation: str, code: int) -> None:
        """Answer the next one with an error."""
        self._failures[operation] = code

    def cut(self) -> None:
        """Close every connection."""
        for connection in tuple(self.connections):
            connection.cut()

    def drop(self) -> None:
        """Close every connection, and wait until each client has come back: it knows of the loss then."""
        wanted = self.count("connect") + len(self.connections)
        self.cut()
        self.until(lambda: self.count("connect") >= wanted)

    def refuse(self) -> None:
        """Listen no more."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def expire(self) -> None:
        """End every session, as a server does whose client was not heard of."""
        with self._changed:
            for session in tuple(self.sessions):
                self._end(session)
        self.cut()

    def send_all(self, message: bytes) -> None:
        """Send anything."""
        for connection in tuple(self.connections):
            connection.send(message)

    # What connections do.

    def _spawn(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name="fake-zookeeper", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                connection = Connection(self, sock)
                self.connections.append(connection)
                self.accepted += 1
                self._changed.notify_all()
            self._spawn(connection.serve)

    def gone(self, connection: Connection) -> None:
        with self._changed:
            self.connections.remove(connection)
            self._changed.notify_all()

    def on_connect(self, connection: Connection, message: Reader) -> None:
        _, known_zxid, asked_ms, session = message.take("iqiq")
        with self._changed:
            self.seen.append(("connect", f"{session:x}"))
            self.known_zxid = known_zxid
            self._changed.notify_all()
            if self.silent:
                return
            timeout_ms = min(asked_ms, self.granted_ms)
            if session == 0:
                session = next(self._ids)
                self.sessions[session] = timeout_ms
            elif session not in self.sessions:
                session = timeout_ms = 0
            connection.session = session
            told = self.resumed_as or session
            connection.send(struct.pack("!iiq", 0, timeout_ms, told) + packed(b"secret-password!") + b"\0")

    def on_request(self, connection: Connection, message: Reader) -> None:
        xid, kind = message.take("ii")
        operation = OPERATIONS[kind]
        with self._changed:
            path = message.text() if _about_a_node(kind) else ""
            self.seen.append((operation, path))
            self.numbers += [xid] * (xid > 0)
            self._changed.notify_all()
            error, body = self._failures.pop(operation, 0), b""
            try:
                if not error:
                    body = getattr(self, f"_{operation}")(connection, path, message)
            except Refused as refused:
                error = refused.args[0]
            if not self.silent and operation not in self._muted:
                zxid = self.last_zxid = next(self._zxid)
                garbled = operation in self._garbled
                connection.send(struct.pack("!iqi", xid, zxid, error) + (body[:2] if garbled else body))
            if operation == "close":
                raise ConnectionResetError

    def _node(self, path: str) -> Node:
        if path not in self.nodes:
            raise Refused(NO_NODE)
        return self.nodes[path]

    def _tell(self, path: str, kind: int) -> None:
        if self._untold is not None:
            self._untold.append((path, kind))
            return
        event = struct.pack("!iqiii", -1, -1, 0, kind, 3) + packed(path)
        for connection in self.connections:
            kinds = (connection.watches, connection.child_watches)
            minding = kinds[kind == CHILD :] if kind in (DELETED, CHILD) else kinds[:1]
            if any(path in watches for watches in minding):
                for watches in minding:
                    watches.discard(path)
                try:
                    connection.send(event)
                except OSError:
                    pass
        if kind in (CREATED, DELETED):
            self._tell(path.rpartition("/")[0] or "/", CHILD)

    def _end(self, session: int) -> None:
        self.sessions.pop(session, None)
        for path in [path for path, node in self.nodes.items() if node.owner == session]:
            del self.nodes[path]
            self._tell(path, DELETED)

    # The operations.

    def _create2(self, connection: Connection, path: str, message: Reader) -> bytes:
        data = message.buffer()
        for _ in range(message.take("i")):
            message.take("i"), message.text(), message.text()
        flags = message.take("i")
        parent = self._node(path.rpartition("/")[0] or "/")
        if flags & 2:
            path += f"{next(parent.sequence):010d}"
        if path in self.nodes:
            raise Refused(NODE_EXISTS)
        owner = connection.session if flags & 1 else 0
        node = self.nodes[path] = Node(next(self._zxid), data, owner)
        self._tell(path, CREATED)
        return packed(path) + node.stat()

    _create = _create2

    def _delete(self, connection: Connection, path: str, message: Reader) -> bytes:
        self._at_version(path, message.take("i"))
        del self.nodes[path]
        self._tell(path, DELETED)
        return b""

    def _set(self, connection: Connection, path: str, message: Reader) -> bytes:
        data = message.buffer()
        node = self._at_version(path, message.take("i"))
        node.data, node.version = data, node.version + 1
        self._tell(path, CHANGED)
        return node.stat()

    def _at_version(self, path: str, version: int) -> Node:
        node = self._node(path)
        if version not in (-1, node.version):
            raise Refused(BAD_VERSION)
        return node

    def _exists(self, connection: Connection, path: str, message: Reader) -> bytes:
        if message.take("b"):
            connection.watches.add(path)
        return self._node(path).stat()

    def _get(self, connection: Connection, path: str, message: Reader) -> bytes:
        node = self._node(path)
        if message.take("b"):
            connection.watches.add(path)
        return packed(node.data) + node.stat()

    def _children(self, connection: Connection, path: str, message: Reader) -> bytes:
        self._node(path)
        if message.take("b"):
            connection.child_watches.add(path)
        prefix = path.rstrip("/") + "/"
        names = [one.removeprefix(prefix) for one in self.nodes if one.startswith(prefix) and one != "/"]
        names = [name for name in names if "/" not in name]
        return struct.pack("!i", len(names)) + b"".join(map(packed, names))

    def _check(self, connection: Connection, path: str, message: Reader) -> bytes:
        self._at_version(path, message.take("i"))
        return b""

    def _multi(self, connection: Connection, path: str, message: Reader) -> bytes:
        before = {path: replace(node) for path, node in self.nodes.items()}
        replies: list[tuple[int, int, bytes]] = []
        failed = 0
        self._untold = []
        while True:
            kind, last, _ = message.take("i?i")
            if last:
                break
            path = message.text()
            failed, body = self._part(OPERATIONS[kind], connection, path, message)
            replies.append((kind, failed, body))
            if failed:  # a real server says of those behind it that they were not reached
                replies.append((kind, -2, b""))
                break
        untold, self._untold = self._untold, None
        if failed:
            self.nodes = before
            replies = [(-1, error, struct.pack("!i", error)) for _, error, _ in replies]
        else:
            for event in untold:
                self._tell(*event)
        parts = (struct.pack("!i?i", kind, False, error) + body for kind, error, body in replies)
        return b"".join(parts) + struct.pack("!i?i", -1, True, -1)

    def _part(self, operation: str, connection: Connection, path: str, message: Reader) -> tuple[int, bytes]:
        error = self._failures.pop(operation, 0)
        if error:
            return error, b""
        try:
            body = getattr(self, f"_{operation}")(connection, path, message)
            return 0, body[: -len(Node(0).stat())] if operation == "create" else body
        except Refused as refused:
            return refused.args[0], b""

    def _sync(self, connection: Connection, path: str, message: Reader) -> bytes:
        return packed(path)

    def _ping(self, connection: Connection, path: str, message: Reader) -> bytes:
        return b""

    def _auth(self, connection: Connection, path: str, message: Reader) -> bytes:
        if self.refuse_auth:
            raise Refused(-115)
        return b""

    def _close(self, connection: Connection, path: str, message: Reader) -> bytes:
        self._end(connection.session)
        return b""
