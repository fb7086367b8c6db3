"""Kept connections to one server, as the blocking API has them."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from recipes.errors import StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import pool as pool_module
from recipes.stores.etcd.gateway import GatewaySpeaker
from recipes.stores.etcd.gateway_wire import GATEWAY
from recipes.stores.etcd.grpc_wire import GrpcWire
from recipes.stores.etcd.pool import Pipeline, Pool, once
from recipes.stores.etcd.wires import Reply, Wire
from recipes.stores.sockets import Conn, dial
from tests.pace import taking
from tests.run.striking import StrikeAnywhere
from tests.stores.etcd.fakes import Peer, Server, trusting
from tests.stores.etcd.test_grpc_connections import Grpc
from tests.strangers import Stranger

CALL: tuple[str, Any] = ("/x", {})
READ: tuple[str, Any] = ("/kv/range", {})


def made(server: Server, **options: Any) -> Pool:
    endpoint = Endpoint("127.0.0.1", server.port)
    return Pool(endpoint, GatewaySpeaker(endpoint), **options)


def ask(pool: Pool, body: Any = None, within_s: float = 5.0) -> Reply:
    """Make one call."""
    deadline = time.monotonic() + within_s
    return Pipeline(pool, [("/x", {} if body is None else body)]).send(deadline).next(deadline)


def document(reply: Reply) -> Any:
    return json.loads(reply.body)


def echo(peer: Peer, number: int) -> None:
    while True:
        path, headers, body = peer.request()
        peer.answer({"path": path, "body": body, "on": number, "token": headers.get("authorization")})


def test_connections_are_kept_and_the_last_used_is_used_next() -> None:
    with Server(echo) as server:
        pool = made(server, authorization=lambda: "t")
        first = Pipeline(pool, [CALL]).send(time.monotonic() + 5)
        second = Pipeline(pool, [CALL]).send(time.monotonic() + 5)
        assert document(second.next(time.monotonic() + 5))["on"] == 1
        assert document(first.next(time.monotonic() + 5))["on"] == 0
        reply = ask(pool)
        assert (reply.status, reply.reason) == (200, "OK")
        assert document(reply) == {"path": "/v3/x", "body": {}, "on": 0, "token": "t"}
        pool.close()


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_IDLE_KEPT", 1)
    with Server(echo) as server:
        pool = made(server)
        calls = [Pipeline(pool, [CALL]).send(time.monotonic() + 5) for _ in range(2)]
        for call in calls:
            call.next(time.monotonic() + 5)
        assert len(pool._idle) == 1
        pool.close()
        assert len(pool._idle) == 0


def test_a_black_hole_is_left_in_time_and_its_connection_with_the_idle_ones_is_closed() -> None:
    ended = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        if number == 1:
            peer.answer({})
        if peer.ended() and number == 1:
            ended.set()

    with Server(script) as server:
        pool = made(server)
        stuck = Pipeline(pool, [CALL]).send(time.monotonic() + 5)
        ask(pool)
        late = pytest.raises(StoreUnavailable, match="no answer in time")
        with taking(1, at_least_s=0.05), late as caught:
            stuck.next(time.monotonic() + 0.05)
        assert not caught.value.unsent
        assert ended.wait(5)
        assert not pool._idle


def test_a_long_request_is_sent_whole() -> None:
    with Server(echo) as server:
        pool = made(server)
        body = {"x": "x" * 8_000_000}
        assert document(ask(pool, body, 20))["body"] == body
        pool.close()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "Connection reset by peer|ended inside the body"),
        (b"\x15\x03\x01\x00\x02\x02", "not HTTP|Connection reset"),
        (b"", "Connection reset by peer|closed before"),
    ],
)
def test_half_a_reply_is_none(data: bytes, words: str) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(data)
        peer.reset()

    with Server(script) as server:
        pool = made(server)
        with pytest.raises(StoreUnavailable, match=words):
            ask(pool)


def test_an_interrupted_call_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def script(peer: Peer, number: int) -> None:
        if peer.ended():
            ended.set()

    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    with Server(script) as server:
        pool = made(server)
        with monkeypatch.context() as patch:
            patch.setattr(Conn, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                ask(pool)
        assert ended.wait(5)
        ended.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Conn, "send", interrupt)
            with pytest.raises(KeyboardInterrupt):
                ask(pool)
        pool.close()
        assert ended.wait(5)
        assert not pool._idle


def test_an_interrupt_anywhere_loses_no_connection() -> None:
    """It may strike as a call returns: what was returned is lost then.

    Python closes what was just made or is being closed: nobody else has it.
    """
    for at in itertools.count(1):
        strike, late = StrikeAnywhere(at), threading.Event()

        def script(peer: Peer, number: int, late: threading.Event = late) -> None:
            while True:
                path, _, _ = peer.request()
                late.set() if path.endswith("/x") else late.wait(5)
                peer.answer({})

        with Server(script) as server, warnings.catch_warnings(record=True) as lost:
            warnings.simplefilter("always", ResourceWarning)
            pool = made(server)
            once(pool, CALL, time.monotonic() + 5)
            late.clear()
            try:
                with strike:
                    with contextlib.suppress(StoreUnavailable):
                        once(pool, READ, time.monotonic())  # given up, and answered when the next call is
                    once(pool, CALL, time.monotonic() + 5)
                    pool.sweep()
                    with contextlib.suppress(StoreUnavailable):
                        once(pool, READ, time.monotonic())
                    pool.close()
            except KeyboardInterrupt:
                with contextlib.suppress(StoreUnavailable):  # it is closed, or not
                    assert once(pool, CALL, time.monotonic() + 5).status == 200, strike.where
            pool.close()
            assert not pool._idle
            assert not pool._given_up
            del pool
            gc.collect(1)
        python = any(file in strike.where for file in ("sockets.py", "descriptors.py"))
        assert python or not lost, f"{strike.where}: {[str(one.message) for one in lost]}"
        if strike.left > 0:
            assert at > 200
            return


def test_what_somebody_closed_is_not_used_again() -> None:
    with Server(echo) as server:
        pool = made(server)
        ask(pool)
        pool._idle[0].conn.close()
        assert document(ask(pool))["on"] == 1
        pool.close()


def answering(peer: Peer, number: int) -> None:
    """Answer calls by gRPC."""
    grpc = Grpc(peer)
    while True:
        grpc.answer(grpc.call())


WIRES = pytest.mark.parametrize(
    ("wire", "script"), [(GATEWAY, echo), (GrpcWire(secure=False), answering)], ids=["gateway", "grpc"]
)


def pool_on(wire: Wire, server: Server) -> Pool:
    endpoint = Endpoint("127.0.0.1", server.port)
    return Pool(endpoint, wire.speaker(endpoint))


@WIRES
def test_what_other_code_closed_is_not_used_again_nor_read_nor_closed(
    take: Callable[[int], Stranger], wire: Wire, script: Any
) -> None:
    with Server(script) as server:
        pool = pool_on(wire, server)
        for connections in (1, 2):
            assert once(pool, READ, time.monotonic() + 5).body
            assert server.connections == connections
            take(pool._idle[0].conn.sock.fileno())
        pool.close()


@WIRES
@pytest.mark.parametrize("given_up", [False, True])
def test_what_other_code_has_opened_in_its_place_is_not_waited_for(
    wire: Wire, script: Any, given_up: bool
) -> None:
    """The other code's connection may be one that is read until something comes."""
    going_on = threading.Event()

    def slow(peer: Peer, number: int) -> None:
        if given_up and number == 0:
            going_on.wait(10)
        script(peer, number)

    with Server(slow) as server:
        pool = pool_on(wire, server)
        if given_up:
            with pytest.raises(StoreUnavailable, match="no answer in time"):
                once(pool, READ, time.monotonic() + 0.05)
            ((_, talk),) = pool._given_up
        else:
            once(pool, READ, time.monotonic() + 5)
            (talk,) = pool._idle
        stranger = Stranger(talk.conn.sock.fileno(), silent=True)

        def call() -> None:
            pool.sweep()
            once(pool, READ, time.monotonic() + 5)

        calling = threading.Thread(target=call, daemon=True)
        calling.start()
        calling.join(5)
        assert not calling.is_alive()
        assert stranger.hurt() == ""
        assert server.connections == 2
        assert not pool._given_up
        going_on.set()
        pool.close()
        stranger.close()


