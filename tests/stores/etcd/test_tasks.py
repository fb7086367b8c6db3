"""What only the asyncio connection has: cancellation, and no threads."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from recipes.errors import StoreUnavailable
from recipes.stores import streams
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd import tasks
from recipes.stores.etcd.gateway import HttpLine
from recipes.stores.etcd.requests import Post, Watch
from recipes.stores.etcd.tasks import AsyncEtcdConnection
from recipes.stores.etcd.tasks_conn import Conn
from recipes.stores.etcd.wire import Dialect
from recipes.stores.streams import connect
from tests.pace import taking
from tests.stores.etcd.fakes import Box, Peer, Server, trusting

PUT = Post("/kv/put", {})
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Return what ``asyncio.run`` is, on either kind of loop."""

    def run_in(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main)

    return run_in


async def cancel(call: Any, ready: threading.Event) -> None:
    task = asyncio.ensure_future(call)
    assert await asyncio.to_thread(ready.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_closes_its_connection(run: Run) -> None:
    asked, ended = threading.Event(), threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        asked.set()
        if peer.ended():
            ended.set()

    async def main(port: int) -> None:
        connection = AsyncEtcdConnection([("127.0.0.1", port)])
        await cancel(connection.ask(PUT, 5), asked)
        assert await asyncio.to_thread(ended.wait, 5)
        await connection.close()
        assert not connection._conns

    with Server(script) as server:
        run(main(server.port))


def test_a_cancelled_watch_leaves_nothing(run: Run) -> None:
    asked = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.chunk()
        asked.set()
        peer.ended()

    async def main(port: int) -> None:
        connection = AsyncEtcdConnection([("127.0.0.1", port)])
        await cancel(connection.ask(Watch(b"k", Box()), 5), asked)
        assert len(connection._watching._multiplexer.book) == 0
        await connection.close()

    with Server(script) as server:
        run(main(server.port))


@pytest.mark.parametrize("tls", [False, True])
def test_a_call_cancelled_while_it_connects_leaves_nothing(run: Run, tls: bool) -> None:
    greeted = threading.Event()

    def script(peer: Peer, number: int) -> None:
        greeted.set()
        peer.ended()

    async def main(port: int) -> None:
        connection = AsyncEtcdConnection([("127.0.0.1", port)], ssl_context=trusting() if tls else None)
        await cancel(connection.ask(PUT, 5), greeted)
        await connection.close()
        assert not connection._conns

    with Server(script) as server:
        run(main(server.port))


def test_a_call_cancelled_as_the_handshake_ends_frees_the_socket(run: Run) -> None:
    """What a half-made transport keeps of it would be in the way of the next connection."""

    class Hasty(Conn):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            task.cancel()

    async def main(port: int) -> None:
        nonlocal task
        endpoint, until = Endpoint("127.0.0.1", port), asyncio.get_running_loop().time() + 5
        for _ in range(3):
            conn = Hasty(HttpLine(Dialect(endpoint.store)))
            task = asyncio.ensure_future(connect(endpoint, trusting(), conn, until))
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(server._threads[-1].join, 5)  # until the server sees the end
            assert not server._threads[-1].is_alive()
            sound = Conn(HttpLine(Dialect(endpoint.store)))
            await connect(endpoint, trusting(), sound, until)
            sound.transport.abort()
            await asyncio.wait_for(sound.closed, 5)

    task: Any = None
    with Server(lambda peer, number: peer.ended() and None, tls=True) as server:
        run(main(server.port))


def test_a_connection_that_was_given_up_twice_still_waits_for_the_server(run: Run) -> None:
    aborted: list[None] = []

    class Transport(asyncio.Transport):
        def abort(self) -> None:
            aborted.append(None)

        def write(self, data: Any) -> None:
            """Send it nowhere."""

    async def main() -> None:
        conn = Conn(HttpLine(Dialect("h")))
        conn.connection_made(Transport())
        conn.send([("/kv/range", {})], None)
        conn.give_up(TimeoutError("late"), reads=True)
        conn.give_up(TimeoutError("cancelled"), reads=True)
        assert not aborted
        conn.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{")
        assert not aborted, "it is still at it"
        conn.data_received(b"}")
        assert aborted

    run(main())


def test_closing_ends_calls_and_connecting_streams(run: Run) -> None:
    asked = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.sock.recv(1)
        asked.set()
        peer.ended()

    async def main(port: int) -> None:
        connection = AsyncEtcdConnection([("127.0.0.1", port)], ssl_context=trusting())
        plain = AsyncEtcdConnection([("127.0.0.1", port)])
        calls = [
            asyncio.ensure_future(call)
            for call in (connection.ask(PUT, 5), connection.ask(Watch(b"k", Box()), 5), plain.ask(PUT, 5))
        ]
        assert await asyncio.to_thread(asked.wait, 5)
        with taking(1):
            await connection.close()
            await plain.close()
        for call in calls[1:]:
            with pytest.raises(StoreUnavailable, match="closed"):
                await call
        calls[0].cancel()
        await asyncio.wait(calls)
        assert threading.active_count() < 20

    with Server(script) as server:
        run(main(server.port))


def test_a_connection_closed_while_a_call_connects_keeps_no_connection(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = streams.connect

    async def main(port: int) -> None:
        connection = AsyncEtcdConnection([("127.0.0.1", port)])

        async def closing(*args: Any) -> None:
            await real(*args)
            await connection.close()

        monkeypatch.setattr(tasks, "connect", closing)
        with pytest.raises(StoreUnavailable, match="closed"):
            await connection.ask(PUT, 5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not connection._conns

    with Server(lambda peer, number: peer.hang()) as server:
        run(main(server.port))


def test_a_burst_leaves_few_connections_and_dead_ones_are_passed_over(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "SWEEP_S", 0.5)

    def script(peer: Peer, number: int) -> None:
        while True:
            peer.request()
            peer.answer({})

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port)])
        await asyncio.gather(*(connection.ask(PUT, 5) for _ in range(6)))
        (server,) = connection._servers.values()
        conns = set(connection._conns)
        assert len(conns) == 6
        while len(connection._conns) > tasks.IDLE_KEPT:
            await asyncio.wait(
                [conn.closed for conn in connection._conns], return_when="FIRST_COMPLETED", timeout=5
            )
        assert connection._conns < conns
        dead = server._idle[-1]
        dead.transport.abort()
        assert await connection.ask(PUT, 5) == {}
        await asyncio.wait_for(dead.closed, 5)
        assert len(connection._conns) == 1
        await connection.close()

    with Server(script) as server:
        run(main(server.port))


def test_what_is_in_use_is_not_swept_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SWEEP_S", 3600.0)  # they are called by hand

    def script(peer: Peer, number: int) -> None:
        while True:
            peer.request()
            peer.answer({})

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port)])
        (server,) = connection._servers.values()
        await asyncio.gather(*(connection.ask(PUT, 5) for _ in range(4)))
        conns = set(connection._conns)
        for _ in range(3):  # sweeps, and before each a burst
            await asyncio.gather(*(connection.ask(PUT, 5) for _ in range(4)))
            server._sweep()
        assert connection._conns == conns
        await connection.close()
        assert server._sweeping is None

    with Server(script) as server:
        run(main(server.port))


