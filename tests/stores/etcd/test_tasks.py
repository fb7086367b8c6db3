"""What only the asyncio link has: cancellation, and no threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from recipes.errors import StoreUnavailable
from recipes.stores.etcd import tasks, tasks_conn
from recipes.stores.etcd.requests import Post, Watch
from recipes.stores.etcd.tasks import AsyncEtcdLink
from recipes.stores.etcd.tasks_conn import Conn, connect
from recipes.stores.etcd.wire_dial import Endpoint
from tests.pace import taking
from tests.stores.etcd.fakes import Box, Peer, Server, closed_port, trusting

PUT = Post("/kv/put", {})


async def cancel(call: Any, ready: threading.Event) -> None:
    task = asyncio.ensure_future(call)
    assert await asyncio.to_thread(ready.wait, 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_cancelled_call_closes_its_connection() -> None:
    asked, ended = threading.Event(), threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        asked.set()
        if peer.ended():
            ended.set()

    async def main(port: int) -> None:
        link = AsyncEtcdLink([("127.0.0.1", port)])
        await cancel(link.ask(PUT, 5), asked)
        assert await asyncio.to_thread(ended.wait, 5)
        await link.close()
        assert not link._conns

    with Server(script) as server:
        asyncio.run(main(server.port))


def test_a_cancelled_watch_leaves_nothing() -> None:
    asked = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.request()
        peer.chunk()
        asked.set()
        peer.ended()

    async def main(port: int) -> None:
        link = AsyncEtcdLink([("127.0.0.1", port)])
        await cancel(link.ask(Watch(b"k", Box()), 5), asked)
        assert len(link._watching._switch.book) == 0
        await link.close()

    with Server(script) as server:
        asyncio.run(main(server.port))


@pytest.mark.parametrize("tls", [False, True])
def test_a_call_cancelled_while_it_connects_leaves_nothing(tls: bool) -> None:
    greeted = threading.Event()

    def script(peer: Peer, number: int) -> None:
        greeted.set()
        peer.ended()

    async def main(port: int) -> None:
        link = AsyncEtcdLink([("127.0.0.1", port)], ssl_context=trusting() if tls else None)
        await cancel(link.ask(PUT, 5), greeted)
        await link.close()
        assert not link._conns

    with Server(script) as server:
        asyncio.run(main(server.port))


def test_a_call_cancelled_as_the_handshake_ends_frees_the_socket() -> None:
    """What a half-made transport keeps of it would be in the way of the next connection."""

    class Hasty(Conn):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            task.cancel()

    async def main(port: int) -> None:
        nonlocal task
        endpoint, until = Endpoint("127.0.0.1", port), asyncio.get_running_loop().time() + 5
        for _ in range(3):
            conn = Hasty()
            task = asyncio.ensure_future(connect(endpoint, trusting(), conn, until))
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(conn.closed, 5)
            sound = Conn()
            await connect(endpoint, trusting(), sound, until)
            sound.transport.abort()
            await asyncio.wait_for(sound.closed, 5)

    task: Any = None
    with Server(lambda peer, number: peer.ended() and None, tls=True) as server:
        asyncio.run(main(server.port))


def test_a_connection_that_was_given_up_twice_still_waits_for_the_server() -> None:
    aborted: list[None] = []

    class Transport(asyncio.Transport):
        def abort(self) -> None:
            aborted.append(None)

    async def main() -> None:
        conn = Conn()
        conn.connection_made(Transport())
        conn.give_up(TimeoutError("late"))
        conn.give_up(TimeoutError("cancelled"))
        assert not aborted
        conn.data_received(b"HTTP/1.1 200 OK")
        assert aborted

    asyncio.run(main())


def test_closing_ends_calls_and_connecting_streams() -> None:
    asked = threading.Event()

    def script(peer: Peer, number: int) -> None:
        peer.sock.recv(1)
        asked.set()
        peer.ended()

    async def main(port: int) -> None:
        link = AsyncEtcdLink([("127.0.0.1", port)], ssl_context=trusting())
        plain = AsyncEtcdLink([("127.0.0.1", port)])
        calls = [
            asyncio.ensure_future(call)
            for call in (link.ask(PUT, 5), link.ask(Watch(b"k", Box()), 5), plain.ask(PUT, 5))
        ]
        assert await asyncio.to_thread(asked.wait, 5)
        with taking(1):
            await link.close()
            await plain.close()
        for call in calls[1:]:
            with pytest.raises(StoreUnavailable, match="closed"):
                await call
        calls[0].cancel()
        await asyncio.wait(calls)
        assert threading.active_count() < 20

    with Server(script) as server:
        asyncio.run(main(server.port))


def test_a_link_closed_while_a_call_connects_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tasks_conn.connect

    async def main(port: int) -> None:
        link = AsyncEtcdLink([("127.0.0.1", port)])

        async def closing(*args: Any) -> None:
            await real(*args)
            await link.close()

        monkeypatch.setattr(tasks, "connect", closing)
        with pytest.raises(StoreUnavailable, match="closed"):
            await link.ask(PUT, 5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not link._conns

    with Server(lambda peer, number: peer.hang()) as server:
        asyncio.run(main(server.port))


def test_a_burst_leaves_few_connections_and_dead_ones_are_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "SWEEP_S", 0.05)

    def script(peer: Peer, number: int) -> None:
        while True:
            peer.request()
            peer.answer({})

    async def main(port: int) -> None:
        link: Any = AsyncEtcdLink([("127.0.0.1", port)])
        await asyncio.gather(*(link.ask(PUT, 5) for _ in range(6)))
        (server,) = link._servers.values()
        conns = set(link._conns)
        assert len(conns) == 6
        while len(link._conns) > tasks.IDLE_KEPT:
            await asyncio.wait(
                [conn.closed for conn in link._conns], return_when="FIRST_COMPLETED", timeout=5
            )
        assert link._conns < conns
        server._idle[-1].transport.abort()
        assert await link.ask(PUT, 5) == {}
        assert len(link._conns) == 1
        await link.close()

    with Server(script) as server:
        asyncio.run(main(server.port))


def test_what_is_in_use_is_not_swept_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "SWEEP_S", 0.05)

    def script(peer: Peer, number: int) -> None:
        while True:
            peer.request()
            peer.answer({})

    async def main(port: int) -> None:
        link: Any = AsyncEtcdLink([("127.0.0.1", port)])
        (server,) = link._servers.values()
        await asyncio.gather(*(link.ask(PUT, 5) for _ in range(4)))
        conns = set(link._conns)
        for _ in range(3):  # sweeps, and before each a burst
            await asyncio.gather(*(link.ask(PUT, 5) for _ in range(4)))
            server._sweep()
        assert link._conns == conns
        await link.close()
        assert server._sweeping is None

    with Server(script) as server:
        asyncio.run(main(server.port))


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tasks, "MOST_AT_ONCE", 2)
    go_on = threading.Event()

    async def main(port: int) -> None:
        link: Any = AsyncEtcdLink([("127.0.0.1", port)])
        first = [asyncio.create_task(link.ask(PUT, 5)) for _ in range(2)]
        late = asyncio.create_task(link.ask(PUT, 0.5))
        waiting = [asyncio.create_task(link.ask(PUT, 5)) for _ in range(2)]
        with pytest.raises(StoreUnavailable, match="before this one"):
            await late
        waiting.pop().cancel()
        go_on.set()
        assert await asyncio.gather(*first, *waiting) == [{}, {}, {}]
        assert len(link._conns) == 2
        await link.close()

    with Server(holding_puts_back(go_on)) as server:
        asyncio.run(main(server.port))


def test_what_the_session_lives_by_waits_behind_no_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_AT_ONCE", 1)
    go_on = threading.Event()

    async def main(port: int) -> None:
        link: Any = AsyncEtcdLink([("127.0.0.1", port)])
        burst = [asyncio.create_task(link.ask(PUT, 30)) for _ in range(3)]
        await asyncio.sleep(0)
        assert await link.ask(Post("/lease/keepalive", {}, urgent=True), 5) == {}
        assert not any(task.done() for task in burst)
        go_on.set()
        assert await asyncio.gather(*burst) == [{}, {}, {}]
        await link.close()

    with Server(holding_puts_back(go_on)) as server:
        asyncio.run(main(server.port))


def test_who_waits_in_line_blames_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_AT_ONCE", 1)
    go_on = threading.Event()

    async def main(port: int) -> None:
        link: Any = AsyncEtcdLink([("127.0.0.1", port), ("127.0.0.1", closed_port())])
        asked = link._endpoints.current()
        first = asyncio.create_task(link.ask(PUT, 30))
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="before this one"):
            await link.ask(PUT, 0.5)
        assert link._endpoints.current() is asked
        go_on.set()
        assert await first == {}
        await link.close()

    with Server(holding_puts_back(go_on)) as server:
        asyncio.run(main(server.port))


def test_nobody_listens_for_the_stream() -> None:
    async def main() -> None:
        link = AsyncEtcdLink([("127.0.0.1", closed_port())])
        with pytest.raises(StoreUnavailable):
            await link.ask(Watch(b"k", Box()), 5)
        await link.close()

    asyncio.run(main())
