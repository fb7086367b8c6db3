"""What only the blocking connection has: threads, interruptions, and one lock."""

from __future__ import annotations

import errno
import logging
import selectors
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.harness.process import eventually
from recipes._contract.connection import Batch
from recipes._contract.wakeups import Disturbed, Event, Gone
from recipes.errors import StoreUnavailable
from recipes.stores.etcd.blocking import EtcdConnection
from recipes.stores.etcd.requests import Post, Watch
from recipes.stores.sockets import Conn
from tests.stores.etcd.fakes import Box, Peer, Server
from tests.threads import refuse, until_ended


@pytest.fixture
def connections() -> Iterator[list[EtcdConnection]]:
    made: list[EtcdConnection] = []
    yield made
    for connection in made:
        connection.close()
    until_ended("recipes-etcd", 10)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def confirming(peer: Peer, number: int) -> None:
    """Confirm every watch of a stream; delete what is called gone at once; swallow calls."""
    peer.request()
    begun = False
    while True:
        message = peer.chunk()
        if "create_request" in message:
            if not begun:
                peer.begin()
                begun = True
            mine = peer.created(message)
            if message["create_request"]["key"] == "Z29uZQ==":
                peer.gone(mine)


def connection_to(server: Server, connections: list[EtcdConnection]) -> Any:
    connections.append(EtcdConnection([("127.0.0.1", server.port)]))
    return connections[-1]


