"""The asyncio way to etcd: the same codec and the same watching as the blocking one, on one loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from recipes._contract.connection import Batch, Mailbox, Request
from recipes.errors import StoreError, StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.credentials import Credentials
from recipes.stores.etcd.codec import only_reads
from recipes.stores.etcd.gateway_wire import GATEWAY
from recipes.stores.etcd.login import Login
from recipes.stores.etcd.requests import EtcdError, Json, LogIn, Post, Watch
from recipes.stores.etcd.stream_book import Arming, split
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.tasks_conn import Conn
from recipes.stores.etcd.tasks_watching import Watching
from recipes.stores.etcd.wire_answers import failed, unavailable
from recipes.stores.etcd.wire_dial import Endpoints
from recipes.stores.etcd.wires import Reply, Speaker, Wire, WireError
from recipes.stores.streams import connect, told

__all__ = ["AsyncEtcdConnection"]

MOST_AT_ONCE = 32
"""Calls on their way; those behind wait for one of their kind to be answered (see ``Post``)."""

IDLE_KEPT = 2
SWEEP_S = 1.0


class _Server:
    """One endpoint: its connections, of which a burst of calls leaves many idle for a second."""

    def __init__(self, endpoint: Endpoint, speaker: Speaker) -> None:
        self.endpoint = endpoint
        self.speaker = speaker
        self._idle: deque[Conn] = deque()
        self._unused = 0  # how many were idle all the time since the last sweep
        self._sweeping: asyncio.TimerHandle | None = None

    def take(self) -> Conn | None:
        """Return the idle connection that was used last; None if there is none that is good."""
        while self._idle:
            conn = self._idle.pop()
            self._unused = min(self._unused, len(self._idle))
            if conn.good():
                return conn
            conn.transport.abort()
        return None

    def give(self, conn: Conn) -> None:
        """Keep a connection that has answered all it was asked."""
        self._idle.append(conn)
        if self._sweeping is None and len(self._idle) > IDLE_KEPT:
            self._unused = len(self._idle)
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Close what nobody used since the last time, but for a few."""
        self._sweeping = None
        for _ in range(min(self._unused, len(self._idle)) - IDLE_KEPT):
            self._idle.popleft().transport.abort()
        if len(self._idle) > IDLE_KEPT:
            self._unused = len(self._idle)
            self._sweeping = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def drain(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().transport.abort()
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def meaning(self, post: Post, reply: Reply) -> Json | Exception:
        """Return the document of ``reply``, or the error it stands for."""
        try:
            return self.speaker.meaning(post.path, reply)
        except (EtcdError, StoreError) as error:
            return error


class AsyncEtcdConnection:
    """An ``AsyncConnection`` to etcd, for one event loop. Making one does no I/O.

    The arguments are those of ``EtcdConnection``. A call that is cancelled closes its connection.
    """

    def __init__(
        self,
        endpoints: Sequence[tuple[str, int]] | Endpoints,
        *,
        ssl_context: ssl.SSLContext | None = None,
        credentials: Credentials | None = None,
        wire: Wire = GATEWAY,
    ) -> None:
        self._login = Login(credentials)
        self._logging_in: asyncio.Lock | None = None
        self._endpoints = endpoints if isinstance(endpoints, Endpoints) else Endpoints(endpoints)
        self._context = ssl_context
        self._servers = {
            endpoint: _Server(endpoint, wire.speaker(endpoint)) for endpoint in self._endpoints.all
        }
        store = self._endpoints.all[0].store
        multiplexer = Multiplexer(self._endpoints, self._login.token, wire)
        self._watching = Watching(multiplexer, ssl_context, store)
        self._conns: set[Conn] = set()
        self._slots, self._freeing, self._urgent = (asyncio.Semaphore(MOST_AT_ONCE) for _ in range(3))
        self._closed = False

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        until = asyncio.get_running_loop().time() + timeout_s
        match request:
            case Post():
                (reply,) = await self._posts([request], until)
                if isinstance(reply, Exception):
                    raise reply
                return reply
            case Watch():
                return await _Armed(self._watching, request).wait(until, self._endpoints.current())
            case Batch():
                return await self._batch(request.parts, until)
            case LogIn():
                return await self._log_in(request.after, until)
            case _:
                raise AssertionError(f"etcd should not be asked {type(request).__name__}")

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._watching.forget(mailbox)

    def for_another_loop(self) -> None:
        """Return None: this connection works in its own loop only."""

    async def close(self) -> None:
        """Let go of connections and tasks, within a second; never raises."""
        self._closed = True
        for server in self._servers.values():
            server.drain()
        conns = list(self._conns)
        for conn in conns:
            conn.fail(WireError("this link was closed"))
        await self._watching.close()
        if conns:
            await asyncio.wait([conn.closed for conn in conns])

    async def _log_in(self, after: int, until: float) -> int:
        """Log in, one task at a time; who waited for another's login needs none."""
        store = self._endpoints.current().store
        self._logging_in = self._logging_in or asyncio.Lock()
        try:
            async with asyncio.timeout_at(until), self._logging_in:
                if self._login.number > after:
                    return self._login.number
                request = await told(partial(self._login.ask, store))
                if isinstance(request, Exception):
                    raise request
                (reply,) = await self._posts([request], until)
                if isinstance(reply, Exception):
                    raise reply
                return self._login.took(reply, store)
        except TimeoutError:
            raise unavailable(store, "no answer to a login in time") from None

    async def _batch(self, parts: Sequence[Request[Any]], until: float) -> tuple[Any, ...]:
        """Send the watches, then the calls; then take the replies."""
        watches, posts = split(parts)
        armed: dict[int, _Armed] = {}
        replies: dict[int, Any] = {}
        try:
            for position, watch in watches.items():
                armed[position] = _Armed(self._watching, watch)
            if posts:
                found = await self._posts(list(posts.values()), until)
                replies.update(zip(posts, found, strict=True))
            for position, waiting in armed.items():
                try:
                    replies[position] = await waiting.wait(until, self._endpoints.current())
                except (EtcdError, StoreError) as error:
                    replies[position] = error
        except BaseException:
            for waiting in armed.values():
                waiting.give_up()
            raise
        return tuple(replies[position] for position in range(len(parts)))

    async def _posts(self, posts: Sequence[Post], until: float) -> list[Json | Exception]:
        """Send ``posts`` back to back, when it is their turn; an exception stands for what failed."""
        slots = self._slots_for(posts)
        try:
            await _enter(slots, until)
        except TimeoutError as error:  # no fault of the server's: it was not asked
            return [failed(self._endpoints.current().store, error, unsent=True)] * len(posts)
        try:
            return await self._exchange(posts, until)
        finally:
            slots.release()

    def _slots_for(self, posts: Sequence[Post]) -> asyncio.Semaphore:
        if any(post.urgent for post in posts):
            return self._urgent
        return self._freeing if any(post.frees for post in posts) else self._slots

    async def _exchange(self, posts: Sequence[Post], until: float) -> list[Json | Exception]:
        """Send ``posts`` back to back on one connection, to the server that is the current one now."""
        loop = asyncio.get_running_loop()
        attempt = self._endpoints.attempt(loop.time(), until)
        server = self._servers[attempt.endpoint]
        store = server.endpoint.store
        token = self._login.token()
        found: list[Json | Exception] = []
        conn: Conn | None = None
        try:
            conn = await self._take(server, attempt.until)
            with self._using(conn, server, attempt.until, posts):
                waiting = conn.send([(post.path, post.body) for post in posts], token)
                for post, reply in zip(posts, waiting, strict=True):
                    found.append(server.meaning(post, await reply))
        except (OSError, WireError) as error:
            server.drain()
            failure = failed(store, error, unsent=conn is None)
            found += [failure] * (len(posts) - len(found))
        if self._closed:
            return found  # which is no fault of the server
        if any(isinstance(reply, StoreUnavailable) for reply in found):
            self._endpoints.unanswered(attempt, loop.time())
            self._watching.follow()
        else:
            self._endpoints.answered(attempt, loop.time())
        return found

    @contextlib.contextmanager
    def _using(
        self, conn: Conn, server: _Server, until: float, posts: Sequence[Post]
    ) -> Generator[None, None, None]:
        """Bound the use of ``conn`` by ``until``; whatever interrupts it closes the connection."""

        def give_up(error: Exception) -> None:
            conn.give_up(error, reads=all(only_reads(post.path, post.body) for post in posts))

        late = asyncio.get_running_loop().call_at(until, give_up, TimeoutError("no answer in time"))
        try:
            yield
        except BaseException:
            give_up(WireError("the call was cancelled"))
            raise
        finally:
            late.cancel()
        if conn.good() and not self._closed:
            server.give(conn)
        else:
            conn.transport.abort()

    async def _take(self, server: _Server, until: float) -> Conn:
        if self._closed:
            raise WireError("this link is closed")
        idle = server.take()
        if idle is not None:
            return idle
        conn = Conn(server.speaker.line())
        await connect(server.endpoint, self._context, conn, until)
        self._conns.add(conn)
        conn.closed.add_done_callback(lambda _: self._conns.discard(conn))
        self._check_open(conn)
        return conn

    def _check_open(self, conn: Conn) -> None:
        if self._closed:  # while it connected
            conn.transport.abort()
            raise WireError("this link was closed")


class _Armed:
    """A watch on its way, and the task that waits for its ``created``."""

    __slots__ = ("_arming", "_result", "_watching")

    def __init__(self, watching: Watching, watch: Watch) -> None:
        self._watching = watching
        self._result: asyncio.Future[int | Exception] = asyncio.get_running_loop().create_future()
        self._arming = Arming(watch, self._resolve)
        watching.arm(self._arming)

    async def wait(self, until: float, endpoint: Endpoint) -> int:
        """Return the revision; on anything else nothing of the watch stays."""
        try:
            async with asyncio.timeout_at(until):
                result = await self._result
        except TimeoutError:
            self.give_up()
            raise unavailable(endpoint.store, "the watch was not confirmed in time") from None
        except BaseException:
            self.give_up()
            raise
        if isinstance(result, Exception):
            raise result
        return result

    def give_up(self) -> None:
        """Undo the watch, resolved or not."""
        self._watching.drop(self._arming)

    def _resolve(self, result: int | Exception) -> None:
        if not self._result.done():
            self._result.set_result(result)


async def _enter(slots: asyncio.Semaphore, until: float) -> None:
    """Take one of the slots; TimeoutError if there is none in time."""
    if not slots.locked():
        await slots.acquire()
        return
    try:
        async with asyncio.timeout_at(until):
            await slots.acquire()
    except TimeoutError:
        raise TimeoutError("too many calls were before this one") from None