@pytest.mark.parametrize("wire", [GATEWAY, GrpcWire(secure=False)], ids=["gateway", "grpc"])
def test_what_is_given_up_is_not_read_in_its_place(take: Callable[[int], Stranger], wire: Wire) -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        pool = pool_on(wire, server)
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            once(pool, READ, time.monotonic() + 0.05)
        ((_, talk),) = pool._given_up
        take(talk.conn.sock.fileno())
        pool.sweep()
        assert not pool._given_up
        pool.close()


def test_a_pipeline_is_one_connection_and_its_replies_come_in_order() -> None:
    def script(peer: Peer, number: int) -> None:
        bodies = [peer.request()[2] for _ in range(3)]  # all are there before the first is answered
        data = b"".join(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % body for body in bodies)
        peer.sock.sendall(data[:50])
        peer.sock.sendall(data[50:])
        peer.hang()

    with Server(script) as server:
        pool = made(server)
        deadline = time.monotonic() + 5
        pipeline = Pipeline(pool, [("/x", n) for n in range(3)]).send(deadline)
        assert [pipeline.next(deadline).body for _ in range(3)] == [b"0", b"1", b"2"]
        assert len(pool._idle) == 1
        with pytest.raises(StoreUnavailable, match="all replies were taken"):
            pipeline.next(deadline)
        pipeline.close()
        pool.close()


