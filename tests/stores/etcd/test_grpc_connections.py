"""What a connection by gRPC has to be, on both APIs, against scripted servers."""

from __future__ import annotations

import asyncio
import select
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import EtcdBackend, codec
from recipes.stores.etcd.grpc_wire import GrpcWire
from recipes.stores.etcd.pool import Pipeline, Pool
from recipes.stores.etcd.requests import Post
from tests.stores.etcd.fakes import AsyncApi, BlockingApi, Peer, Server, UvloopApi, trusting

READ = Post("/kv/range", codec.span(b"k"))
COUNTED = {"count": 5}
Connect = Callable[..., Any]
DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
END_STREAM, END_HEADERS = 1, 4


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def one_at_a_time() -> bytes:
    """The settings of a server that takes one call at a time."""
    return frame(SETTINGS, 0, 0, b"\0\3" + (1).to_bytes(4))


def farewell(last: int) -> bytes:
    """The word that no call after the last will be taken."""
    return frame(GOAWAY, 0, 0, last.to_bytes(4) + bytes(4))


class Grpc:
    """One accepted connection, as a server of gRPC reads and answers it."""

    def __init__(self, peer: Peer, settings: bytes = frame(SETTINGS)) -> None:
        self.peer = peer
        self.peer._exactly(24)
        self.say(settings)

    def say(self, data: bytes) -> None:
        self.peer.sock.sendall(data)

    def call(self) -> int:
        """Read until a call is there whole; returns its stream."""
        return self.until(DATA)

    def until(self, awaited: int) -> int:
        """Read until a frame of this kind that ends its stream, or acknowledges."""
        while True:
            size, kind, flags, stream = self._head()
            self.peer._exactly(size)
            if kind == awaited and flags & 1:
                return stream

    def answer(self, stream: int) -> None:
        body = b"\x20\x05"
        message = b"\0" + len(body).to_bytes(4) + body
        self.say(frame(HEADERS, END_HEADERS, stream, b"\x88") + frame(DATA, 0, stream, message))
        self.say(frame(HEADERS, END_HEADERS | END_STREAM, stream, b"\0\x0bgrpc-status\x010"))

    def _head(self) -> tuple[int, int, int, int]:
        head = self.peer._exactly(9)
        return int.from_bytes(head[:3]), head[3], head[4], int.from_bytes(head[5:])


def api(connect: Connect, server: Server) -> Any:
    return connect(server.port, wire=GrpcWire(secure=False))


def test_calls_that_are_under_way_at_a_farewell_are_answered(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        server = Grpc(peer)
        calls = [server.call() for _ in range(3 if number == 0 else 1)]
        if number == 0:  # as grpc-go does
            server.say(farewell((1 << 31) - 1) + frame(PING, 0, 0, bytes(8)))
            server.until(PING)
            server.say(farewell(calls[-1]))
        for call in calls:
            server.answer(call)
        peer.hang()

    with Server(script) as server:
        asked = api(connect, server)
        assert asked.ask(Batch((READ, READ, READ))) == (COUNTED,) * 3
        assert asked.ask(READ) == COUNTED
        assert server.connections == 2


def test_a_reply_taken_after_a_farewell_is_not_the_last() -> None:
    taken = threading.Event()

    def script(peer: Peer, number: int) -> None:
        server = Grpc(peer)
        first, second = server.call(), server.call()
        server.say(farewell(second))
        server.answer(first)
        assert taken.wait(5)
        server.answer(second)

    with Server(script) as server:
        endpoint = Endpoint("127.0.0.1", server.port)
        pool = Pool(endpoint, GrpcWire(secure=False).speaker(endpoint))
        deadline = time.monotonic() + 5
        pipeline = Pipeline(pool, [(READ.path, READ.body)] * 2).send(deadline)
        assert pipeline.next(deadline).status == 0
        taken.set()
        assert pipeline.next(deadline).status == 0
        assert not pool._idle


def test_calls_beyond_a_farewell_fail_at_once(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        server = Grpc(peer)
        first, _ = server.call(), server.call()
        server.say(farewell(first))
        server.answer(first)
        peer.hang()

    with Server(script) as server:
        answered, refused = api(connect, server).ask(Batch((READ, READ)))
        assert answered == COUNTED
        assert "did not take the call" in str(refused)


def test_a_connection_on_which_a_server_never_stops_is_left() -> None:
    """Blocking, what comes meanwhile is read when the connection is needed again."""

    begun = threading.Event()

    def script(peer: Peer, number: int) -> None:
        server = Grpc(peer)
        server.answer(server.call())
        more = frame(PING, 0, 0, bytes(8)) * 10_000
        while number == 0:
            if not select.select([], [peer.sock], [], 0)[1]:
                begun.set()  # the kernels on both sides are full of it: the next reading finds no pause
            server.say(more)

    with Server(script) as server:
        asked = BlockingApi([server.port], wire=GrpcWire(secure=False))
        assert asked.ask(READ) == COUNTED
        assert begun.wait(5)
        assert asked.ask(READ) == COUNTED
        assert server.connections == 2
        asked.end()


def test_what_the_server_takes_one_by_one_is_all_asked(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        server = Grpc(peer, one_at_a_time())
        while True:
            server.answer(server.call())

    with Server(script) as server:
        asked = api(connect, server)
        assert asked.ask(READ) == COUNTED
        assert asked.ask(Batch((READ, READ, READ))) == (COUNTED,) * 3
        assert server.connections == 1


def by_what_is_asked_for(peer: Peer, number: int) -> None:
    """Serve gRPC, or the gateway, as etcd does; answer once."""
    if peer.sock.selected_alpn_protocol() == "h2":  # type: ignore[attr-defined]
        server = Grpc(peer)
        server.answer(server.call())
    else:
        peer.request()
        peer.answer({"count": "5"})
    peer.hang()


@pytest.mark.parametrize("loop", [None, AsyncApi.new_loop, UvloopApi.new_loop])
def test_clients_of_both_kinds_share_a_context(loop: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
    context = trusting()

    def ask(port: int, *, grpc: bool) -> Any:
        """Ask on a connection of its own."""
        backend = EtcdBackend([("127.0.0.1", port)], "app", ssl_context=context, grpc=grpc)
        if loop is None:
            connection = backend.connection(lambda _: None)
            reply = connection.ask(READ, 5)
            connection.close()
            return reply

        async def ask() -> Any:
            connection = backend.async_connection(lambda _: None)
            reply = await connection.ask(READ, 5)
            await connection.close()
            return reply

        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(ask())

    with Server(by_what_is_asked_for, tls=True) as server:
        for _ in range(2):
            assert int(ask(server.port, grpc=True)["count"]) == 5
            assert int(ask(server.port, grpc=False)["count"]) == 5
        context.set_alpn_protocols(["http/1.1"])  # another library does
        assert int(ask(server.port, grpc=True)["count"]) == 5
