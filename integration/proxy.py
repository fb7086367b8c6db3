"""A TCP proxy that can be told to misbehave, in this process, on a thread of its own.

::

    with Proxy.of(server) as proxy:
        client = recipes.connect(proxy.url("my/prefix"))
        proxy.cut(); proxy.heal()                        # reset everything, refuse; take connections again
        proxy.blackhole("down"); proxy.heal()            # silence; what was held arrives afterwards
        proxy.delay(0.05, jitter=0.02)
        trap = proxy.drop_reply(match=matching("kv/txn"))      # commits, and the client never hears
        ...
        assert trap.sprung.wait(5)
        with proxy.counting() as counts: ...
        assert counts.requests == {"create2": 1, "getChildren2": 1}

Every call has taken effect when it returns. Nothing here sleeps, except to delay bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from typing import Any, Literal, Self, TypeVar

from integration.harness.grpc_wire import GrpcWire
from integration.harness.http_wire import HttpWire
from integration.harness.link import CUT, Direction, Gate, Link, Piece, Policy
from integration.harness.process import Server, url_of
from integration.harness.redis_wire import RedisWire
from integration.harness.sql_wire import SqlWire
from integration.harness.traps import Counts, Toll, Trap
from integration.harness.wire import Match, Raw, Request, Wire, matching
from integration.harness.zookeeper_wire import ZooKeeperWire

__all__ = ["Counts", "Proxy", "Request", "Toll", "Trap", "matching"]

T = TypeVar("T")
WIRES: dict[str, Callable[[], Wire]] = {
    "etcd": HttpWire,
    "etcd+grpc": GrpcWire,
    "zookeeper": ZooKeeperWire,
    "redis": RedisWire,
    "postgresql": SqlWire,
    "mysql": SqlWire,
}
"""By the scheme of the URL, what reads along; by TLS there is nothing to be understood."""
BEGINS = {"ping", "connect", "hello", "auth", "select", "client", "info", "time", "subscribe"}
"""What begins a connection or keeps it alive: nothing is lost of that unless it is asked for."""
LOOPBACK = "127.0.0.1"
PATIENCE_S = 60  # for the proxy's own loop to do what it is told


class Proxy(Policy):
    """A proxy before ``host:port``; usable from any thread; a context manager starts and closes it."""

    def __init__(
        self, host: str, port: int, wire: Callable[[], Wire] = Raw, *, scheme: str = "tcp", at: str = LOOPBACK
    ) -> None:
        self._target = (host, port)
        self._wire = wire
        self._scheme = scheme
        self._counts = Counts()
        self._traps: list[Trap] = []
        self._links: set[asyncio.Task[None]] = set()
        self._errors: list[BaseException] = []
        self._delay = (0.0, 0.0)
        self._loop = asyncio.new_event_loop()
        self._gates: dict[Direction, Gate] = {"up": Gate(), "down": Gate()}
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        # Bound and never listening: the port stays ours, and refuses, while the listener is closed.
        self.host = at
        self._guard = _bound(at, 0)
        self.port = int(self._guard.getsockname()[1])
        self._deaf = False

    @classmethod
    def of(cls, server: Server, *, at: str = LOOPBACK) -> Self:
        """Return a proxy before ``server``, on the address ``at``, that understands what it speaks."""
        wire = WIRES.get(server.scheme, Raw)
        return cls(server.host, server.port, wire, scheme=server.scheme, at=at)

    @property
    def address(self) -> str:
        """Return ``host:port``."""
        return f"{self.host}:{self.port}"

    def url(self, prefix: str = "") -> str:
        """Return the URL by which a client goes through the proxy."""
        return url_of(self._scheme, [self.address], prefix)

    def lead_to(self, server: Server) -> None:
        """Have new connections lead to another server, as an address does that moves; the old ones stay."""
        self._target = (server.host, server.port)

    # Faults.

    def cut(self) -> None:
        """Reset every connection and refuse new ones, until ``heal``."""
        self._call(self._refuse)
        self._do(self._reset())

    def reset(self) -> None:
        """Reset every connection; new ones are taken."""
        self._do(self._reset())

    def blackhole(self, direction: Literal["both", "up", "down"] = "both") -> None:
        """Hold everything in that direction: connections stay open, new ones are taken, all is silent.

        What was sent meanwhile arrives after ``heal``, as from a network that was away;
        ``reset`` or ``cut`` in between loses it.
        """
        ways: list[Direction] = ["up", "down"] if direction == "both" else [direction]
        self._call(lambda: self._gate(ways, is_open=False))

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Delay what is read from now on, each way, by ``seconds`` give or take ``jitter``; order is kept."""
        self._delay = (seconds, jitter)

    def lose_events(self) -> None:
        """Lose every event of a watch, and nothing else, until ``heal``."""
        self._deaf = True

    def heal(self) -> None:
        """End ``cut``, ``blackhole``, ``delay`` and ``lose_events``; traps stay set."""
        self._delay = (0.0, 0.0)
        self._deaf = False
        self._call(lambda: self._gate(["up", "down"], is_open=True))
        self._call(self._listen)

    def drop_reply(self, n: int = 1, match: Match | None = None, *, silent: bool = False) -> Trap:
        """Lose the reply to the ``n``-th request from now that matches, once it begins to arrive.

        The request was carried out; the reply and all after it on that connection are lost,
        and the connection is reset, or stays open in silence if ``silent``.
        """
        return self._set(Trap("lose reply", match or _any, n, silent))

    def drop_request(self, n: int = 1, match: Match | None = None) -> Trap:
        """Reset the connection that brings the ``n``-th such request, before the server gets it."""
        return self._set(Trap("lose request", match or _any, n))

    def hold_request(self, n: int = 1, match: Match | None = None) -> Trap:
        """Hold the ``n``-th such request and all after it on that connection, until ``release``."""
        return self._set(Trap("hold request", match or _any, n))

    def release(self, trap: Trap) -> None:
        """Let pass what ``hold_request`` holds, even if its client has gone meanwhile."""
        self._call(lambda: trap.gate.set(is_open=True))

    def expect(self, match: Match, n: int = 1) -> Trap:
        """Do nothing but tell (``sprung``) when the ``n``-th such request is seen."""
        return self._set(Trap("tell", match, n))

    def drop_replies(self, every: int, match: Match | None = None) -> Toll:
        """Lose the reply to every ``every``-th request that matches, as `drop_reply` does, until `lift`."""
        toll = Toll("lose reply", match or _any, every, every=every)
        self._set(toll)
        return toll

    def cut_requests(self, every: int, match: Match | None = None) -> Toll:
        """Reset the connection that brings each n-th such request (``every``), as `drop_request`."""
        toll = Toll("lose request", match or _any, every, every=every)
        self._set(toll)
        return toll

    def lift(self, trap: Trap) -> None:
        """End a trap; what it has lost stays lost."""
        self._call(lambda: self._traps.remove(trap))

    # What was seen.

    @property
    def dropped(self) -> threading.Event:
        """Return the event of the trap that was set last."""
        return self._traps[-1].sprung

    def counts(self) -> Counts:
        """Return what passed since the start."""
        return self._call(self._counts.copy)

    @contextlib.contextmanager
    def counting(self) -> Generator[Counts, None, None]:
        """Yield counts that are filled in, when the block ends, with what passed during it."""
        before, during = self.counts(), Counts()
        try:
            yield during
        finally:
            during.__dict__.update((self.counts() - before).__dict__)

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return self._call(lambda: len(self._links))

    # Life.

    def start(self) -> Self:
        """Take connections."""
        self._thread.start()
        self._call(self._listen)
        return self

    def close(self) -> None:
        """Reset every connection and end the thread; raises what went wrong in the proxy itself."""
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
        self._guard.close()
        if self._errors:
            raise self._errors[0]

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    # The policy of each link; called on the loop.

    def gate(self, direction: Direction) -> Gate:
        """Return the gate of every connection in that direction."""
        return self._gates[direction]

    def delay_s(self) -> float:
        """Return by how much to delay what was read now."""
        seconds, jitter = self._delay
        return max(0.0, seconds + random.uniform(-jitter, jitter)) if seconds or jitter else 0.0

    def cross(self, link: Link, direction: Direction, data: bytes) -> Iterable[Piece]:
        """Count what was read, spring traps, and return the pieces to pass on."""
        return self._up(link, data) if direction == "up" else self._down(link, data)

    def _up(self, link: Link, data: bytes) -> Iterator[Piece]:
        self._counts.bytes_up += len(data)
        for piece, requests in link.wire.sent(data):
            for request in requests:
                self._counts.asked(request)
                for trap in [trap for trap in self._traps if trap.sees(request)]:
                    if trap.act == "lose request":
                        yield CUT
                        trap.sprung.set()
                    elif trap.act == "hold request":
                        trap.gate.set(is_open=False)
                        yield trap.gate
                        trap.sprung.set()
                    elif trap.act == "tell":
                        trap.sprung.set()
            yield piece

    def _down(self, link: Link, data: bytes) -> Iterator[Piece]:
        self._counts.bytes_down += len(data)
        for piece, answered in link.wire.received(data):
            for request in answered:
                self._counts.answered(request)
                for trap in [trap for trap in self._traps if trap.loses_reply_to(request)]:
                    link.muted = True
                    if not trap.silent:
                        yield CUT
                    trap.sprung.set()
            if not (link.muted or (self._deaf and link.wire.tells(piece, answered))):
                yield piece

    # On the loop.

    def _gate(self, ways: list[Direction], *, is_open: bool) -> None:
        for way in ways:
            self._gates[way].set(is_open=is_open)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bound(self.host, self.port)
            self._listener.listen(1024)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # it went away again
            return
        client.setblocking(False)
        self._counts.connections += 1
        link = Link(self, client, self._wire())
        task = self._loop.create_task(link.run(*self._target))
        self._links.add(task)
        task.add_done_callback(lambda task: self._ended(task, link))

    def _ended(self, task: asyncio.Task[None], link: Link) -> None:
        self._links.discard(task)
        link.close()  # here, for a task that is cancelled at once never runs
        if not task.cancelled() and (error := task.exception()) is not None:
            self._errors.append(error)

    async def _reset(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _set(self, trap: Trap) -> Trap:
        self._call(lambda: self._traps.append(trap))
        return trap

    def _call(self, act: Callable[[], T]) -> T:
        async def on_loop() -> T:
            return act()

        return self._do(on_loop())

    def _do(self, act: Coroutine[Any, Any, T]) -> T:
        assert threading.current_thread() is not self._thread, "a match should not tell its proxy what to do"
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(PATIENCE_S)


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to ``port`` of an address, beside any other of ours."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((host, port))
    bound.setblocking(False)
    return bound


def _any(request: Request) -> bool:
    return request.label not in BEGINS
