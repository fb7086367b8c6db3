"""The handler alone: sockets, results, threads."""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import Callback

from recipes._contract.wakeups import Changed
from recipes.errors import StoreRefused, StoreUnavailable, StoreUntrusted
from recipes.stores.zookeeper import kazoo_client
from recipes.stores.zookeeper.handler import GOODBYE, LeanHandler
from recipes.stores.zookeeper.handler_sockets import READ_AHEAD, LeanSocket, Waker, poll, tls_context
from recipes.stores.zookeeper.requests import Children, Connect, Create, Exists, ZooKeeperError
from tests.pace import taking
from tests.stores.zookeeper.conftest import Box, Connections, answered
from tests.stores.zookeeper.fake_server import FakeZooKeeper

CERTIFICATE = str(Path(__file__).with_name("certificate.pem"))


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def pair(listener: socket.socket) -> Iterator[tuple[LeanSocket, socket.socket]]:
    near: Any = LeanHandler().create_connection(listener.getsockname())
    far, _ = listener.accept()
    yield near, far
    near.close()
    far.close()


# Sockets.


def test_a_socket_reads_ahead(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    far.sendall(b"headbody")
    assert near.pending() == 0
    assert near.recv(4) == b"head"
    assert near.pending() == 4
    assert poll([near], [], 5) == ([near], [])
    assert near.recv(2) + near.recv(100) == b"body"
    assert poll([near], [], 0) == ([], [])
    far.close()
    assert near.recv(4) == b""


def test_poll_sees_what_was_read_ahead_and_the_others(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    waker = Waker()
    far.sendall(b"headbody")
    near.recv(4)
    assert poll([near, waker], [], 5) == ([near], [])
    waker.send(b"\0")
    assert set(poll([near, waker], [], 5)[0]) == {near, waker}
    far.sendall(b"more")
    select.select([near.fileno()], [], [], 20)
    assert sorted(map(str, poll([near, waker], [near], 5)[0])) == sorted(map(str, [near, waker]))
    waker.close()


def test_poll_takes_descriptors_and_both_directions(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    assert poll([near.fileno()], [near.fileno(), far], None) == ([], [near.fileno(), far])
    assert poll([], [near], 1) == ([], [near])
    far.sendall(b"x")
    assert poll([near], [], 5) == ([near], [])


def test_a_closed_socket_is_a_lost_connection(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, _ = pair
    near.close()
    with pytest.raises(OSError, match="closed"):
        poll([near], [], 1)


def test_messages_are_whole_or_not(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    near.setblocking(False)
    assert near.fill()  # nothing is there, and it goes on
    assert not near.whole()
    for part, whole in ((b"\0\0", False), (b"\0\3", False), (b"ab", False), (b"c", True), (b"\0", True)):
        far.sendall(part)
        select.select([near.fileno()], [], [], 20)
        assert near.fill()
        assert near.whole() is whole
    assert near.held == b"\0\0\0\3abc\0"
    far.close()
    select.select([near.fileno()], [], [], 20)
    assert not near.fill()


def test_a_long_message_is_not_read_in_small_parts(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    near.setblocking(False)
    long = (300_000).to_bytes(4) + b"x" * 300_000
    sender = threading.Thread(target=far.sendall, args=(long,))
    sender.start()
    fills = 0
    while not near.whole():
        select.select([near.fileno()], [], [], 20)
        assert near.fill()
        fills += 1
    sender.join()
    assert near.held == long
    assert fills < 300_000 / READ_AHEAD  # the first one does not know yet


def test_what_was_read_ahead_whole_is_not_slept_on(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    handler = LeanHandler()
    waker, _ = handler.create_socket_pair()
    handler._hold(near, near.own)
    far.sendall(b"\0\0\0\1a\0\0\0\1b")
    assert handler.select([near, waker], [], [], 5)[0] == [near]
    assert near.recv(5) == b"\0\0\0\1a"
    assert handler.select([near, waker], [], [], 60)[0] == [near]
    far.sendall(b"c")
    select.select([near.fileno()], [], [], 20)
    assert handler.select([near, waker], [], [], 60)[0] == [near]
    waker.send(b"\0")
    assert handler.select([near, waker], [], [], 60)[0] == [near, waker] or near.fill()
    assert not handler.more(60)  # somebody rings
    waker.recv(1)
    assert near.recv(100) + near.recv(100) == b"\0\0\0\1bc"
    assert not handler.more(0)
    far.sendall(b"d")
    assert handler.more(60)
    waker.close()


def test_a_full_buffer_is_waited_for(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    near.setblocking(False)
    handler = LeanHandler()
    waker, _ = handler.create_socket_pair()
    handler._hold(near, near.own)
    sent = 0
    while not near.unsent:
        sent += near.send(b"x" * 65_536)
    sent += near.send(b"y")
    assert near.unsent.endswith(b"xy")
    steps: list[str] = []
    near.send_behind(b"z", lambda: steps.append("taken"))
    sent += 1
    assert near.unsent.endswith(b"xyz")
    assert steps == ["taken"]
    assert handler.select([], [near], [], 0)[1] == [near]  # it never blocks whoever sends
    assert handler.select([near, waker], [], [], 0)[0] == []
    far.settimeout(5)
    received = 0
    while near.unsent:
        received += len(far.recv(65_536))
        if handler.select([near, waker], [], [], 0)[0] == [waker]:
            assert not handler.more(0)
            near.flush()
    assert handler.select([near, waker], [], [], 0)[0] == []
    while received < sent:
        received += len(far.recv(65_536))
    far.sendall(b"z")
    assert handler.more(5)
    waker.close()


def test_a_buffer_may_be_full_to_the_last_byte(pair: tuple[LeanSocket, socket.socket]) -> None:
    near, far = pair
    near.setblocking(False)
    sent = 0
    while not near.full:
        sent += near.send(b"x" * 65_536)
    sent -= len(near.unsent)
    near._last = (b"", [None])  # as if that had been all
    near.send_behind(b"yz", lambda: None)
    assert near.full
    assert near.unsent == b"yz"
    far.settimeout(5)
    received = b""
    while len(received) < sent + 2:
        received += far.recv(65_536)
        near.flush()
    assert received.endswith(b"xyz")
    assert not near.full


def test_the_waker_counts_and_never_blocks() -> None:
    waker = Waker()
    for _ in range(10_000):
        waker.send(b"\0")
    for _ in range(10_000):
        assert poll([waker], [], 0) == ([waker], [])
        assert waker.recv(1) == b"\0"
    assert poll([waker], [], 0) == ([], [])
    with pytest.raises(BlockingIOError):
        waker.recv(1)
    for hush in (lambda: waker.recv(1), waker.hush):
        waker._write.send(b"\0\0")  # by a forked child
        hush()
        assert poll([waker], [], 0) == ([], [])
    waker.send(b"\0\0")  # for two requests
    assert waker.recv(1) == b"\0"
    assert poll([waker], [], 0) == ([waker], [])
    assert waker.recv(1) == b"\0"
    assert poll([waker], [], 0) == ([], [])
    waker.send(b"\0\0")
    waker.hush()
    waker.hush()
    assert poll([waker], [], 0) == ([], [])
    waker.close()
    waker.close()
    handler = LeanHandler()
    ours, same = handler.create_socket_pair()
    assert ours is same
    handler.ring()
    assert poll([ours], [], 0) == ([ours], [])
    ours.close()
    handler.ring()
    with pytest.raises(OSError, match="closed"):
        waker.send(b"\0")


# Results.


def test_the_first_value_counts() -> None:
    result = LeanHandler().async_result()
    seen: list[Any] = []
    forgotten: list[Any] = []
    result.rawlink(seen.append)
    result.rawlink(forgotten.append)
    result.unlink(forgotten.append)
    result.unlink(forgotten.append)
    assert not result.ready()
    assert not result.successful()
    assert not result.wait(0)
    with pytest.raises(KazooTimeoutError):
        result.get_nowait()
    with pytest.raises(KazooTimeoutError):
        result.get(timeout=0)
    result.set(1)
    result.set(2)
    result.set_exception(ValueError())
    assert result.successful()
    assert result.wait(0)
    assert (result.get(), result.value, result.exception) == (1, 1, None)
    result.rawlink(seen.append)
    assert (seen, forgotten) == ([result, result], [])


def test_an_exception_is_raised() -> None:
    result = LeanHandler().async_result()
    result.set_exception(ValueError("odd"))
    assert result.ready()
    assert not result.successful()
    with pytest.raises(ValueError, match="odd"):
        result.get()


def test_waiting_in_another_thread() -> None:
    result = LeanHandler().async_result()
    thread = threading.Thread(target=result.set, args=(1,))
    thread.start()
    assert result.get(timeout=20) == 1
    thread.join()


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_callbacks_that_raise_are_survived(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def rude(*_: Any) -> None:
        raise error

    handler = LeanHandler()
    seen: list[Any] = []
    result = handler.async_result()
    result.rawlink(rude)
    result.rawlink(seen.append)
    result.set()
    handler.dispatch_callback(Callback("watch", rude, ()))
    handler.dispatch_callback(Callback("watch", seen.append, (1,)))
    assert seen == [result, 1]
    assert caplog.text.count("a callback raised") == 2


# Threads.


def test_a_thread_that_dies_is_told_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    told: list[BaseException | None] = []
    for handler in (LeanHandler(on_stop=told.append), LeanHandler()):
        handler.join()  # nothing to wait for
        handler.spawn(int, "x").join()
        handler.spawn(int, "7").join()
        handler.join()
    assert isinstance(told[0], ValueError)
    assert told[1] is None
    assert capfd.readouterr().err == ""


def test_kazoo_alone_takes_the_handler(server: FakeZooKeeper) -> None:
    client = KazooClient(server.hosts, handler=LeanHandler(), logger=logging.getLogger("recipes.test"))
    client.start(5)
    assert client.exists("/q") is None
    assert client.create_async("/q", include_data=True).get(timeout=20)[0] == "/q"
    assert client.sync("/q") == "/q"
    client.stop()
    client.close()


# Connecting and ending.


def full(listener: socket.socket) -> list[socket.socket]:
    """Fill a listener's queue, so that the next connection gets no answer at all."""
    listener.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket()
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
        fillers.append(filler)
    select.select([], fillers, [], 0.05)
    return fillers


def test_a_connection_is_bounded(listener: socket.socket) -> None:
    fillers = full(listener)
    handler = LeanHandler(connect_timeout_s=0.1)
    with pytest.raises(TimeoutError, match=r"no connection within 0\.1 s"):
        handler.create_connection(listener.getsockname(), timeout=10)
    for filler in fillers:
        filler.close()


def test_a_connection_under_way_ends_with_the_handler(listener: socket.socket) -> None:
    fillers = full(listener)
    handler = LeanHandler()
    failures: list[Exception] = []

    def connect() -> None:
        try:
            handler.create_connection(listener.getsockname())
        except OSError as error:
            failures.append(error)

    with taking(2):
        thread = threading.Thread(target=connect)
        thread.start()
        while not handler._connecting:
            threading.Event().wait(0.001)
        while thread.is_alive():  # the first may come before the connect
            handler.retire()
            thread.join(0.01)
        assert len(failures) == 1
    for filler in fillers:
        filler.close()


def test_a_retired_handler_connects_no_more(listener: socket.socket) -> None:
    handler = LeanHandler()
    handler.retire()
    handler.abort()
    with pytest.raises(ConnectionAbortedError):
        handler.create_connection(listener.getsockname())


def test_silence_is_a_time_out(listener: socket.socket) -> None:
    handler = LeanHandler(connect_timeout_s=0.05)
    near = handler.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    assert handler.select([near], [], [], 0) == ([], [], [])  # nothing was asked
    assert handler.select([], [near], [], 1)[1] == [near]
    with pytest.raises(KazooTimeoutError, match="did not answer"):
        handler.select([near], [], [], 10)
    accepted.sendall(b"x")
    assert handler.select([near], [], [], 10)[0] == [near]
    handler.silence_limit_s = 10
    assert handler.select([], [near], [], 1)[1] == [near]
    assert near.recv(1) == b"x"
    assert handler.select([near], [], [], 0.01) == ([], [], [])
    near.close()
    accepted.close()


def asking(listener: socket.socket, **options: Any) -> tuple[LeanHandler, Any, socket.socket]:
    """Return a handler that has asked for the session, and both ends of its connection."""
    handler = LeanHandler(**options)
    near = handler.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    assert handler.select([], [near], [], 1)[1] == [near]
    near.send(b"asks")
    return handler, near, accepted


def all_that_comes(accepted: socket.socket) -> bytes:
    accepted.settimeout(10)
    with accepted, accepted.makefile("rb") as lines:
        return lines.read()


def test_what_asked_for_a_session_that_is_over_ends_it_if_it_arrives_late(listener: socket.socket) -> None:
    handler, near, accepted = asking(listener, connect_timeout_s=60)
    handler.retire()
    handler.abort()
    near.close()
    assert all_that_comes(accepted) == b"asks" + GOODBYE
    handler.abort()  # it has gone


def test_so_it_does_where_the_server_was_silent_for_too_long(listener: socket.socket) -> None:
    handler, near, accepted = asking(listener, connect_timeout_s=0.05)
    handler.retire()
    with pytest.raises(KazooTimeoutError):
        handler.select([near], [], [], 10)
    near.close()
    assert all_that_comes(accepted) == b"asks" + GOODBYE


def test_a_server_that_has_answered_is_told_by_kazoo(listener: socket.socket) -> None:
    handler, near, accepted = asking(listener)
    accepted.sendall(b"x")
    assert handler.select([near], [], [], 10)[0] == [near]
    handler.retire()
    handler.abort()
    near.recv(1)
    near.close()
    assert all_that_comes(accepted) == b"asks"


def test_what_asked_for_a_session_that_lives_is_forgotten_when_it_is_given_up(
    listener: socket.socket,
) -> None:
    handler, near, accepted = asking(listener, connect_timeout_s=0.05)
    with pytest.raises(KazooTimeoutError):
        handler.select([near], [], [], 10)
    near.close()
    with pytest.raises(ConnectionResetError):
        all_that_comes(accepted)


# TLS.


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def test_tls_all_the_way(connections: Connections) -> None:
    with FakeZooKeeper(tls=server_context()) as server:
        hosts = f"localhost:{server.port}"
        connection = connections.connected(hosts, use_ssl=True, ca=CERTIFICATE, check_hostname=True)
        connection.ask(Create("/q"))
        server.drop()
        assert answered(connection, Exists("/q")) is not None
        assert server.numbers == [*range(1, len(server.numbers) + 1)]
        connection.close()
        server.until(lambda: not server.sessions)


def test_over_tls_a_server_that_never_answers_is_left_in_time(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What TLS 1.3 sends by itself, a session to be resumed, is no answer of ZooKeeper's."""
    monkeypatch.setattr(kazoo_client, "connect_timeout", lambda *_: 3.0)
    with FakeZooKeeper(tls=server_context()) as server:
        server.silent = True
        with pytest.raises(StoreUnavailable, match=r"did not answer for 3\.0 s"):
            connections(server.hosts, use_ssl=True, verify_certs=False).ask(Connect(12.0))


def test_over_tls_a_listing_is_notified_and_an_odd_error_ends_nothing(connections: Connections) -> None:
    """There kazoo reads the replies: by the class of a request it knows which watch that sets."""
    with FakeZooKeeper(tls=server_context()) as server:
        connection, box = connections.connected(server.hosts, use_ssl=True, verify_certs=False), Box()
        connection.ask(Create("/q"))
        assert connection.ask(Children("/q", box, "q")) == ()
        connection.ask(Create("/q/1"))
        assert box.next() == Changed("q")
        server.fail("exists", -999)
        with pytest.raises((StoreRefused, ZooKeeperError)):
            connection.ask(Exists("/q"))
        assert connection.ask(Exists("/q")) is not None
        assert server.accepted == 1


def test_with_tls_nobody_waits_for_whoever_sends(connections: Connections) -> None:
    with FakeZooKeeper(tls=server_context()) as server:
        connection = connections.connected(server.hosts, use_ssl=True, verify_certs=False)
        # kazoo is done with connecting, which takes the lock once
        assert connection.ask(Exists("/")) is not None
        sending = connection.session._client._connection._sending
        held, over = threading.Event(), threading.Event()
        let_go: list[bool] = []

        def hold() -> None:
            with sending:
                held.set()
                let_go.append(over.wait(30))

        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(20)
        try:
            assert connection.ask(Exists("/"), 15) is not None
        finally:
            over.set()
            thread.join()
        assert let_go == [True]


def test_what_tls_has_decrypted_is_not_slept_on(listener: socket.socket) -> None:
    accepted: list[ssl.SSLSocket] = []
    context = server_context()
    serving = threading.Thread(
        target=lambda: accepted.append(context.wrap_socket(listener.accept()[0], server_side=True))
    )
    serving.start()
    handler = LeanHandler()
    near = handler.create_connection(listener.getsockname(), "localhost", use_ssl=True, ca=CERTIFICATE)
    serving.join()
    accepted[0].sendall(b"headbody")  # one record
    assert near.recv(4) == b"head"
    assert handler.select([near], [], [], None)[0] == [near]  # kazoo's own would wait for more
    assert near.recv(4) == b"body"
    near.close()
    accepted[0].close()


def test_an_unknown_authority_is_named(connections: Connections) -> None:
    refused = pytest.raises(StoreUntrusted, match=r"certificate is not accepted: self.signed")
    with FakeZooKeeper(tls=server_context()) as server, refused:
        connections(server.hosts, use_ssl=True).ask(Connect(4.0))


def test_plaintext_to_a_tls_port(connections: Connections, server: FakeZooKeeper) -> None:
    server.silent = True
    with pytest.raises(ConnectionError):
        connections(server.hosts, use_ssl=True, ca=CERTIFICATE).ask(Connect(4.0), 0.2)


def test_the_context_is_what_was_asked_for() -> None:
    context = tls_context(verify_certs=False)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_NONE, False)
    context = tls_context(ca=CERTIFICATE, certfile=CERTIFICATE, keyfile=CERTIFICATE, check_hostname=True)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    with pytest.raises(ssl.SSLError, match="verify_certs"):
        tls_context(verify_certs=False, check_hostname=True)
