"""What becomes of the connection of a call that was given up, on both APIs."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from recipes._contract.connection import Batch
from recipes.errors import StoreUnavailable
from recipes.stores import sockets
from recipes.stores.etcd import codec, pool, tasks_conn
from recipes.stores.etcd.requests import Post
from tests.stores.etcd.fakes import BlockingApi, Peer, Server, trusting

READ, WRITE = [codec.read(b"k")], [codec.put(b"k", b"", 1)]
CREATE = Post("/kv/txn", codec.txn([codec.compare_absent(b"k")], WRITE, READ))
LOOK = Post("/kv/txn", codec.txn([codec.compare_present(b"k")[0]], (), READ))
RANGE = Post("/kv/range", codec.span(b"k"))
KEEPALIVE = Post("/lease/keepalive", {"ID": 1})
Connect = Callable[..., Any]
PATIENCE_S = 8.0


class Silent:
    """A server that answers nothing until it is let; says how each connection ended, in ``ends``."""

    def __init__(self) -> None:
        self.ends: queue.Queue[str] = queue.Queue()
        self.asked = threading.Event()
        self._let, self._answers = socket.socketpair()

    def __call__(self, peer: Peer, number: int) -> None:
        peer.request()
        self.asked.set()
        ready, _, _ = select.select([peer.sock, self._answers], [], [])
        if self._answers in ready:
            peer.answer({})
        self.ends.put(how_it_ends(peer))

    def let(self) -> None:
        """Have it answer."""
        self._let.send(b"!")

    def close(self) -> None:
        self._let.close()
        self._answers.close()


def how_it_ends(peer: Peer) -> str:
    """Read to the end of a connection, below any TLS; say what that was."""
    with socket.socket(fileno=os.dup(peer.sock.fileno())) as raw:
        try:
            while raw.recv(1 << 20):
                pass
        except ConnectionResetError:
            return "reset"
    return "closed"


@pytest.fixture
def silent() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.close()


def serving(peer: Peer, number: int) -> None:
    """Answer everything."""
    while True:
        peer.request()
        peer.answer({})


def ended(api: Any, silent: Silent) -> str:
    """Wait until a connection has ended; say how."""
    told = threading.Event()
    found: list[str] = []

    def wait() -> None:
        with contextlib.suppress(queue.Empty):
            found.append(silent.ends.get(timeout=PATIENCE_S))
        told.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not api.until(told):
        continue
    waiting.join()
    assert found, "the connection is still open"
    return found[0]


def give_up(api: Any, request: Any, asked: threading.Event) -> None:
    """Ask for what is not answered, for as long as it takes a busy machine to send it."""
    timeouts = iter((0.3, 1.0, 5.0, 20.0))
    while not asked.is_set():
        with pytest.raises(StoreUnavailable):
            api.ask(request, next(timeouts))


def give_up_at(api: Any, post: Post, asked: threading.Event) -> None:
    """Have the first of two servers be left with a call that it has got."""
    timeouts = iter((0.9, 3.0, 15.0, 60.0))  # it has a third of that
    while not asked.is_set():
        api.connection._endpoints._at = 0
        with contextlib.suppress(StoreUnavailable):
            api.ask(post, next(timeouts))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing closed because time has passed."""
    monkeypatch.setattr(pool, "GIVEN_UP_S", 3600.0)
    monkeypatch.setattr(tasks_conn, "GIVEN_UP_S", 3600.0)


def test_what_only_reads_is_told_from_what_does_not() -> None:
    for post in (LOOK, RANGE, Post("/kv/txn", codec.txn())):
        assert codec.only_reads(f"http://h:1/v3{post.path}", post.body)
    deletes = Post("/kv/txn", codec.txn((), [codec.delete(b"k")]))
    fails = Post("/kv/txn", codec.txn((), READ, WRITE))
    deleterange = Post("/kv/deleterange", codec.span(b"k"))
    for post in (CREATE, KEEPALIVE, deletes, fails, deleterange):
        assert not codec.only_reads(f"http://h:1/v3{post.path}", post.body)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
@pytest.mark.parametrize("post", [CREATE, KEEPALIVE], ids=["create", "keepalive"])
def test_a_write_that_is_given_up_is_reset_at_once(
    connect: Connect, silent: Silent, post: Post, tls: bool
) -> None:
    """Else the kernel goes on delivering it for a quarter of an hour, with nobody there any more."""
    with Server(silent, tls=tls) as server:
        api = connect(server.port, ssl_context=trusting() if tls else None)
        give_up(api, post, silent.asked)
        assert ended(api, silent) == "reset"


