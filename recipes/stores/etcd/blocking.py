"""The blocking way to etcd: kept connections for the unary calls, one stream for every watch."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from recipes._contract.connection import Batch, Mailbox, Request
from recipes._run.waiting import acquire
from recipes._section import section
from recipes.errors import StoreError, StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.credentials import Credentials
from recipes.stores.etcd.blocking_reader import Reader
from recipes.stores.etcd.gateway_wire import GATEWAY
from recipes.stores.etcd.login import Login
from recipes.stores.etcd.pool import Pipeline, Pool, Server
from recipes.stores.etcd.requests import EtcdError, Json, LogIn, Post, Watch
from recipes.stores.etcd.stream_book import Arming, split
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.wire_answers import unavailable
from recipes.stores.etcd.wire_dial import DIAL_S, Attempt, Endpoints
from recipes.stores.etcd.wires import Channel, Wire
from recipes.stores.sockets import Conn, dial

if TYPE_CHECKING:
    import ssl

__all__ = ["EtcdConnection"]


class EtcdConnection:
    """A ``Connection`` to etcd; threads may share it. Making one does no I/O.

    Args:
        endpoints: Host and port of each server; one is used until it fails. Connections of one client
            share an ``Endpoints``, and with it what the others saw fail.
        ssl_context: Speak TLS with it, checking the host names as it says.
        credentials: Whom to log in as, when asked to.
        wire: How to speak with them.
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
        self._logging_in = threading.RLock()
        self._endpoints = endpoints if isinstance(endpoints, Endpoints) else Endpoints(endpoints)
        self._context = ssl_context
        self._wire = wire
        self._servers = {endpoint: self._server(endpoint) for endpoint in self._endpoints.all}
        multiplexer = Multiplexer(self._endpoints, self._login.token, wire)
        self._reader = Reader(multiplexer, self._dial, self._endpoints.all[0].store)

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        for server in self._servers.values():  # those, too, that no call will go to any more
            server.pool.sweep()
        match request:
            case Post():
                return self._post(request, deadline)
            case Watch():
                return _Armed(self._reader, request).wait(deadline, self._endpoints.current())
            case Batch():
                return self._batch(request.parts, deadline)
            case LogIn():
                return self._log_in(request.after, deadline)
            case _:
                raise AssertionError(f"etcd should not be asked {type(request).__name__}")

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._reader.forget(mailbox)

    def close(self) -> None:
        """Let go of connections and threads, within a second; never raises."""
        with contextlib.ExitStack() as closing:  # an interrupt leaves out one of them: so there are two
            closing.callback(self._reader.close)  # last: who learns here that no watch comes asks at once
            for server in self._servers.values():
                closing.callback(server.pool.close)
                closing.callback(server.pool.close)

    def _server(self, endpoint: Endpoint) -> Server:
        speaker, context = self._wire.speaker(endpoint), self._context
        pool = Pool(endpoint, speaker, ssl_context=context, authorization=self._login.token)
        if self._wire is not GATEWAY:
            return Server(pool)
        from recipes.stores.etcd.session import GatewayServer  # noqa: PLC0415 - no use to the other way

        return GatewayServer(pool, secure=context is not None)

    def _log_in(self, after: int, deadline: float) -> int:
        """Log in, one thread at a time; who waited for another's login needs none."""
        store = self._endpoints.current().store
        with section.mark:
            try:
                if not acquire(self._logging_in, deadline - time.monotonic()):
                    raise unavailable(store, "no answer to a login in time")
                if self._login.number > after:
                    return self._login.number
                request = self._login.request(store, deadline - time.monotonic())
                return self._login.took(self._post(request, deadline), store)
            finally:
                try:
                    self._logged_in()
                finally:  # an interrupt may strike as that begins
                    self._logged_in()

    def _logged_in(self) -> None:
        """Let the next thread log in, if this one was at it: an interrupt may hide that it was."""
        if self._logging_in._is_owned():  # type: ignore[attr-defined] # noqa: SLF001 - nobody else knows
            self._logging_in.release()

    def _post(self, post: Post, deadline: float) -> Json:
        attempt = self._endpoints.attempt(time.monotonic(), deadline)
        try:
            reply = self._servers[attempt.endpoint].reply(post, attempt.until)
        except StoreUnavailable:
            self._unanswered(attempt)
            raise
        self._endpoints.answered(attempt, time.monotonic())
        return reply

    def _unanswered(self, attempt: Attempt) -> None:
        """Go to another server, with the watches."""
        self._endpoints.unanswered(attempt, time.monotonic())
        self._reader.follow()

    def _batch(self, parts: Sequence[Request[Any]], deadline: float) -> tuple[Any, ...]:
        """Send the watches, then the calls; then take the replies."""
        watches, posts = split(parts)
        armed: dict[int, _Armed] = {}
        replies: dict[int, Any] = {}
        try:
            for position, watch in watches.items():
                armed[position] = _Armed(self._reader, watch)
            if posts:
                self._posts(posts, replies, deadline)
            for position, waiting in armed.items():
                try:
                    replies[position] = waiting.wait(deadline, self._endpoints.current())
                except (EtcdError, StoreError) as error:
                    replies[position] = error
        except BaseException:
            for waiting in armed.values():
                waiting.give_up()
            raise
        return tuple(replies[position] for position in range(len(parts)))

    def _posts(self, posts: dict[int, Post], replies: dict[int, Any], deadline: float) -> None:
        attempt = self._endpoints.attempt(time.monotonic(), deadline)
        server = self._servers[attempt.endpoint]
        calls = [(post.path, post.body) for post in posts.values()]
        pipeline = Pipeline(server.pool, calls)
        try:
            pipeline.send(attempt.until)
            for position, post in posts.items():
                try:
                    replies[position] = server.reply(post, attempt.until, pipeline)
                except (EtcdError, StoreError) as error:
                    replies[position] = error
        finally:
            pipeline.close()
        if any(isinstance(reply, StoreUnavailable) for reply in replies.values()):
            self._unanswered(attempt)
        else:
            self._endpoints.answered(attempt, time.monotonic())

    def _dial(self, channel: Channel, stop: Any) -> Conn:
        return dial(channel.endpoint, self._context, time.monotonic() + DIAL_S, stop)