def holding_puts_back(go_on: threading.Event) -> Callable[[Peer, int], None]:
    """Return a server's script that answers puts when told to, and all else at once."""

    def script(peer: Peer, number: int) -> None:
        while True:
            path, _, _ = peer.request()
            if path == "/v3/kv/put":
                go_on.wait(5)
            peer.answer({})

    return script


def test_calls_wait_for_one_another_before_they_take_ever_more_connections(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "MOST_AT_ONCE", 2)
    go_on = threading.Event()

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port)])
        first = [asyncio.create_task(connection.ask(PUT, 5)) for _ in range(2)]
        late = asyncio.create_task(connection.ask(PUT, 0.5))
        waiting = [asyncio.create_task(connection.ask(PUT, 5)) for _ in range(2)]
        with pytest.raises(StoreUnavailable, match="before this one") as caught:
            await late
        assert caught.value.unsent
        waiting.pop().cancel()
        go_on.set()
        assert await asyncio.gather(*first, *waiting) == [{}, {}, {}]
        assert len(connection._conns) == 2
        await connection.close()

    with Server(holding_puts_back(go_on)) as server:
        run(main(server.port))


LIVES_BY, LETS_GO = Post("/lease/keepalive", {}, urgent=True), Post("/kv/txn", {}, frees=True)


