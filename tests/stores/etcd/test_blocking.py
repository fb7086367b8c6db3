"""What only the blocking link has: threads, interruptions, and one lock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes._contract.wakeups import Disturbed, Event, Gone
from recipes.errors import StoreUnavailable
from recipes.stores.etcd.blocking import EtcdLink
from recipes.stores.etcd.requests import Post, Watch
from recipes.stores.etcd.session_conn import Conn
from tests.stores.etcd.fakes import Box, Peer, Server


@pytest.fixture
def links() -> Iterator[list[EtcdLink]]:
    made: list[EtcdLink] = []
    yield made
    for link in made:
        link.close()


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


def link_to(server: Server, links: list[EtcdLink]) -> Any:
    links.append(EtcdLink([("127.0.0.1", server.port)]))
    return links[-1]


def test_one_thread_reads_for_all(links: list[EtcdLink]) -> None:
    with Server(confirming) as server:
        link = link_to(server, links)
        before = threading.active_count()
        threads = [
            threading.Thread(target=lambda n=n: link.ask(Watch(b"%d" % n, Box()), 5)) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(t.name == "recipes-etcd" for t in threading.enumerate()) == 1
        assert threading.active_count() <= before + 2  # the reader, and the server's own
        link.close()


def test_nothing_stays_open(links: list[EtcdLink]) -> None:
    with Server(confirming) as server:
        before = open_files()
        for _ in range(5):
            link = link_to(server, links)
            link.ask(Watch(b"k", Box()), 5)
            link.close()
            assert link._reader._wake_out is None
            assert link._reader._conns == {}
        # The server closes its side when it sees the end of ours.
        assert open_files() <= before + 5


@pytest.mark.parametrize("batch", [False, True])
def test_an_interrupted_wait_leaves_no_watch(
    links: list[EtcdLink], monkeypatch: pytest.MonkeyPatch, batch: bool
) -> None:
    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    with Server(lambda peer, number: peer.hang()) as server:
        link = link_to(server, links)
        watch = Watch(b"k", Box())
        request: Any = watch
        if batch:
            request = Batch((watch, Post("/kv/put", {})))
            monkeypatch.setattr(Conn, "receive", interrupt)
        else:
            monkeypatch.setattr("recipes.stores.etcd.blocking.acquire", interrupt)
        with pytest.raises(KeyboardInterrupt):
            link.ask(request, 5)
        assert len(link._reader._switch.book) == 0


def test_an_interruption_while_sending_loses_every_watch(
    links: list[EtcdLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(confirming) as server:
        link = link_to(server, links)
        box = Box()
        link.ask(Watch(b"k", box), 5)
        main = threading.current_thread()
        real = Conn.send_some

        def interrupt(conn: Conn, data: Any) -> int:
            if threading.current_thread() is main:
                raise KeyboardInterrupt
            return real(conn, data)

        with monkeypatch.context() as patch:
            patch.setattr(Conn, "send_some", interrupt)
            with pytest.raises(KeyboardInterrupt):
                link.ask(Watch(b"l", box), 5)
        assert box.events.get(timeout=5) == Disturbed()
        assert link.ask(Watch(b"k", box), 5) == 7


def test_a_send_that_fails_loses_every_watch(links: list[EtcdLink], monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(confirming) as server:
        link = link_to(server, links)
        box = Box()
        link.ask(Watch(b"k", box), 5)

        def fail(conn: Conn, data: Any) -> int:
            raise BrokenPipeError(32, "Broken pipe")

        with monkeypatch.context() as patch:
            patch.setattr(Conn, "send_some", fail)
            with pytest.raises(StoreUnavailable, match="Broken pipe"):
                link.ask(Watch(b"l", box), 5)
        assert box.events.get(timeout=5) == Disturbed()


def test_what_does_not_fit_is_sent_by_the_thread(
    links: list[EtcdLink], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(confirming) as server:
        link = link_to(server, links)
        box = Box()
        link.ask(Watch(b"k", box), 5)
        main = threading.current_thread()
        real = Conn.send_some
        monkeypatch.setattr(
            Conn,
            "send_some",
            lambda conn, data: 0 if threading.current_thread() is main else real(conn, data[:7]),
        )
        assert link.ask(Watch(b"l", box), 5) == 7


def test_a_mailbox_that_fails_ends_the_watches_and_not_the_thread(
    links: list[EtcdLink], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def post(self, event: Event) -> None:
            raise RuntimeError("broken mailbox")

    with Server(confirming) as server:
        link = link_to(server, links)
        box = Box()
        link.ask(Watch(b"k", box), 5)
        with caplog.at_level(logging.ERROR, "recipes"):
            link.ask(Watch(b"gone", Broken()), 5)
            assert box.events.get(timeout=5) == Disturbed()
        assert "broken mailbox" in caplog.text
        assert link.ask(Watch(b"gone", box), 5) == 7
        assert box.events.get(timeout=5) == Gone("gone")


def test_a_mailbox_may_close_the_link(links: list[EtcdLink]) -> None:
    closed = threading.Event()

    class Closing:
        def post(self, event: Event) -> None:
            link.close()
            closed.set()

    with Server(confirming) as server:
        link = link_to(server, links)
        link.ask(Watch(b"gone", Closing()), 5)
        assert closed.wait(5)


def test_closing_without_a_watch_starts_nothing(links: list[EtcdLink]) -> None:
    link: Any = EtcdLink([("127.0.0.1", 1)])
    link.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        link.ask(Watch(b"k", Box()), 1)
    assert link._reader._thread is None