class _Armed:
    """A watch on its way, and the thread that waits for its ``created``."""

    __slots__ = ("_arming", "_lock", "_reader", "_result", "bell")

    def __init__(self, reader: Reader, watch: Watch) -> None:
        self._reader = reader
        self.bell: Callable[[], None] | None = None
        self._result: int | Exception | None = None
        # A bare lock, taken until resolved, is the leanest event there is.
        self._lock = threading.Lock()
        self._lock.acquire()
        self._arming = Arming(watch, self._resolve)
        reader.arm(self._arming)

    def wait(self, deadline: float, endpoint: Endpoint) -> int:
        """Return the revision; on anything else nothing of the watch stays."""
        try:
            self._reader.attend(self, self._arming.watch.mailbox, deadline)
            acquire(self._lock, deadline - time.monotonic())
        except BaseException:
            self.give_up()
            raise
        result = self._result
        if result is None:
            self.give_up()
            raise unavailable(endpoint.store, "the watch was not confirmed in time")
        if isinstance(result, Exception):
            raise result
        return result

    def ready(self) -> bool:
        """Whether it is resolved."""
        return self._result is not None

    def give_up(self) -> None:
        """Undo the watch, resolved or not."""
        self._reader.drop(self._arming)

    def _resolve(self, result: int | Exception) -> None:
        if self._result is None:
            self._result = result
            with contextlib.suppress(RuntimeError):  # two threads may tell it at a time
                self._lock.release()
            if (bell := self.bell) is not None:
                bell()