@pytest.mark.parametrize("ahead", [LIVES_BY, LETS_GO], ids=["session", "release"])
def test_what_the_session_lives_by_or_lets_go_waits_behind_no_burst(
    run: Run, monkeypatch: pytest.MonkeyPatch, ahead: Post
) -> None:
    monkeypatch.setattr(tasks, "MOST_AT_ONCE", 1)
    go_on = threading.Event()

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port)])
        burst = [asyncio.create_task(connection.ask(PUT, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await connection.ask(ahead, 5) == {}
        assert not any(task.done() for task in burst)
        go_on.set()
        assert await asyncio.gather(*burst) == [{}, {}, {}]
        await connection.close()

    with Server(holding_puts_back(go_on)) as server:
        run(main(server.port))


def test_who_waits_in_line_blames_no_server(
    run: Run, monkeypatch: pytest.MonkeyPatch, closed_port: Callable[[], int]
) -> None:
    monkeypatch.setattr(tasks, "MOST_AT_ONCE", 1)
    go_on = threading.Event()

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port), ("127.0.0.1", closed_port())])
        asked = connection._endpoints.current()
        first = asyncio.create_task(connection.ask(PUT, 30))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="before this one"):
            await connection.ask(PUT, 0.5)
        assert connection._endpoints.current() is asked
        go_on.set()
        assert await first == {}
        await connection.close()

    with Server(holding_puts_back(go_on)) as server:
        run(main(server.port))


def test_what_arrived_while_the_loop_was_blocked_is_no_late_answer(run: Run) -> None:
    asked, go_on, answered = threading.Event(), threading.Event(), threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        asked.set()
        go_on.wait(5)
        peer.answer({})
        answered.set()
        peer.hang()

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port)])
        until = time.monotonic() + 1.0
        calling = asyncio.create_task(connection.ask(PUT, 1.0))
        assert await asyncio.to_thread(asked.wait, 5)
        go_on.set()
        assert answered.wait(5)  # which blocks the loop
        time.sleep(max(0.0, until - time.monotonic()) + 0.1)  # noqa: ASYNC251 - as above
        assert await calling == {}
        await connection.close()

    with Server(script) as server:
        run(main(server.port))


def test_a_stream_that_spoke_while_the_loop_was_blocked_is_not_silent(run: Run) -> None:
    asked, spoke = threading.Event(), threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        message = peer.chunk()
        peer.begin()
        peer.created(message)
        second = peer.chunk()
        asked.set()
        peer.created(second)
        spoke.set()
        peer.hang()

    async def main(port: int) -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", port)])
        assert await connection.ask(Watch(b"k", Box()), 5) == 7
        connection._watching._multiplexer._patience_s = 0.2
        watching = asyncio.create_task(connection.ask(Watch(b"l", Box()), 30))
        await asyncio.sleep(0)  # it writes
        await asyncio.sleep(0)  # and uvloop sends
        assert spoke.wait(5)  # which blocks the loop
        time.sleep(0.5)  # noqa: ASYNC251 - as above
        assert await watching == 7
        await connection.close()

    with Server(script) as server:
        run(main(server.port))


def test_nobody_listens_for_the_stream(run: Run, closed_port: Callable[[], int]) -> None:
    async def main() -> None:
        connection = AsyncEtcdConnection([("127.0.0.1", closed_port())])
        with pytest.raises(StoreUnavailable):
            await connection.ask(Watch(b"k", Box()), 5)
        await connection.close()

    run(main())


def test_what_was_due_before_it_was_set_waits_for_its_turn_like_any_other(
    run: Run, closed_port: Callable[[], int]
) -> None:
    """A loop that was late; uvloop makes no timer of such, and a step may come before its turn does."""
    told: list[float] = []

    async def main() -> None:
        connection: Any = AsyncEtcdConnection([("127.0.0.1", closed_port())])
        watching, loop = connection._watching, asyncio.get_running_loop()
        due: list[float | None] = [loop.time() - 1]
        watching._multiplexer.due = lambda: due[0]

        def tick(now: float) -> None:
            told.append(now)
            due[0] = None

        watching._multiplexer.tick = tick
        watching.follow()
        watching.follow()
        assert told == []
        await asyncio.sleep(0.01)
        assert len(told) == 1
        await connection.close()

    run(main())
