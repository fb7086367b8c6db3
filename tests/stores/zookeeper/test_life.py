"""How a session begins and ends: on time, once, and leaving nothing behind."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler

from recipes._contract.connection import Batch
from recipes._contract.wakeups import Disturbed
from recipes.errors import StoreDenied, StoreRefused, StoreUnavailable
from recipes.stores.zookeeper import kazoo_client, kazoo_client_connection
from recipes.stores.zookeeper.blocking import KazooConnection
from recipes.stores.zookeeper.handler import LeanHandler
from recipes.stores.zookeeper.kazoo_client_connection import LOGINS_CUT
from recipes.stores.zookeeper.kazoo_client_log import KazooLog
from recipes.stores.zookeeper.requests import (
    Children,
    Close,
    Connect,
    Create,
    Exists,
    Get,
    SessionExpired,
    Stat,
)
from recipes.stores.zookeeper.tasks import AsyncKazooConnection
from tests.children import child
from tests.pace import taking
from tests.run.test_struck import Strike
from tests.stores.zookeeper.conftest import Box, Connections, answered, descriptors, let_go
from tests.stores.zookeeper.fake_server import FakeZooKeeper

# Beginning.


def test_making_a_connection_does_nothing(connections: Connections) -> None:
    threads = threading.active_count()
    connection = connections("nowhere.invalid:1")
    assert threading.active_count() == threads
    connection.close()
    with pytest.raises(SessionExpired):
        connection.ask(Connect(4.0))


def test_a_refused_connection_fails_at_once(connections: Connections, closed_port: Callable[[], int]) -> None:
    hosts = f"127.0.0.1:{closed_port()}"
    with taking(1), pytest.raises(StoreUnavailable, match=rf"{hosts}: .*refused"):
        connections(hosts).ask(Connect(4.0))


def test_hosts_that_do_not_resolve_are_named(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(StoreUnavailable, match=r"no\.invalid:2181: cannot be resolved .*not known"):
        connections("no.invalid:2181").ask(Connect(4.0))


def test_the_servers_that_fail_are_passed_over(
    connections: Connections, server: FakeZooKeeper, closed_port: Callable[[], int]
) -> None:
    connection = connections.connected(f"127.0.0.1:{closed_port()},{server.hosts}", randomize_hosts=False)
    assert connection.ask(Exists("/")) is not None


def test_a_server_that_never_answers_is_given_up(connections: Connections, server: FakeZooKeeper) -> None:
    server.silent = True
    with taking(2), pytest.raises(StoreUnavailable, match=r"nothing within 0\.2 s"):
        connections(server.hosts).ask(Connect(4.0), 0.2)
    let_go()


def test_a_server_that_hangs_up_fails_at_once(connections: Connections) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port, accept = listener.getsockname()[1], listener.accept

        def hang_up() -> None:
            accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(StoreUnavailable, match=r"closed the connection|reset"):
            connections(f"127.0.0.1:{port}").ask(Connect(4.0))
        thread.join()


def test_no_thread_to_be_had(
    connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        connection = KazooConnection(server.hosts, on_end=connections.ended.put)
        with pytest.raises(StoreUnavailable, match="can't start new thread"):
            connection.ask(Connect(4.0), 1)
        connection.close()
        connection._session._client._connection.close()
    connected = connections.connected(server.hosts)
    monkeypatch.setattr(threading.Thread, "start", start)
    connected.session.close()  # as at interpreter exit
    monkeypatch.undo()
    connected.session._handler.join()
    connected.session._client.close()


def test_wrong_options_are_the_callers_mistake(connections: Connections) -> None:
    with pytest.raises(TypeError):
        connections("127.0.0.1:1", no_such_option=1).ask(Connect(4.0))
    with pytest.raises(StoreRefused, match="configuration"):
        connections("127.0.0.1:1", auth_data=[("sasl", "a:b")], sasl_options={"a": 1}).ask(Connect(4.0))


# Credentials.


def test_credentials_are_proved_before_connect_returns(
    connections: Connections, server: FakeZooKeeper
) -> None:
    connections.connected(server.hosts, auth_data=[("digest", "user:password")])
    assert [operation for operation, _ in server.seen] == ["connect", "auth", "exists"]


def test_wrong_credentials_are_refused(connections: Connections, server: FakeZooKeeper) -> None:
    server.refuse_auth = True
    connection = connections(server.hosts, auth_data=[("digest", "user:password")])
    with pytest.raises(StoreDenied, match="credentials") as caught:
        connection.ask(Connect(4.0))
    assert "user:password" not in str(caught.value)
    assert connections.ended.empty()  # there was no session to end
    with pytest.raises(SessionExpired):
        connection.ask(Exists("/"))


def test_a_server_that_asks_for_sasl(connections: Connections, server: FakeZooKeeper) -> None:
    server.fail("exists", -124)
    with pytest.raises(StoreDenied, match="the server asks for credentials"):
        connections(server.hosts, auth_data=[("digest", "user:password")]).ask(Connect(4.0))


def test_credentials_that_expire_end_the_session(connections: Connections, server: FakeZooKeeper) -> None:
    connection = connections.connected(server.hosts, auth_data=[("digest", "user:password")])
    server.refuse_auth = True
    server.cut()
    assert "credentials" in connections.ended.get(timeout=20)
    with pytest.raises(SessionExpired):
        connection.ask(Exists("/"))


def test_no_secret_is_logged(
    connections: Connections,
    server: FakeZooKeeper,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(1)
    logging.getLogger("recipes.kazoo").setLevel(1)
    connection = connections.connected(server.hosts, auth_data=[("digest", "user:password")])
    server.drop()
    answered(connection, Exists("/"))
    connection.ask(Create("/q", b"password"))
    connection.ask(Close())
    said = caplog.text + "".join(capfd.readouterr())
    assert "Connecting to" in said
    assert "password" not in said
    assert b"secret-password!".hex() not in said


# The store ends it.


def test_expiry_is_told_once_and_nothing_is_resumed(connections: Connections, server: FakeZooKeeper) -> None:
    connection = connections.connected(server.hosts)
    box = Box()
    connection.ask(Create("/q"))
    connection.ask(Get("/q", box))
    server.expire()
    assert connections.ended.get(timeout=20) == "the server has ended the session"
    assert box.next() == Disturbed()
    for request in (Exists("/"), Create("/r")):
        with pytest.raises(SessionExpired):
            connection.ask(request)
    assert connection.ask(Close()) is True
    let_go()
    assert server.count("connect") == 2  # the first, and the one that was notified of the end
    assert not server.sessions
    assert connections.ended.empty()


def test_whoever_is_told_may_close_or_raise(connections: Connections, server: FakeZooKeeper) -> None:
    told = threading.Event()

    def on_end(reason: str) -> None:
        connection.session.close()
        told.set()
        raise SystemExit

    connection = connections(server.hosts, on_end=on_end)
    connection.ask(Connect(4.0))
    server.expire()
    assert told.wait(20)
    let_go()


def test_a_session_that_comes_back_different_is_ended(
    connections: Connections, server: FakeZooKeeper
) -> None:
    connections.connected(server.hosts)
    server.granted_ms = 2000
    server.cut()
    assert "shorter" in connections.ended.get(timeout=20)


def test_a_session_that_comes_back_with_another_id_is_ended(
    connections: Connections, server: FakeZooKeeper
) -> None:
    connections.connected(server.hosts)
    server.resumed_as = 7
    server.cut()
    assert "another id" in connections.ended.get(timeout=20)


def test_a_reply_to_what_was_not_asked_ends_the_connection(
    connections: Connections, server: FakeZooKeeper
) -> None:
    connection = connections.connected(server.hosts)
    server.send_all(b"\0\0\0\x63" + b"\0" * 12)
    server.until(lambda: server.count("connect") == 2)
    assert answered(connection, Exists("/")) is not None
    assert len(server.sessions) == 1


def test_an_event_that_makes_no_sense_ends_the_session(
    connections: Connections, server: FakeZooKeeper
) -> None:
    connection = connections.connected(server.hosts)
    server.send_all(struct.pack("!iqi", -1, 0, 0))
    assert "died" in connections.ended.get(timeout=20)  # kazoo's thread does not survive it
    with pytest.raises(SessionExpired):
        connection.ask(Exists("/"))


def test_a_connection_thread_that_dies_while_connecting(
    connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kazoo.protocol.connection.PURESASL_AVAILABLE", False)
    with pytest.raises(StoreDenied, match="SASL"):
        connections(server.hosts, sasl_options={"mechanism": "DIGEST-MD5"}).ask(Connect(4.0))


def test_silence_is_noticed_though_requests_go_out(connections: Connections, server: FakeZooKeeper) -> None:
    connection = connections(server.hosts)
    connection.ask(Connect(4.0))
    connection.session._handler.silence_limit_s = 0.1
    server.mute()
    with pytest.raises(StoreUnavailable, match=r"ConnectionLoss"):
        connection.ask(Exists("/"))
    connection.session._handler.silence_limit_s = 5.0  # a slow answer is no silence
    server.mute("nothing")
    assert answered(connection, Exists("/")) is not None
    assert len(server.sessions) == 1


def test_a_busy_connection_is_left_for_its_silence_while_there_is_time_for_another(
    connections: Connections, server: FakeZooKeeper
) -> None:
    server.granted_ms = 3000
    connection = connections.connected(server.hosts)
    server.mute()
    said = ""
    with taking(2.0):  # of three; kazoo by itself would see a sign of life in each request
        while "ConnectionLoss" not in said:
            with pytest.raises(StoreUnavailable) as failed:
                connection.ask(Exists("/"), 0.1)
            said = str(failed.value)


# Closing.


def test_close_ends_the_session_on_the_server(connections: Connections, server: FakeZooKeeper) -> None:
    connection = connections.connected(server.hosts)
    connection.ask(Create("/q", ephemeral=True))
    connection.close()
    server.until(lambda: not server.sessions)
    assert "/q" not in server.nodes
    let_go()
    connection.close()
    assert connections.ended.empty()


@pytest.mark.parametrize("ask", [True, False])
def test_close_with_a_silent_server(connections: Connections, server: FakeZooKeeper, ask: bool) -> None:
    connection = connections.connected(server.hosts)
    server.mute()
    with taking(1):
        if ask:
            assert connection.ask(Close(), 0.3) is False
        else:
            connection.close()
        let_go()


@pytest.mark.parametrize("ask", [True, False])
def test_close_while_reconnecting(connections: Connections, server: FakeZooKeeper, ask: bool) -> None:
    connection = connections.connected(server.hosts)
    server.silent = True
    server.drop()
    with taking(1):
        if ask:
            assert connection.ask(Close(), 0.3) is False
        else:
            connection.close()
        let_go()
    assert server.count("connect") == 2


def test_close_while_there_is_no_server(connections: Connections, server: FakeZooKeeper) -> None:
    connection = connections.connected(server.hosts)
    server.refuse()
    server.cut()
    with taking(1):
        assert connection.ask(Close()) is False
        let_go()


def test_close_is_awaited_by_all_who_ask(connections: Connections, server: FakeZooKeeper) -> None:
    connection = connections.connected(server.hosts)
    server.mute()
    connection.close()
    assert connection.ask(Close()) is False
    with taking(0.1):
        let_go()


def test_kazoo_that_will_not_stop(monkeypatch: pytest.MonkeyPatch, server: FakeZooKeeper) -> None:
    connection = KazooConnection(server.hosts, on_end=print)
    connection.ask(Connect(4.0), 5)
    client = connection._session._client
    stop = client.stop

    def failing() -> None:
        stop()
        raise RuntimeError("as kazoo does after ten seconds")

    monkeypatch.setattr(client, "stop", failing)
    assert connection.ask(Close(), 5) is True


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_connection_that_ends_in_the_login_says_little_of_the_credentials(
    connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    left = [times]

    def log_in(self: Any, host: str, timeout: float) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise AuthFailedError("Connection dropped in SASL") from ConnectionDropped("cut")

    monkeypatch.setattr(ConnectionHandler, "_authenticate_with_sasl", log_in)
    connection = connections(server.hosts, sasl_options={"mechanism": "DIGEST-MD5"})
    if times == LOGINS_CUT:
        with pytest.raises(StoreDenied):
            connection.ask(Connect(12.0))
        return
    connection.ask(Connect(12.0))
    assert connection.ask(Exists("/")) is not None
    assert (len(server.sessions), server.accepted) == (1, times + 1)


def test_who_sends_as_the_connection_goes_leaves_it_to_kazoo(
    connections: Connections, server: FakeZooKeeper
) -> None:
    """kazoo's thread may have closed the socket, and be at the next server, before the lock is there."""
    kazoos = connections.connected(server.hosts).session._client._connection
    sending, socket = kazoos._sending, kazoos._socket

    class Late:
        def __enter__(self) -> None:
            sending.acquire()
            kazoos._open, kazoos._socket = False, None

        def __exit__(self, *_: object) -> None:
            sending.release()

    kazoos._sending = Late()
    try:
        assert kazoos.send_at_once([]) is False
    finally:
        kazoos._sending, kazoos._socket, kazoos._open = sending, socket, True


