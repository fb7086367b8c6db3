"""etcd's gateway by bare sockets: the exchanges of this package's lock, and nothing else.

No reconnecting, no timeouts, no threads, no renewals: what is left is what the server, JSON
and Python's sockets take. One connection for calls, one for all watches, a lease for each use.
"""

from __future__ import annotations

import base64
import json
import socket
import uuid
from typing import Any

from bench.takers import Release, Take, Taker

__all__ = ["Floor"]

LEASE_S = 600
Json = dict[str, Any]


class Wire:
    """Two connections: calls and their replies; watches and their events."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._calls = self._connect()
        self._stream: socket.socket | None = None
        self._buffer = b""
        self._watch_id = 0

    def _connect(self) -> socket.socket:
        host, _, port = self._address.partition(":")
        connection = socket.create_connection((host, int(port)))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def ask(self, *calls: tuple[str, Json]) -> list[Json]:
        """Send calls together, and return their replies."""
        data = []
        for path, body in calls:
            text = json.dumps(body, separators=(",", ":")).encode()
            head = f"POST /v3{path} HTTP/1.1\r\nHost: {self._address}\r\nContent-Length: {len(text)}\r\n\r\n"
            data.append(head.encode() + text)
        self._calls.sendall(b"".join(data))
        replies: list[Json] = []
        held = b""
        while len(replies) < len(calls):
            held += _received(self._calls)
            while (found := _body(held)) is not None:
                body, held = found
                replies.append(json.loads(body))
        return replies

    def watch(self, key: str) -> None:
        """Ask for a watch; `created` and `wait_gone` tell of it."""
        self._watch_id += 1
        create = {"key": key, "watch_id": str(self._watch_id), "filters": ["NOPUT"]}
        text = json.dumps({"create_request": create}).encode()
        chunk = b"%x\r\n%b\r\n" % (len(text), text)
        if self._stream is None:
            self._stream = self._connect()
            head = f"POST /v3/watch HTTP/1.1\r\nHost: {self._address}\r\nConnection: close\r\n"
            chunk = head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunk
        self._stream.sendall(chunk)

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

    def _next(self) -> Json:
        assert self._stream is not None, "a watch should come first"
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if not newline:
                self._buffer += _received(self._stream)
                continue
            self._buffer = rest
            if line.startswith(b'{"result"'):
                result: Json = json.loads(line)["result"]
                return result


class Floor(Taker):
    """The lock of this package, step by step, on bare sockets."""

    def __init__(self, address: str) -> None:
        self._wire = Wire(address)

    def use(self, name: str, side: str) -> Take:
        wire = self._wire
        (lease,) = wire.ask(("/lease/grant", {"TTL": str(LEASE_S)}))
        prefix = f"bench/{name}/"
        span = {"key": _b64(prefix), "range_end": _b64(prefix[:-1] + "0")}

        def take() -> Release:
            key = _b64(f"{prefix}W-{int(lease['ID']):x}-{uuid.uuid4()}")
            absent = {"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
            put = {"request_put": {"key": key, "value": "", "lease": lease["ID"]}}
            seen = {"request_range": {**span, "limit": "16"}}
            (reply,) = wire.ask(("/kv/txn", {"compare": [absent], "success": [put, seen]}))
            at = reply["header"]["revision"]
            found = reply["responses"][1]["response_range"]
            nearest = {**span, **NEWEST, "limit": "3", "max_create_revision": at}
            if len(found["kvs"]) < int(found["count"]):
                reply = wire.ask(("/kv/range", nearest))[0]
                found = reply
            _wait_turn(wire, nearest, _keys(found, int(at)), int(reply["header"]["revision"]))

            def release() -> None:
                mine = {**absent, "create_revision": at}
                delete = {"request_delete_range": {"key": key}}
                wire.ask(("/kv/txn", {"compare": [mine], "success": [delete]}))

            return release

        return take


NEWEST = {"sort_order": "DESCEND", "sort_target": "CREATE"}


def _wait_turn(wire: Wire, nearest: Json, ahead: list[str], as_of: int) -> None:
    """Watch the nearest ahead; when it goes, one range shows the own key and who is left."""
    at = int(nearest["max_create_revision"])
    while ahead:
        wire.watch(ahead[0])
        if wire.created() <= as_of or _stands(wire, ahead[0], at):
            wire.wait_gone()
        (found,) = wire.ask(("/kv/range", nearest))
        ahead, as_of = _keys(found, at), int(found["header"]["revision"])


def _stands(wire: Wire, key: str, at: int) -> bool:
    """Compare whether who was seen ahead is there still."""
    there = {"key": key, "target": "CREATE", "result": "GREATER", "create_revision": "0"}
    earlier = {**there, "result": "LESS", "create_revision": str(at)}
    read = {"request_range": {"key": key}}
    (reply,) = wire.ask(("/kv/txn", {"compare": [there, earlier], "failure": [read]}))
    return bool(reply.get("succeeded"))


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


def _keys(found: Json, before: int | None = None) -> list[str]:
    """Return the keys found, nearest first."""
    kvs = [(int(kv["create_revision"]), kv["key"]) for kv in found.get("kvs", ())]
    return [key for created, key in sorted(kvs, reverse=True) if before is None or created < before]


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionError("the server closed the connection")
    return data


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