def test_one_thread_reads_for_all(connections: list[EtcdConnection]) -> None:
    with Server(confirming) as server:
        connection = connection_to(server, connections)
        before = threading.active_count()
        threads = [
            threading.Thread(target=lambda n=n: connection.ask(Watch(b"%d" % n, Box()), 5)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(t.name == "recipes-etcd" for t in threading.enumerate()) == 1
        assert threading.active_count() <= before + 2  # the reader, and the server's own
        connection.close()


def test_nothing_stays_open(connections: list[EtcdConnection]) -> None:
    with Server(confirming) as server:
        before = open_files()
        for _ in range(5):
            connection = connection_to(server, connections)
            connection.ask(Watch(b"k", Box()), 5)
            connection.close()
            until_ended("recipes-etcd", 10)
            assert connection._reader._ears is None
            assert connection._reader._conns == {}
        # The server closes its side when it sees the end of ours.
        assert open_files() <= before + 5


@pytest.mark.parametrize("batch", [False, True])
def test_an_interrupted_wait_leaves_no_watch(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch, batch: bool
) -> None:
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    with Server(lambda peer, number: peer.hang()) as server:
        connection = connection_to(server, connections)
        watch = Watch(b"k", Box())
        request: Any = watch
        if batch:
            request = Batch((watch, Post("/kv/put", {})))
            monkeypatch.setattr(Conn, "receive", interrupt)
        else:
            monkeypatch.setattr("recipes.stores.etcd.blocking.acquire", interrupt)
        with pytest.raises(KeyboardInterrupt):
            connection.ask(request, 5)
        assert len(connection._reader._multiplexer.book) == 0


def test_an_interruption_while_sending_loses_every_watch(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(confirming) as server:
        connection = connection_to(server, connections)
        box = Box()
        connection.ask(Watch(b"k", box), 5)
        main = threading.current_thread()
        real = Conn.send_some

        def interrupt(conn: Conn, data: Any) -> int:
            if threading.current_thread() is main:
                raise KeyboardInterrupt
            return real(conn, data)

        with monkeypatch.context() as patch:
            patch.setattr(Conn, "send_some", interrupt)
            with pytest.raises(KeyboardInterrupt):
                connection.ask(Watch(b"l", box), 5)
        assert box.events.get(timeout=5) == Disturbed()
        assert connection.ask(Watch(b"k", box), 5) == 7


def test_a_send_that_fails_loses_every_watch(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(confirming) as server:
        connection = connection_to(server, connections)
        box = Box()
        connection.ask(Watch(b"k", box), 5)

        def fail(conn: Conn, data: Any) -> int:
            raise BrokenPipeError(32, "Broken pipe")

        with monkeypatch.context() as patch:
            patch.setattr(Conn, "send_some", fail)
            with pytest.raises(StoreUnavailable, match="Broken pipe"):
                connection.ask(Watch(b"l", box), 5)
        assert box.events.get(timeout=5) == Disturbed()


def test_what_does_not_fit_is_sent_by_the_thread(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep, sleep = threading.Event(), selectors.DefaultSelector.select

    def select(selector: Any, timeout: float | None = None) -> Any:
        asleep.set()
        try:
            return sleep(selector, timeout)
        finally:
            asleep.clear()

    monkeypatch.setattr(selectors.DefaultSelector, "select", select)
    with Server(confirming) as server:
        connection: Any = connection_to(server, connections)
        multiplexer = connection._reader._multiplexer
        multiplexer._silence_s = multiplexer._patience_s = 3600.0  # nothing else is to wake the thread
        box = Box()
        connection.ask(Watch(b"k", box), 5)
        assert asleep.wait(5)
        main = threading.current_thread()
        real = Conn.send_some
        monkeypatch.setattr(
            Conn,
            "send_some",
            lambda conn, data: 0 if threading.current_thread() is main else real(conn, data[:7]),
        )
        assert connection.ask(Watch(b"l", box), 5) == 7


def test_a_mailbox_that_fails_ends_the_watches_and_not_the_thread(
    connections: list[EtcdConnection], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def post(self, event: Event) -> None:
            raise RuntimeError("broken mailbox")

    with Server(confirming) as server:
        connection = connection_to(server, connections)
        box = Box()
        connection.ask(Watch(b"k", box), 5)
        with caplog.at_level(logging.ERROR, "recipes"):
            connection.ask(Watch(b"gone", Broken()), 5)
            assert box.events.get(timeout=5) == Disturbed()
        assert "broken mailbox" in caplog.text
        assert connection.ask(Watch(b"gone", box), 5) == 7
        assert box.events.get(timeout=5) == Gone("gone")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_somebody_ends_loses_the_watches_and_is_replaced(
    connections: list[EtcdConnection],
) -> None:
    class Ending(Box):
        """Where the thread is ended as it delivers the first event."""

        ends = True

        def post(self, event: Event) -> None:
            if self.ends:
                self.ends = False
                raise SystemExit
            super().post(event)

    with Server(confirming) as server:
        connection = connection_to(server, connections)
        other, box = Box(), Ending()
        connection.ask(Watch(b"k", other), 5)
        before = open_files()
        thread = connection._reader._thread
        connection.ask(Watch(b"gone", box), 5)
        thread.join(5)
        assert not thread.is_alive()
        assert other.events.get(timeout=5) == Disturbed()
        assert box.events.get(timeout=5) == Gone("gone"), "which was not delivered yet"
        assert connection.ask(Watch(b"gone", other), 5) == 7
        assert other.events.get(timeout=5) == Gone("gone")
        assert connection._reader._thread is not thread
        assert eventually(lambda: open_files() <= before, 5)


def test_a_mailbox_may_close_the_connection(connections: list[EtcdConnection]) -> None:
    closed = threading.Event()

    class Closing:
        def post(self, event: Event) -> None:
            connection.close()
            closed.set()

    with Server(confirming) as server:
        connection = connection_to(server, connections)
        connection.ask(Watch(b"gone", Closing()), 5)
        assert closed.wait(5)


def test_who_learns_that_no_watch_comes_as_the_link_closes_is_not_left_with_a_silent_server(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter looks at once where its watch cannot be made: on no connection that is still open."""
    with Server(confirming) as server:
        connection = connection_to(server, connections)
        connection.ask(Watch(b"k", Box()), 5)
        close = connection._reader.close
        looked: list[BaseException] = []

        def close_and_look() -> None:
            close()
            with pytest.raises(StoreUnavailable) as refused:
                connection.ask(Post("/kv/range", {}), 5)
            looked.append(refused.value)

        monkeypatch.setattr(connection._reader, "close", close_and_look)
        connection.close()
        assert "closed" in str(looked[0])


def test_closing_without_a_watch_starts_nothing(connections: list[EtcdConnection]) -> None:
    connection: Any = EtcdConnection([("127.0.0.1", 1)])
    connection.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        connection.ask(Watch(b"k", Box()), 1)
    assert connection._reader._thread is None


@pytest.mark.parametrize("missing", ["socket.socketpair", "selectors.DefaultSelector"])
def test_a_watch_without_descriptors_is_refused_and_the_next_is_made(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def refuse(*_: object) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    with Server(confirming) as server:
        connection = connection_to(server, connections)
        before = open_files()
        with monkeypatch.context() as patched:
            patched.setattr(missing, refuse)
            with pytest.raises(StoreUnavailable, match="Too many open files"):
                connection.ask(Watch(b"x", Box()), 5)
        assert open_files() == before
        assert connection.ask(Watch(b"x", Box()), 5) > 0


def test_a_watch_without_a_thread_is_refused_and_the_next_is_made(
    connections: list[EtcdConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(confirming) as server:
        connection = connection_to(server, connections)
        before = open_files()
        with monkeypatch.context() as patched:
            refuse(patched, "recipes-etcd")
            with pytest.raises(StoreUnavailable, match="can't start new thread") as refused:
                connection.ask(Watch(b"x", Box()), 5)
        assert refused.value.unsent
        assert open_files() == before
        assert connection.ask(Watch(b"x", Box()), 5) > 0