def test_one_name_may_be_that_of_several_servers(
    connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gets its share of the time, and one that does not reach the leader is left for another."""
    real = socket.getaddrinfo

    def both(host: str, port: int, *how: int, **named: int) -> Any:
        if host != "zk":
            return real(host, port, *how, **named)
        return [*real("127.0.0.1", one.port, *how), *real("::1", one.port, *how)] + [
            found for other in others for found in real("127.0.0.1", other.port, *how)
        ]

    with FakeZooKeeper() as other:
        one, others = server, [other]
        monkeypatch.setattr(socket, "getaddrinfo", both)
        session = connections.connected("zk:2181").session
        assert session._servers == 2
        assert session._connect_s == kazoo_client.connect_timeout(2, 12.0)
        kazoos = session._client._connection
        assert kazoos._expand_client_hosts() == kazoos._expand_client_hosts()


def test_the_share_of_each_server() -> None:
    assert kazoo_client.connect_timeout(3, 15.0) == 2.5
    assert kazoo_client.connect_timeout(1, 60.0) == 5.0
    assert kazoo_client.connect_timeout(3, 2.0) == 1.0


# Cancelling.


def test_a_cancelled_connect_leaves_nothing(server: FakeZooKeeper) -> None:
    server.silent = True

    async def scenario() -> None:
        connection = AsyncKazooConnection(server.hosts, on_end=print)
        task = asyncio.create_task(connection.ask(Connect(4.0), 5))
        await asyncio.to_thread(server.until, lambda: server.count("connect") == 1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        await asyncio.to_thread(let_go)

    asyncio.run(scenario())


def test_a_cancelled_request_is_dropped(server: FakeZooKeeper) -> None:
    async def scenario() -> None:
        connection = AsyncKazooConnection(server.hosts, on_end=print)
        await connection.ask(Connect(4.0), 5)
        server.mute()
        task = asyncio.create_task(connection.ask(Exists("/"), 5))
        await asyncio.to_thread(server.until, lambda: server.count("exists") == 1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        server.mute("nothing")
        await asyncio.to_thread(server.drop)  # the late answer, an error, is for nobody
        assert (await connection.ask(Create("/q"), 5))[0] == "/q"
        await connection.ask(Close(), 5)

    asyncio.run(scenario())


def test_a_loop_that_was_closed_does_not_hurt_kazoo(server: FakeZooKeeper) -> None:
    loop = asyncio.new_event_loop()
    connection = AsyncKazooConnection(server.hosts, on_end=print)
    loop.run_until_complete(connection.ask(Connect(4.0), 5))
    server.mute()
    asked = loop.create_task(connection.ask(Exists("/"), 5))
    loop.run_until_complete(asyncio.sleep(0))
    asked.cancel()
    loop.run_until_complete(asyncio.gather(asked, return_exceptions=True))
    task = loop.create_task(connection.ask(Create("/q"), 5))
    loop.run_until_complete(asyncio.sleep(0))  # sent, and the loop closes before the answer is taken
    pending: Any = task
    pending._log_destroy_pending = False
    server.until(lambda: server.count("create2") == 1)
    loop.close()
    server.cut()
    connection._session.close()
    let_go()
    pending.get_coro().close()


def test_answers_that_arrive_together_share_a_wake_up(
    server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> int:
        connection = AsyncKazooConnection(server.hosts, on_end=print)
        await connection.ask(Connect(4.0), 5)
        loop = asyncio.get_running_loop()
        done = [loop.create_future() for _ in range(10)]
        wakes = []
        real = loop.call_soon_threadsafe

        def counting(*args: Any) -> Any:
            wakes.append(args)
            return real(*args)

        def complete() -> None:
            for one in done:
                connection._wake(loop, one)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counting)
        thread = threading.Thread(target=complete)
        thread.start()
        thread.join()
        await asyncio.gather(*done)
        await connection.ask(Close(), 5)
        return len(wakes)

    assert asyncio.run(scenario()) <= 2  # and one for the close


def test_an_answer_that_arrives_as_the_others_are_delivered_is_delivered_too(server: FakeZooKeeper) -> None:
    async def scenario() -> None:
        connection: Any = AsyncKazooConnection(server.hosts, on_end=print)
        loop = asyncio.get_running_loop()
        first, last = loop.create_future(), [loop.create_future()]
        waiting = [first, *last]

        class Arrived(deque[Any]):
            def __bool__(self) -> bool:
                there = len(self) > 0
                if not there and last:
                    # kazoo's thread, just as the loop has seen that nothing is
                    connection._wake(loop, last.pop())
                return there

        connection._arrived = Arrived()
        connection._wake(loop, first)
        async with asyncio.timeout(20):
            await asyncio.gather(*waiting)
        await connection.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("queued", [False, True])
def test_an_interrupt_is_not_swallowed_and_leaves_nothing_behind(
    queued: bool, connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connections.loop is not None:
        pytest.skip("an event loop is not interrupted: asyncio.run cancels the main task instead")
    connection = connections.connected(server.hosts)
    assert connection.ask(Exists("/")) is not None  # the first may come before kazoo is done with connecting
    with monkeypatch.context() as patch:

        def interrupted(*_: Any) -> None:
            patch.undo()
            raise KeyboardInterrupt

        if queued:
            patch.setattr(type(connection.session._client._connection), "send_at_once", lambda *_: False)
            patch.setattr(connection.session._handler._wakers[0], "send", interrupted)
        else:
            patch.setattr(connection.session._client._connection._socket, "send_behind", interrupted)
        with pytest.raises(KeyboardInterrupt):
            connection.ask(Exists("/"))
    for _ in range(3):
        assert connection.ask(Exists("/")) is not None
    assert server.accepted == 1


def test_a_connection_that_takes_nothing_is_a_lost_one(
    connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connections.connected(server.hosts)
    assert connection.ask(Exists("/")) is not None

    def broken(_: bytes, step: Callable[[], None]) -> None:
        step()
        raise BrokenPipeError

    monkeypatch.setattr(connection.session._client._connection._socket, "send_behind", broken)
    with pytest.raises(StoreUnavailable):
        connection.ask(Exists("/"))
    assert answered(connection, Exists("/")) is not None
    assert server.accepted == 2


@pytest.mark.parametrize("queued", [False, True])
def test_an_interrupt_of_a_batch_leaves_nobody_behind(
    queued: bool, connections: Connections, server: FakeZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connections.loop is not None:
        pytest.skip("an event loop is not interrupted: asyncio.run cancels the main task instead")
    connection = connections.connected(server.hosts)
    assert connection.ask(Exists("/")) is not None
    client = connection.session._client
    if queued:
        monkeypatch.setattr(type(client._connection), "send_at_once", lambda *_: False)
    for at in itertools.count(1):
        strike = Strike(at)
        try:
            with strike:
                connection.ask(Batch((Exists("/"), Exists("/"), Exists("/"))))
        except KeyboardInterrupt:
            # The next call would be answered with its time-out only.
            assert connection.ask(Exists("/")) is not None, strike.where
            assert not client._queue, strike.where
        else:
            break
    assert at > 20
    assert server.accepted == 1


@pytest.mark.parametrize("asked_first", [True, False])
def test_a_close_that_was_interrupted_is_done_by_the_next(
    connections: Connections, server: FakeZooKeeper, asked_first: bool
) -> None:
    if connections.loop is not None:
        pytest.skip("an interrupt ends its loop")
    for at in itertools.count(1):
        connection = connections.connected(server.hosts)
        strike = Strike(at)
        try:
            with strike:
                connection.close()
        except KeyboardInterrupt:
            if asked_first:  # as the cleaner does, for a client that is closed
                assert connection.ask(Close()), strike.where
            else:
                connection.close()
            let_go()  # else kazoo's thread would keep the session
        else:
            break
    assert at > 10
    let_go()


SENDING = kazoo_client_connection.__file__


class Handled(Strike):
    """Calls a signal handler, in place of raising, where Python hears of a signal amid sending."""

    def __init__(self, at: int, handler: Callable[[], None]) -> None:
        super().__init__(at)
        self.handler = handler

    def _hear(self, frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_filename == SENDING and event in ("call", "c_return"):
            self.left -= 1
            if not self.left:
                sys.setprofile(None)
                self.where = f"{event} at {frame.f_lineno}"
                self.handler()


def test_a_signal_handler_is_answered_amid_what_it_broke_into(
    connections: Connections, server: FakeZooKeeper
) -> None:
    if connections.loop is not None:
        pytest.skip("a signal handler does not wait for its own loop")
    connection = connections.connected(server.hosts)
    connection.ask(Create("/q"))
    answers: list[Any] = []
    for at in itertools.count(1):
        handled = Handled(at, lambda: answers.append(connection.ask(Exists("/none"))))
        with handled:
            replies = connection.ask(Batch((Exists("/q"), Exists("/"), Children("/q"))))
        assert [type(reply) for reply in replies] == [Stat, Stat, tuple], handled.where
        if not handled.where:
            break
    assert answers == [None] * (at - 1)
    assert at > 10
    assert server.accepted == 1


# Fork and exit.


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # that is the point
def test_a_forked_child_touches_nothing_of_its_parent(
    connections: Connections, server: FakeZooKeeper
) -> None:
    before = descriptors()
    connection = connections.connected(server.hosts)
    box = Box()
    connection.ask(Create("/q"))
    connection.ask(Get("/q", box))
    made = descriptors() - before
    assert len(made) == 4  # the socket, both ends of the bell, and what the server accepted
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            call_made = KazooConnection(server.hosts, on_end=print)
            call_made._session = connection.session
            with pytest.raises(SessionExpired):
                call_made.ask(Exists("/"), 5)
            call_made.forget(box)
            call_made.close()
            call_made.close()
            status = int(len(descriptors() & made) != 1)  # the server's is not the client's to close
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    connection.ask(Create("/r"))
    assert server.accepted == 1
    assert box.empty()
    assert len(server.sessions) == 1


def test_the_interpreter_exits_with_a_dead_server(server: FakeZooKeeper) -> None:
    program = """
        import sys
        from recipes.stores.zookeeper.blocking import KazooConnection
        from recipes.stores.zookeeper.requests import Connect, Exists

        connection = KazooConnection(sys.argv[1], on_end=print)
        connection.ask(Connect(4.0), 5)
        print("connected", flush=True)
        sys.stdin.readline()
        try:
            connection.ask(Exists("/"), 0.1)
        except ConnectionError:
            pass
    """
    command = [sys.executable, "-c", textwrap.dedent(program), server.hosts]
    with child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "connected\n"
        server.mute()
        with taking(5):  # kazoo by itself takes ten and more
            process.communicate("\n", timeout=60)
            assert process.returncode == 0


# Several servers.


def test_the_order_of_servers_is_drawn_once_for_each_client() -> None:
    hosts = [f"10.0.0.{number}:2181" for number in range(1, 21)]
    rules = []
    for _ in range(2):
        handler = LeanHandler()
        client = kazoo_client.make_client(",".join(hosts), 4.0, handler, KazooLog(print), {})
        assert not client.randomize_hosts  # else the next round may begin with the server that was just left
        rules.append([f"{host}:{port}" for host, port in client.hosts])
    assert rules[0] != rules[1]
    assert sorted(rules[0]) == sorted(rules[1]) == sorted(hosts)
