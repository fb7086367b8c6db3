"""etcd by bare sockets: the exchanges of this package's lock, and nothing else.

No reconnecting, no timeouts, no threads, no renewals: what is left is what the server, JSON (here) or
frames of HTTP/2 (`bench.floor_grpc`), and Python's sockets take. One connection for calls, one for all
watches, a lease for each use.
"""

from __future__ import annotations

import base64
import json
import socket
import uuid
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from bench.takers import Release, Take, Taker

__all__ = ["Floor", "Json", "JsonWire", "Wire", "connected", "received"]

LEASE_S = 600
Json = dict[str, Any]


class Wire(ABC):
    """Two connections: calls and their replies; watches and their events."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._watch_id = 0

    @abstractmethod
    def key(self, text: str) -> Any:
        """Return a key as it is asked for."""

    @abstractmethod
    def number(self, value: int) -> Any:
        """Return a number as it is asked for."""

    @abstractmethod
    def keys(self, found: Json) -> list[tuple[int, Any]]:
        """Return when each key that was found was created, and which it is."""

    @abstractmethod
    def ask(self, *calls: tuple[str, Json]) -> list[Json]:
        """Send calls together, and return their replies."""

    @abstractmethod
    def watch(self, key: Any) -> None:
        """Ask for a watch; `created` and `wait_gone` tell of it."""

    @abstractmethod
    def _next(self) -> Json:
        """Return what is said next of watches."""

    def created(self) -> int:
        """Wait until the watch stands; returns the revision from which on it tells all."""
        while not (said := self._next()).get("created"):
            pass
        return int(said["header"]["revision"])

    def wait_gone(self) -> None:
        """Wait for the event of the watch that stands."""
        while True:
            said = self._next()
            if said.get("events") and int(said.get("watch_id", 0)) == self._watch_id:
                return


class JsonWire(Wire):
    """The gateway."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._calls = connected(address)
        self._stream: socket.socket | None = None
        self._buffer = b""

    def key(self, text: str) -> Any:
        return base64.b64encode(text.encode()).decode()

    def number(self, value: int) -> Any:
        return str(value)

    def keys(self, found: Json) -> list[tuple[int, Any]]:
        return [(int(kv["create_revision"]), kv["key"]) for kv in found.get("kvs", ())]

    def ask(self, *calls: tuple[str, Json]) -> list[Json]:
        data = []
        for path, body in calls:
            text = json.dumps(body, separators=(",", ":")).encode()
            head = f"POST /v3{path} HTTP/1.1\r\nHost: {self._address}\r\nContent-Length: {len(text)}\r\n\r\n"
            data.append(head.encode() + text)
        self._calls.sendall(b"".join(data))
        replies: list[Json] = []
        held = b""
        while len(replies) < len(calls):
            held += received(self._calls)
            while (found := _body(held)) is not None:
                said, held = found
                replies.append(json.loads(said))
        return replies

    def watch(self, key: Any) -> None:
        self._watch_id += 1
        create = {"key": key, "watch_id": str(self._watch_id), "filters": ["NOPUT"]}
        text = json.dumps({"create_request": create}).encode()
        chunk = b"%x\r\n%b\r\n" % (len(text), text)
        if self._stream is None:
            self._stream = connected(self._address)
            head = f"POST /v3/watch HTTP/1.1\r\nHost: {self._address}\r\nConnection: close\r\n"
            chunk = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk
        self._stream.sendall(chunk)

    def _next(self) -> Json:
        assert self._stream is not None, "a watch should come first"
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if not newline:
                self._buffer += received(self._stream)
                continue
            self._buffer = rest
            if line.startswith(b'{"result"'):
                result: Json = json.loads(line)["result"]
                return result


class Floor(Taker):
    """The lock of this package, step by step, on bare sockets."""

    by: ClassVar[type[Wire]] = JsonWire

    def __init__(self, address: str) -> None:
        self._wire = self.by(address)

    def use(self, name: str, side: str) -> Take:
        wire = self._wire
        (lease,) = wire.ask(("/lease/grant", {"TTL": wire.number(LEASE_S)}))
        mine = int(lease["ID"])
        prefix = f"bench/{name}/"
        span = {"key": wire.key(prefix), "range_end": wire.key(prefix[:-1] + "0")}

        def take() -> Release:
            key = wire.key(f"{prefix}W-{mine:x}-{uuid.uuid4()}")
            absent = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": wire.number(0)}
            put = {"request_put": {"key": key, "value": wire.key(""), "lease": wire.number(mine)}}
            seen = {"request_range": {**span, "limit": wire.number(16)}}
            (reply,) = wire.ask(("/kv/txn", {"compare": [absent], "success": [put, seen]}))
            at = int(reply["header"]["revision"])
            found = reply["responses"][1]["response_range"]
            nearest = {**span, **NEWEST, "limit": wire.number(3), "max_create_revision": wire.number(at)}
            if len(found["kvs"]) < int(found["count"]):
                (found,) = wire.ask(("/kv/range", nearest))
                reply = found
            _wait_turn(wire, nearest, _ahead(wire, found, at), at, int(reply["header"]["revision"]))
            return lambda: wire.ask(("/kv/deleterange", {"key": key}))

        return take


NEWEST = {"sort_order": "DESCEND", "sort_target": "CREATE"}


def _wait_turn(wire: Wire, nearest: Json, ahead: list[Any], at: int, as_of: int) -> None:
    """Watch the nearest ahead; when it goes, one range shows the own key and who is left."""
    while ahead:
        wire.watch(ahead[0])
        if wire.created() <= as_of or _stands(wire, ahead[0], at):
            wire.wait_gone()
        (found,) = wire.ask(("/kv/range", nearest))
        ahead, as_of = _ahead(wire, found, at), int(found["header"]["revision"])


def _stands(wire: Wire, key: Any, at: int) -> bool:
    """Compare whether who was seen ahead is there still."""
    there = {"key": key, "target": "CREATE", "result": "GREATER", "create_revision": wire.number(0)}
    earlier = {**there, "result": "LESS", "create_revision": wire.number(at)}
    read = {"request_range": {"key": key}}
    (reply,) = wire.ask(("/kv/txn", {"compare": [there, earlier], "failure": [read]}))
    return bool(reply.get("succeeded"))


def _ahead(wire: Wire, found: Json, before: int) -> list[Any]:
    """Return the keys found that were created earlier, nearest first."""
    return [key for created, key in sorted(wire.keys(found), reverse=True) if created < before]


def connected(address: str) -> socket.socket:
    """Return a connection that sends at once."""
    host, _, port = address.partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def received(connection: socket.socket) -> bytes:
    """Return what arrives; ConnectionError at the end."""
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the server closed the connection")
    return data


def _body(held: bytes) -> tuple[bytes, bytes] | None:
    """Return the first body in what arrived, and what follows; in chunks from 2 KiB on."""
    end = held.find(b"\r\n\r\n")
    head, start = held[:end].lower(), end + 4
    if end < 0:
        return None
    if b"content-length:" in head:
        length = int(head[head.index(b"content-length:") + 15 :].partition(b"\r")[0])
        return (held[start : start + length], held[start + length :]) if len(held) >= start + length else None
    body = b""
    while (line := held.find(b"\r\n", start)) >= 0:
        size, start = int(held[start:line], 16), line + 2
        if len(held) < start + size + 2:
            return None
        body += held[start : start + size]
        start += size + 2
        if not size:
            return body, held[start:]
    return None
