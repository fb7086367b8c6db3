"""Calls by gRPC that are given up: a read is left until it is answered, a write is reset at once."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from recipes.errors import StoreUnavailable
from recipes.stores.etcd import codec, pool, tasks_conn
from recipes.stores.etcd.grpc_wire import GrpcWire
from recipes.stores.etcd.requests import Post
from tests.stores.etcd.fakes import Peer, Server
from tests.stores.etcd.test_given_up import how_it_ends
from tests.stores.etcd.test_grpc_connections import COUNTED, PING, READ, Connect, Grpc, frame

WRITE = Post("/kv/txn", codec.txn((), [codec.put(b"k", b"", 1)], ()))
PATIENCE_S = 8.0


class Left:
    """A server that pings after the first call until it is let, and answers then, or never."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.asked, self.pinged, self.let = threading.Event(), threading.Event(), threading.Event()
        self.ends: queue.Queue[str] = queue.Queue()

    def __call__(self, peer: Peer, number: int) -> None:
        server = Grpc(peer)
        stream = server.call()
        if number:
            while True:
                server.answer(stream)
                stream = server.call()
        self.asked.set()
        if self.answers:
            while not self.let.wait(0.02):
                server.say(frame(PING, 0, 0, bytes(8)))
                self.pinged.set()
            server.answer(stream)
        self.ends.put(how_it_ends(peer))


def given_up(connect: Connect, server: Server, left: Left, post: Post) -> Any:
    """Return an API that has given up a call which the server has got."""
    api = connect(server.port, wire=GrpcWire(secure=False))
    timeouts = iter((0.3, 1.0, 5.0))
    while not left.asked.is_set():
        with pytest.raises(StoreUnavailable):
            api.ask(post, next(timeouts))
    return api


def in_time(ask: Callable[[], object], left: Left) -> str:
    """Ask until the first connection has ended; return how."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        ask()
        with contextlib.suppress(queue.Empty):
            return left.ends.get(timeout=0.05)
    raise AssertionError("the connection is still open")


def test_a_read_is_left_until_its_answer_whatever_comes_before(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "GIVEN_UP_S", 3600.0)
    monkeypatch.setattr(tasks_conn, "GIVEN_UP_S", 3600.0)
    left = Left(answers=True)
    with Server(left) as server:
        api = given_up(connect, server, left, READ)
        for _ in range(3):
            left.pinged.clear()
            assert left.pinged.wait(PATIENCE_S)
            assert api.ask(READ) == COUNTED
        assert server.connections == 2, "it is not used again"
        assert left.ends.empty(), "not under the server's hands"
        left.let.set()
        in_time(lambda: api.ask(READ), left)


def test_a_write_is_reset_at_once(connect: Connect) -> None:
    left = Left(answers=False)
    with Server(left) as server:
        api = given_up(connect, server, left, WRITE)
        assert in_time(lambda: api.ask(READ), left) == "reset"
