"""The connections to a Memcached, with the server in the test's hand."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import recipes
from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores._kit.cell import Keep, Peek
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import NOBODY
from recipes.stores.addresses import Endpoint
from recipes.stores.memcached import session as sessions
from recipes.stores.memcached.acts import BORN_S, Acts, Life
from recipes.stores.memcached.session import MemcachedSession
from tests.threads import refuse


class Silent:
    """A connection from which nothing comes."""

    def __init__(self) -> None:
        self.asked = self.was_reset = 0

    def stale(self) -> bool:
        return False

    def send(self, data: bytes, deadline: float) -> None:
        self.asked += 1

    def receive(self, deadline: float) -> bytes:
        raise TimeoutError("no answer in time")

    def reset(self) -> None:
        self.was_reset += 1


def made(host: str) -> MemcachedSession:
    return MemcachedSession(
        "memcached://h", Endpoint(host, 1), Acts("memcached://h", "", 0.0), lambda _: None
    )


def test_a_name_for_which_no_thread_can_be_started_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "recipes-resolve")
    with pytest.raises(StoreUnavailable, match="can't start new thread") as caught:
        made("localhost").try_once(Command(Peek("x"), "s", NOBODY), boot_time() + 1.0)
    assert caught.value.unsent


def test_where_one_connection_is_silent_no_other_is_tried() -> None:
    """Each would take all the time of a request, and a session does not last so long."""
    session: Any = made("h")
    free = [Silent() for _ in range(4)]
    life: Any = Life(1, 0.0)
    session._free.extend((one, life) for one in free)
    with pytest.raises(StoreUnavailable):
        session.try_once(Command(Peek("x"), "s", NOBODY), boot_time() + 1.0)
    assert sorted(one.asked for one in free) == [0, 0, 0, 1]
    assert [one.was_reset for one in free] == [1, 1, 1, 1]
    assert not session._free


class Crowded(socketserver.StreamRequestHandler):
    """As much of a server as one lock takes. It has too many connections when the first ones are made."""

    too_many = 2
    refused = 0
    item = b""
    counted = 0

    def handle(self) -> None:
        made = type(self)
        for line in self.rfile:
            command, *words = line.split()
            if command == b"stats" and not words and made.refused < made.too_many:
                made.refused += 1
                self.rfile.readline()  # the rest of the greeting: with it unread, closing would reset
                self.wfile.write(b"ERROR Too many open connections\r\n")
                return
            self.wfile.write(self.answer(command, words))

    def answer(self, command: bytes, words: list[bytes]) -> bytes:
        made = type(self)
        made.counted += 1
        match command, words:
            case b"stats", []:
                facts = {"version": "1.6.18", "uptime": 10_000, "time": BORN_S + 50_000}
                lines = [f"STAT {name} {said}\r\n" for name, said in facts.items()]
                return "".join([*lines, "END\r\n"]).encode()
            case b"stats", _:
                return b"STAT cas_enabled yes\r\nSTAT evictions off\r\nEND\r\n"
            case b"add", _:
                made.item = self.rfile.readline().strip()
                return b"STORED\r\n"
            case b"mg", _:
                return b"VA %d c%d\r\n%b\r\n" % (len(made.item), made.counted, made.item)
            case b"mn", _:
                return b"MN\r\n"
        return b"HD\r\n"  # md


class Small(Crowded):
    """It reads on when what it answers was taken; each item has the value of its name."""

    too_many = 0

    def setup(self) -> None:
        small(self.request)
        super().setup()

    def answer(self, command: bytes, words: list[bytes]) -> bytes:
        type(self).item = words[0] if command == b"mg" else b""
        return super().answer(command, words)


def small(sock: socket.socket) -> None:
    """Have a connection take little ahead of what is read."""
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, buffer, 8192)


@contextmanager
def crowded(kind: type[Crowded] = Crowded) -> Iterator[int]:
    """Run such a server; yields its port."""

    class Handler(kind):  # type: ignore[misc, valid-type]
        pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
    assert Handler.refused == kind.too_many


def test_a_server_with_too_many_connections_is_asked_again() -> None:
    with crowded() as port:
        client = recipes.connect(f"memcached://127.0.0.1:{port}")
        try:
            assert client.lock("x").acquire(timeout=60).held
        finally:
            client.close()


def test_a_renewal_of_very_many_reads_answers_before_it_asks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the server cannot write, and so does not read, and the client waits for it to read."""
    real = sessions.dial

    def dial(*args: Any) -> Any:
        conn = real(*args)
        small(conn.sock)
        return conn

    monkeypatch.setattr(sessions, "dial", dial)
    with crowded(Small) as port:
        session = MemcachedSession(
            "memcached://h", Endpoint("127.0.0.1", port), Acts("m", "", 0.0), lambda _: None
        )
        claims = tuple((f"x{number}", f"x{number}") for number in range(6_000))
        try:
            kept = session.try_once(Command(Keep(claims, 4.0), "s", NOBODY), boot_time() + 20.0)
        finally:
            session.close(1.0)
    assert kept == (True,) * len(claims)