def test_a_pipeline_that_the_server_closes_fails_for_the_rest() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({}, headers="Connection: close\r\n")

    with Server(script) as server:
        pool = made(server)
        deadline = time.monotonic() + 5
        pipeline = Pipeline(pool, [CALL, CALL]).send(deadline)
        assert document(pipeline.next(deadline)) == {}
        with pytest.raises(StoreUnavailable, match="the server closed the connection"):
            pipeline.next(deadline)


def test_replies_that_came_before_the_end_of_a_connection_are_all_served() -> None:
    def script(peer: Peer, number: int) -> None:
        for _ in range(2):
            peer.request()
        reply = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
        peer.sock.sendall(reply + b"\r\n{}" + reply + b"Connection: close\r\n\r\n[]")

    with Server(script) as server:
        pool = made(server)
        deadline = time.monotonic() + 5
        pipeline = Pipeline(pool, [CALL, CALL]).send(deadline)
        assert [pipeline.next(deadline).body for _ in range(2)] == [b"{}", b"[]"]
        assert not pool._idle


def test_bytes_nobody_asked_for_end_the_connection() -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1")
        peer.hang()

    with Server(script) as server:
        pool = made(server)
        assert document(ask(pool)) == {}
        assert not pool._idle


def test_what_never_stops_by_tls_is_read_until_the_deadline() -> None:
    def script(peer: Peer, number: int) -> None:
        while True:
            peer.sock.sendall(bytes(1 << 20))

    with Server(script, tls=True) as server:
        conn = dial(Endpoint("127.0.0.1", server.port), trusting(), time.monotonic() + 5)
        assert conn.receive(time.monotonic() + 5)
        assert conn.receive(time.monotonic() + 5), "there is more than one reading takes"
        with pytest.raises(TimeoutError, match="no answer in time"):
            conn.receive(time.monotonic())
        conn.close()


def test_a_closed_pool_asks_no_more_and_keeps_nothing() -> None:
    with Server(echo) as server:
        pool = made(server)
        late = Pipeline(pool, [CALL]).send(time.monotonic() + 5)
        pool.close()
        with pytest.raises(StoreUnavailable, match="closed") as caught:
            ask(pool)
        assert caught.value.unsent
        late.next(time.monotonic() + 5)
        assert not pool._idle