@pytest.mark.usefixtures("patient")
def test_what_of_a_write_no_server_has_taken_is_not_delivered(connect: Connect, silent: Silent) -> None:
    """It does not fit into what the kernels keep, and the server reads it when it was given up."""
    body = codec.txn((), [codec.put(b"k", b"x" * 12_000_000, 1)])
    given_up = threading.Event()
    got: list[int] = []

    def script(peer: Peer, number: int) -> None:
        if not peer.sock.recv(1):  # it was left before anything was sent
            return
        silent.asked.set()
        assert given_up.wait(30)
        try:
            while data := peer.sock.recv(1 << 20):
                got.append(len(data))
        except ConnectionResetError:
            silent.ends.put("reset")

    with Server(script) as server:
        api = connect(server.port)
        give_up(api, Post("/kv/txn", body), silent.asked)
        api.close()
        given_up.set()
        assert ended(api, silent) == "reset"
        assert sum(got) < 12_000_000


@pytest.mark.usefixtures("patient")
def test_a_batch_that_writes_is_reset_at_once(connect: Connect, silent: Silent) -> None:
    with Server(silent) as server:
        api = connect(server.port)
        timeouts = iter((0.3, 1.0, 5.0, 20.0))
        while not silent.asked.is_set():
            replies = api.ask(Batch((LOOK, CREATE)), next(timeouts))
            assert all(isinstance(reply, StoreUnavailable) for reply in replies)
        assert ended(api, silent) == "reset"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("post", [LOOK, RANGE], ids=["transaction", "range"])
def test_a_read_that_is_given_up_is_closed_when_the_server_has_answered(
    connect: Connect, silent: Silent, post: Post
) -> None:
    """etcd issue 14110. No call goes to that server any more, so it must not take one to close it."""
    with Server(silent) as left, Server(serving) as server:
        api = connect(left.port, server.port)
        give_up_at(api, post, silent.asked)
        assert api.ask(CREATE) == {}, "by another server"
        assert silent.ends.empty(), "not under the server's hands"
        silent.let()
        until = time.monotonic() + PATIENCE_S
        while silent.ends.empty() and time.monotonic() < until:
            assert api.ask(CREATE) == {}
        ended(api, silent)


def test_a_read_that_is_never_answered_is_closed_after_a_while(
    connect: Connect, silent: Silent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "GIVEN_UP_S", 0.0)
    monkeypatch.setattr(tasks_conn, "GIVEN_UP_S", 0.0)
    with Server(silent) as left, Server(serving) as server:
        api = connect(left.port, server.port)
        give_up_at(api, LOOK, silent.asked)
        assert api.ask(CREATE) == {}, "by another server"
        assert ended(api, silent) == "reset"


@pytest.mark.usefixtures("patient")
def test_a_read_that_is_given_up_is_not_used_again(connect: Connect, silent: Silent) -> None:
    with Server(silent) as server:
        api = connect(server.port)
        give_up(api, LOOK, silent.asked)
        before = server.connections
        silent.asked.clear()
        give_up(api, LOOK, silent.asked)
        assert server.connections > before
        assert silent.ends.empty()
        api.close()
        assert [ended(api, silent) for _ in range(2)] == ["reset", "reset"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("post", [CREATE, LOOK], ids=["write", "read"])
def test_a_call_that_is_interrupted_is_given_up_in_the_same_way(
    silent: Silent, monkeypatch: pytest.MonkeyPatch, post: Post
) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    with Server(silent) as server:
        api = BlockingApi([server.port])
        with monkeypatch.context() as patch:
            patch.setattr(sockets.Conn, "receive", interrupt)
            with pytest.raises(KeyboardInterrupt):
                api.ask(post)
        if post is LOOK:
            assert silent.asked.wait(5)
            assert silent.ends.empty()
            api.close()
        assert ended(api, silent) == "reset"
        api.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("reads", [True, False])
def test_a_connection_that_is_closed_leaves_nothing_to_be_delivered(
    connect: Connect, silent: Silent, reads: bool
) -> None:
    with Server(silent) as server:
        api = connect(server.port)
        give_up(api, LOOK if reads else CREATE, silent.asked)
        api.close()
        assert ended(api, silent) == "reset"
