"""What a connection has to be, on both APIs, against scripted servers."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.wakeups import Changed, Disturbed, Gone
from recipes.errors import StoreFull, StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores import addresses, sockets
from recipes.stores.addresses import Endpoint
from recipes.stores.credentials import Credentials
from recipes.stores.etcd.requests import EtcdError, LogIn, Post, Watch
from recipes.stores.secret import Secret
from tests.pace import taking
from tests.stores.etcd.fakes import HEADER, Box, Peer, Server, trusting
from tests.threads import refuse

PUT = Post("/kv/put", {"key": b"k"})
Connect = Callable[..., Any]


class Etcd:
    """A script: unary calls are answered with their path; a watch stream runs ``stream``."""

    def __init__(self, stream: Callable[[Peer, int], None] | None = None) -> None:
        self.stream = stream
        self.streams = 0
        self.hasleader: list[str | None] = []
        self.tokens: list[str | None] = []

    def __call__(self, peer: Peer, number: int) -> None:
        while True:
            path, headers, body = peer.request()
            self.hasleader.append(headers.get("grpc-metadata-hasleader"))
            self.tokens.append(headers.get("authorization"))
            if path == "/v3/watch":
                assert headers["connection"] == "close"
                self.streams += 1
                assert self.stream is not None
                self.stream(peer, self.streams)
                return
            if path == "/v3/auth/authenticate":
                peer.answer({"token": f"t{len(self.tokens)}"})
            else:
                peer.answer({"path": path, "body": body})


def test_a_post_is_answered_with_the_document(connect: Connect) -> None:
    etcd = Etcd()
    with Server(etcd) as server:
        api = connect(server.port)
        assert api.ask(PUT) == {"path": "/v3/kv/put", "body": {"key": "aw=="}}
        assert api.ask(PUT)
        assert server.connections == 1
        assert etcd.hasleader == ["true", "true"]
        assert etcd.tokens == [None, None]


def test_a_login_gives_the_token_for_what_follows(connect: Connect) -> None:
    etcd = Etcd()
    with Server(etcd) as server:
        api = connect(server.port, credentials=Credentials("app", Secret("pw")))
        assert api.ask(LogIn(0)) == 1
        assert api.ask(PUT)
        assert api.ask(LogIn(0)) == 1  # another call has done so
        assert api.ask(LogIn(1)) == 2
        assert api.ask(PUT)
        assert etcd.tokens == [None, "t1", None, "t3"]


APP = Credentials("app", Secret("pw"))


def test_a_login_without_a_token_is_no_login(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({"token": ""})
        peer.hang()

    with Server(script) as server, pytest.raises(StoreRefused, match="has no token; is this an etcd"):
        connect(server.port, credentials=APP).ask(LogIn(0))


def test_a_login_that_is_not_answered_ends_in_time(connect: Connect) -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        api = connect(server.port, credentials=APP)
        with pytest.raises(StoreUnavailable, match="in time"):
            api.ask(LogIn(0), 0.05)


def test_a_password_that_is_not_given_is_waited_for_no_longer_than_asked(connect: Connect) -> None:
    called: list[threading.Thread] = []
    going_on = threading.Event()

    def password() -> str:
        called.append(threading.current_thread())
        assert going_on.wait(10)
        return "pw"

    with Server(Etcd()) as server:
        who = Credentials("app", password)
        for _ in range(3):  # each session that is tried has a connection of its own
            api = connect(server.port, credentials=who)
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="no answer to a login in time"):
                    api.ask(LogIn(0), 0.05)
        assert len(called) == 1, "it is asked once at a time"
        assert not any(calling.waiting for calling in who.asker._under_way.values())
        going_on.set()
        called[0].join(10)
        assert api.ask(LogIn(0), 5) == 1


def test_who_waits_for_another_login_ends_in_time_too(connect: Connect) -> None:
    called, going_on = threading.Event(), threading.Event()

    def password() -> str:
        called.set()
        assert going_on.wait(5)
        return "pw"

    async def on_a_loop(connection: Any) -> tuple[Any, Any]:
        first = asyncio.ensure_future(connection.ask(LogIn(0), 5))
        assert await asyncio.to_thread(called.wait, 5)
        (late,) = await asyncio.gather(connection.ask(LogIn(0), 0.05), return_exceptions=True)
        going_on.set()
        return late, await first

    def in_threads(connection: Any) -> tuple[Any, Any]:
        with ThreadPoolExecutor() as pool:
            first = pool.submit(connection.ask, LogIn(0), 5)
            assert called.wait(5)
            late = pool.submit(connection.ask, LogIn(0), 0.05).exception()
            going_on.set()
            return late, first.result()

    with Server(Etcd()) as server:
        api = connect(server.port, credentials=Credentials("app", password))
        is_async = hasattr(api, "runner")
        late, first = api.runner.run(on_a_loop(api.connection)) if is_async else in_threads(api.connection)
        assert isinstance(late, StoreUnavailable)
        assert "no answer to a login in time" in str(late)
        assert first == 1
        assert api.ask(LogIn(0)) == 1


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        ("404 Not Found", b'{"error":"lease not found","code":5}', EtcdError),
        ("403 Forbidden", b'{"error":"permission denied","code":7}', EtcdError),
        ("401 Unauthorized", b'{"error":"invalid auth token","code":16}', EtcdError),
        ("412 Precondition Failed", b'{"error":"exists","code":9}', EtcdError),
        ("500 Internal Server Error", b'{"error":"what","code":13}', StoreUnavailable),
        ("200 OK", b'{"error":{"grpc_code":5,"message":"lease not found"}}', EtcdError),
        ("429 Too Many", b'{"error":"etcdserver: mvcc: database space exceeded","code":8}', StoreFull),
        ("503 Service Unavailable", b'{"error":"etcdserver: request timed out","code":14}', StoreUnavailable),
        ("504 Gateway Timeout", b"<html>", StoreUnavailable),
        ("504 Gateway Timeout", b'{"message":"the server is too slow","code":504}', StoreUnavailable),
        ("400 Bad Request", b"Client sent an HTTP request to an HTTPS server.\n", StoreUnavailable),
        ("200 OK", b"nonsense", StoreUnavailable),
        ("200 OK", b"[1]", StoreUnavailable),
    ],
)
def test_a_refusal_is_raised_and_the_connection_lives_on(
    connect: Connect, status: str, body: bytes, kind: type[Exception]
) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer(body, status)
        peer.request()
        peer.answer({})

    with Server(script) as server:
        api = connect(server.port)
        with pytest.raises(kind) as caught:
            api.ask(PUT)
        assert type(caught.value) is kind
        assert api.ask(PUT) == {}
        assert server.connections == 1


@pytest.mark.parametrize(
    "data", [b"", b"\x15\x03\x01\0\2\2\x46", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{"]
)
def test_no_answer_is_unavailable_and_the_next_endpoint_is_asked_next(connect: Connect, data: bytes) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(data)

    with Server(script) as bad, Server(Etcd()) as good:
        api = connect(bad.port, good.port)
        with pytest.raises(StoreUnavailable) as caught:
            api.ask(PUT)
        assert caught.value.store == f"127.0.0.1:{bad.port}"
        assert api.ask(PUT)
        assert (bad.connections, good.connections) == (1, 1)


def test_nobody_listens(connect: Connect, closed_port: Callable[[], int]) -> None:
    api = connect(closed_port())
    with pytest.raises(StoreUnavailable, match="Connection refused") as refused:
        api.ask(PUT)
    assert refused.value.unsent
    with pytest.raises(StoreUnavailable, match="Connection refused"):
        api.ask(Watch(b"k", Box()))


def test_of_several_calls_sent_together_it_is_known_that_none_was_sent(
    connect: Connect, closed_port: Callable[[], int]
) -> None:
    replies = connect(closed_port()).ask(Batch((PUT, PUT)))
    assert [reply.unsent for reply in replies] == [True, True]


def test_what_was_sent_and_not_answered_may_have_been_done(connect: Connect) -> None:
    """The same connection, once answered, once cut; then there is no server at all."""

    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({})
        peer.request()

    with Server(script) as server:
        api = connect(server.port)
        assert api.ask(PUT) == {}
        with pytest.raises(StoreUnavailable) as cut:
            api.ask(PUT)
        assert not cut.value.unsent
    with pytest.raises(StoreUnavailable, match="refused") as refused:
        api.ask(PUT)
    assert refused.value.unsent


def test_a_black_hole_is_left_in_time(connect: Connect) -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        api = connect(server.port)
        for request in (PUT, Watch(b"k", Box()), Batch((Watch(b"k", Box()), PUT))):
            with taking(1.5):
                try:
                    reply = api.ask(request, 0.5)
                except StoreUnavailable as error:
                    reply = (error,)
                assert all("in time" in str(part) and not part.unsent for part in reply)
        assert len(api.multiplexer.book) == 0


def test_a_listener_that_accepts_nobody_is_left_in_time(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        fill = [socket.socket() for _ in range(8)]
        for sock in fill:
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        api = connect(listener.getsockname()[1])
        with taking(1.5):
            with pytest.raises(StoreUnavailable, match="in time") as caught:
                api.ask(PUT, 0.05)
            assert caught.value.unsent
            with pytest.raises(StoreUnavailable, match="in time"):
                api.ask(Watch(b"k", Box()), 0.05)
            api.close()  # while the stream still connects
        for sock in fill:
            sock.close()


def test_a_connection_the_server_closed_meanwhile_is_not_used(connect: Connect) -> None:
    closed = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({"on": number})
        if number == 0:
            peer.sock.close()
            closed.set()
        else:
            peer.hang()

    with Server(script) as server:
        api = connect(server.port)
        assert api.ask(PUT) == {"on": 0}
        assert closed.wait(5)  # the loop of the asyncio API has not seen it
        assert api.ask(PUT) == {"on": 1}


def test_a_reply_that_ends_with_the_connection_is_whole(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\n\r\n{}")

    with Server(script) as server:
        api = connect(server.port)
        assert api.ask(PUT) == api.ask(PUT) == {}
        assert server.connections == 2


def test_bytes_nobody_asked_for_end_the_connection(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1")
        peer.hang()

    with Server(script) as server:
        api = connect(server.port)
        assert api.ask(PUT) == api.ask(PUT) == {}
        assert server.connections == 2


def test_a_watch_is_armed_and_tells_of_its_one_event(connect: Connect) -> None:
    cancelled = threading.Event()

    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        assert message["create_request"]["filters"] == ["NOPUT"]
        peer.begin()
        first = peer.created(message, 41)
        message = peer.chunk()
        assert "filters" not in message["create_request"]
        second = peer.created(message, 42)
        deletion = {"header": HEADER, "watch_id": str(first), "events": [{"type": "DELETE", "kv": {}}]}
        change = {"header": HEADER, "watch_id": str(second), "events": [{"kv": {}}]}
        peer.say(deletion, change)
        assert [peer.chunk()["cancel_request"]["watch_id"] for _ in range(2)] == [first, second]
        cancelled.set()
        peer.hang()

    etcd = Etcd(stream)
    with Server(etcd) as server:
        api = connect(server.port)
        box, other = Box(), Box()
        assert api.ask(Watch(b"k", box)) == 41
        assert api.ask(Watch("ö".encode(), other, changes=True)) == 42
        assert api.event(box) == Gone("k")
        assert api.event(other) == Changed("ö")
        assert api.until(cancelled)
        assert etcd.hasleader == ["true"]
        assert server.connections == 1


def test_a_batch_watches_first_and_answers_for_each_part(connect: Connect) -> None:
    watched = threading.Event()

    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        watched.set()
        peer.begin()
        peer.created(message)
        peer.hang()

    class Ordered(Etcd):
        def __call__(self, peer: Peer, number: int) -> None:
            path, _, _ = peer.request()
            if path == "/v3/watch":
                stream(peer, number)
            assert watched.wait(5)
            peer.answer({"first": True})
            peer.request()
            peer.answer({"error": "lease not found", "code": 5}, "404 Not Found")
            peer.hang()

    with Server(Ordered()) as server:
        api = connect(server.port)
        first, revision, second = api.ask(Batch((PUT, Watch(b"k", Box()), PUT)))
        assert (first, revision) == ({"first": True}, 7)
        assert isinstance(second, EtcdError)
        assert server.connections == 2


def test_a_batch_that_is_cut_says_what_was_answered(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        path, _, _ = peer.request()
        if path == "/v3/watch":
            peer.sock.close()
            return
        peer.answer({})
        peer.reset()

    with Server(script) as server:
        api = connect(server.port)
        first, second, watched = api.ask(Batch((PUT, PUT, Watch(b"k", Box()))))
        assert first == {} or isinstance(first, StoreUnavailable)  # a reset may overtake the reply
        assert isinstance(second, StoreUnavailable)
        assert isinstance(watched, StoreUnavailable)
        assert api.ask(Batch(())) == ()


def test_a_watch_refused_for_lack_of_permission_says_so(connect: Connect) -> None:
    def stream(peer: Peer, number: int) -> None:
        peer.chunk()
        peer.begin()
        reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
        peer.say(
            {"header": HEADER, "watch_id": "-1", "created": True, "canceled": True, "cancel_reason": reason}
        )
        peer.hang()

    with Server(Etcd(stream)) as server:
        api = connect(server.port)
        with pytest.raises(EtcdError) as caught:
            api.ask(Watch(b"k", Box()))
        assert caught.value.code == 7
        (error,) = api.ask(Batch((Watch(b"k", Box()),)), 0.05)
        assert isinstance(error, StoreUnavailable)


@pytest.mark.parametrize("how", ["end", "reset", "error", "garbage", "half"])
def test_a_stream_that_breaks_disturbs_and_the_next_watch_opens_another(connect: Connect, how: str) -> None:
    armed = threading.Event()

    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        peer.begin()
        peer.created(message)
        armed.wait(5)
        if number > 1:
            peer.hang()
        elif how == "reset":
            peer.reset()
        elif how == "error":
            peer.say({"error": {"grpc_code": 14, "message": "etcdserver: no leader"}}, wrap=False)
            peer.ended()
        elif how == "garbage":
            peer.sock.sendall(b"zz\r\n")
            peer.ended()
        elif how == "half":
            peer.sock.sendall(b'9\r\n{"res')

    etcd = Etcd(stream)
    with Server(etcd) as server:
        api = connect(server.port)
        box = Box()
        assert api.ask(Watch(b"k", box)) == 7
        armed.set()
        assert api.event(box) == Disturbed()
        assert api.ask(Watch(b"k", box)) == 7
        assert etcd.streams == 2


def test_a_silent_stream_is_asked_then_left_for_the_next_endpoint(connect: Connect) -> None:
    asked = threading.Event()

    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        peer.begin()
        peer.created(message)
        assert peer.chunk() == {"progress_request": {}}
        peer.say({"header": HEADER, "watch_id": "-1"})
        assert peer.chunk() == {"progress_request": {}}
        asked.set()
        peer.ended()

    def answering(peer: Peer, number: int) -> None:
        message = peer.chunk()
        peer.begin()
        peer.created(message, 9)
        peer.hang()

    with Server(Etcd(stream)) as first, Server(Etcd(answering)) as second:
        api = connect(first.port, second.port)
        api.multiplexer._silence_s = 0.05
        box = Box()
        assert api.ask(Watch(b"k", box)) == 7
        assert api.event(box) == Disturbed()
        assert asked.is_set()
        assert api.ask(Watch(b"k", box)) == 9


def test_forgetting_cancels_on_the_wire(connect: Connect) -> None:
    cancelled = threading.Event()

    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        peer.begin()
        number_of = peer.created(message)
        assert peer.chunk() == {"cancel_request": {"watch_id": number_of}}
        cancelled.set()
        peer.hang()

    with Server(Etcd(stream)) as server:
        api = connect(server.port)
        box, other = Box(), Box()
        api.forget(box)  # nothing to forget yet
        api.ask(Watch(b"k", box))
        api.ask(Watch(b"k", other))
        api.forget(box)
        api.forget(other)
        assert api.until(cancelled)
        assert len(api.multiplexer.book) == 0
        api.close()
        api.forget(box)


def test_a_reply_that_was_whole_counts_though_the_next_one_is_none(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        for _ in range(2):
            peer.request()
        peer.sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}nonsense\r\n\r\n")
        peer.hang()

    with Server(script) as server:
        first, second = connect(server.port).ask(Batch((PUT, PUT)))
        assert first == {}
        assert isinstance(second, StoreUnavailable)


def test_behind_a_buffering_proxy_each_watch_has_its_connection(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    closed = threading.Event()

    def script(peer: Peer, number: int) -> None:
        path, headers, body = peer.request()
        if "transfer-encoding" in headers:
            peer.ended()  # withheld for ever
            return
        assert path == "/v3/watch"
        peer.begin()
        mine = peer.created(body)
        if body["create_request"]["key"] == "bA==":
            peer.gone(mine)
            peer.ended()
            closed.set()
        peer.hang()

    with Server(script) as server:
        api = connect(server.port)
        api.multiplexer._patience_s = 0.05
        box, other = Box(), Box()
        assert api.ask(Watch(b"k", box)) == 7
        assert api.ask(Watch(b"l", other)) == 7
        assert api.event(other) == Gone("l")
        assert api.until(closed)
        with caplog.at_level(logging.WARNING, "recipes"):
            until = time.monotonic() + 10
            while "proxy" not in caplog.text and time.monotonic() < until:
                api.ask(Batch((Watch(b"m", other),)))
                api.forget(other)
        assert caplog.text.count("proxy") == 1
        assert len(api.multiplexer.book) == 1


def test_behind_a_proxy_that_wants_a_length_each_watch_has_its_connection(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        _, headers, body = peer.request()
        if "transfer-encoding" in headers:
            peer.answer(b"<html>", "411 Length Required", "Connection: close\r\n")
            return
        peer.begin()
        peer.gone(peer.created(body))
        peer.hang()

    with Server(script) as server:
        api = connect(server.port)
        for key in (b"k", b"l"):
            box = Box()
            assert api.ask(Watch(key, box)) == 7
            assert api.event(box) == Gone(key.decode())
        assert server.connections == 3


def test_closing_is_quick_tells_who_waits_and_answers_nobody_any_more(connect: Connect) -> None:
    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        peer.begin()
        peer.created(message)
        peer.hang()

    with Server(Etcd(stream)) as server:
        api = connect(server.port)
        box = Box()
        api.ask(PUT)
        api.ask(Watch(b"k", box))
        with taking(1):
            api.close()
        assert api.event(box) == Disturbed()
        for request in (PUT, Watch(b"k", box)):
            with pytest.raises(StoreUnavailable, match="closed") as closed:
                api.ask(request)
            assert closed.value.unsent is isinstance(request, Post)
        assert all(isinstance(reply, StoreUnavailable) for reply in api.ask(Batch((Watch(b"k", box), PUT))))
        api.close()


def test_what_is_no_request_is_refused(connect: Connect) -> None:
    api = connect(1)
    with pytest.raises(AssertionError):
        api.ask("nonsense")
    with pytest.raises(AssertionError):
        api.ask(Batch((Batch(()),)))


# TLS.


def test_over_tls_calls_and_watches_work(connect: Connect) -> None:
    def stream(peer: Peer, number: int) -> None:
        message = peer.chunk()
        peer.begin()
        peer.gone(peer.created(message))
        peer.hang()

    with Server(Etcd(stream), tls=True) as server:
        api = connect(server.port, ssl_context=trusting())
        box = Box()
        assert api.ask(Post("/kv/put", {"x": "x" * 2_000_000}))["body"]["x"]
        assert api.ask(PUT)
        assert api.ask(Watch(b"k", box)) == 7
        assert api.event(box) == Gone("k")
        assert server.connections == 2


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_the_end_of_a_connection_that_has_answered_is_no_question_of_tls(connect: Connect, tls: bool) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({})
        peer.request()

    with Server(script, tls=tls) as server:
        api = connect(server.port, **({"ssl_context": trusting()} if tls else {}))
        assert api.ask(PUT) == {}
        with pytest.raises(StoreUnavailable) as cut:
            api.ask(PUT)
        assert cut.value.detail == "the connection was closed by the server"


@pytest.mark.parametrize("request_", [PUT, Watch(b"k", Box())], ids=["post", "watch"])
def test_a_certificate_that_is_not_trusted_is_refused(connect: Connect, request_: Any) -> None:
    with Server(lambda peer, number: peer.hang(), tls=True) as server:
        api = connect(server.port, ssl_context=ssl.create_default_context())
        with pytest.raises(StoreUntrusted, match=r"certificate is not accepted: self.signed") as caught:
            api.ask(request_)
        assert caught.value.unsent is isinstance(request_, Post)


def test_tls_to_a_plain_port_says_so(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.sock.recv(1024)
        peer.sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with Server(script) as server:
        api = connect(server.port, ssl_context=trusting())
        with pytest.raises(StoreUntrusted, match="does not speak TLS on this port"):
            api.ask(PUT)


def test_a_port_that_resets_the_handshake_is_asked_about_tls(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sock.close()  # resets it

    with Server(script) as server:
        api = connect(server.port, ssl_context=trusting())
        for _ in range(100):  # it may come before uvloop has handed the transport over, or after it
            with pytest.raises(StoreUnavailable, match=r"does this port speak TLS\?"):
                api.ask(PUT)
    gc.collect()  # here, and not amid another test


def test_a_handshake_that_does_not_end_is_left_in_time(connect: Connect) -> None:
    with Server(lambda peer, number: peer.hang()) as server:
        api = connect(server.port, ssl_context=trusting())
        with taking(1), pytest.raises(StoreUnavailable, match="in time") as caught:
            api.ask(PUT, 0.05)
        assert caught.value.unsent


# Names and addresses.


def test_each_address_of_a_name_is_tried(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, closed_port: Callable[[], int]
) -> None:
    with Server(Etcd()) as server:
        dead = (socket.AF_INET, ("127.0.0.1", closed_port()))
        alive = (socket.AF_INET, ("127.0.0.1", server.port))

        def resolve(endpoint: Endpoint, flags: int) -> Any:
            if flags:
                raise OSError
            return [dead, alive]

        monkeypatch.setattr(addresses, "_resolve", resolve)
        assert connect(server.port).ask(PUT)


def test_a_name_that_does_not_resolve_is_unavailable(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(endpoint: Endpoint, flags: int) -> Any:
        raise OSError("no such name")

    monkeypatch.setattr(addresses, "_resolve", resolve)
    with pytest.raises(StoreUnavailable, match="cannot be resolved: no such name") as caught:
        connect(1).ask(PUT)
    assert caught.value.unsent


def test_a_name_for_which_no_thread_can_be_started_is_unavailable(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(Etcd()) as server:

        def resolve(endpoint: Endpoint, flags: int) -> Any:
            if flags:
                raise OSError
            return [(socket.AF_INET, ("127.0.0.1", server.port))]

        monkeypatch.setattr(addresses, "_resolve", resolve)
        api = connect(server.port)
        with monkeypatch.context() as patched:
            refuse(patched, "recipes-resolve")
            with pytest.raises(StoreUnavailable, match="can't start new thread") as caught:
                api.ask(PUT)
            assert caught.value.unsent
        assert api.ask(PUT)


def test_a_resolver_that_hangs_is_not_waited_for(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    release, done = threading.Event(), threading.Event()

    def resolve(endpoint: Endpoint, flags: int) -> Any:
        if flags:
            raise OSError
        release.wait(10)
        done.set()
        return []

    monkeypatch.setattr(addresses, "_resolve", resolve)
    api = connect(1)
    with pytest.raises(StoreUnavailable, match="in time"):
        api.ask(PUT, 0.05)
    release.set()
    assert api.until(done)


def test_a_port_that_is_refused_later_is_refused(
    monkeypatch: pytest.MonkeyPatch, closed_port: Callable[[], int]
) -> None:
    """A connect that does not fail at once fails with the socket's own error."""
    port = closed_port()
    real = socket.socket.connect

    class Slow(socket.socket):
        def connect(self, address: Any) -> None:
            self.setblocking(True)
            try:
                real(self, address)
            except OSError:
                self.setblocking(False)
                raise BlockingIOError from None

        def getsockopt(self, *args: Any) -> Any:
            return 111

    monkeypatch.setattr(socket, "socket", Slow)
    with pytest.raises(ConnectionRefusedError):
        sockets.dial(Endpoint("127.0.0.1", port), None, time.monotonic() + 5)


def test_a_connection_on_which_something_came_unasked_is_not_used(connect: Connect) -> None:
    go_on, said = threading.Event(), threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.answer({"number": str(number)})
        if number == 0:
            assert go_on.wait(5)
            peer.answer({"error": "this connection was idle for too long"}, "408 Request Timeout")
            said.set()
        peer.hang()

    with Server(script) as server:
        api = connect(server.port)
        assert api.ask(PUT) == {"number": "0"}
        go_on.set()
        assert said.wait(5)  # while no loop runs
        assert api.ask(PUT) == {"number": "1"}


def test_a_connection_that_is_reset_answers_at_once(connect: Connect) -> None:
    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.reset()

    with Server(script) as server, pytest.raises(StoreUnavailable, match=r"reset|closed"):
        connect(server.port).ask(PUT)


def test_a_call_that_is_not_answered_takes_the_watches_to_the_next_server(connect: Connect) -> None:
    """The one that it leaves may be silent for long, and its watches wait for nothing."""

    def silent(peer: Peer, number: int) -> None:
        path, _, _ = peer.request()
        if path != "/v3/watch":
            peer.reset()
            return
        message = peer.chunk()
        peer.begin()
        peer.created(message)
        peer.hang()

    def hangs(peer: Peer, number: int) -> None:
        peer.hang()

    with Server(silent) as left, Server(hangs) as other:
        api = connect(left.port, other.port)
        box = Box()
        assert api.ask(Watch(b"k", box)) == 7
        with pytest.raises(StoreUnavailable):
            api.ask(PUT)
        assert api.event(box) == Disturbed()
