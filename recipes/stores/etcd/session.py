"""A lean session to give to ``etcd3gw.Etcd3Client(session=...)``.

It posts like a requests session, in half the time, and each post is bounded in all. It
raises what etcd3gw expects of a session: the exceptions of requests.
"""

from __future__ import annotations

import json as jsonlib
import math
import ssl
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import requests.exceptions

from recipes.stores.addresses import Endpoint
from recipes.stores.etcd.codec import only_reads
from recipes.stores.etcd.wire import Authorization, Dialect, Exchange, Reply, WireError, compact
from recipes.stores.etcd.wire_answers import glimpse
from recipes.stores.secret import Sealed
from recipes.stores.sockets import Conn, describe, dial
from recipes.stores.tls import refused_by_tls

__all__ = ["LeanResponse", "LeanSession", "Pipeline", "UnsentError", "UntrustedError"]

_IDLE_KEPT = 32
_load = jsonlib.JSONDecoder().decode  # json.loads would guess the encoding each time
GIVEN_UP_S = 2.0
_FOREVER_S = 86_400.0


class UnsentError(requests.exceptions.ConnectionError):
    """No connection could be made: nothing was sent."""


class UntrustedError(UnsentError, requests.exceptions.SSLError):
    """The same, for what TLS said."""


class LeanResponse:
    """What ``post`` returns: the part of a requests response that etcd3gw reads."""

    __slots__ = ("content", "reason", "status_code")

    def __init__(self, reply: Reply) -> None:
        self.status_code = reply.status
        self.reason = reply.reason
        self.content = reply.body

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body's document."""
        try:
            return _load(self.content.decode())
        except (ValueError, RecursionError):
            words = f"the reply is not JSON: {glimpse(self.content)}"
            raise requests.exceptions.InvalidJSONError(words) from None


class LeanSession:
    """Post to one server over kept connections; threads may share it.

    A connection whose call was interrupted, by whatever, is closed, and what is left of the call on
    this machine is not delivered any more. Nothing is ever sent twice: a call that failed may have been
    carried out, or may be yet by what lies in between, and only the caller knows what that means.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        ssl_context: ssl.SSLContext | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._context = ssl_context
        self._authorization = authorization
        self._dialect = Dialect(endpoint.store)
        self._origin = f"{'http' if ssl_context is None else 'https'}://{endpoint.store}"
        self._idle: deque[Conn] = deque()
        self._given_up: deque[tuple[float, Conn]] = deque()
        self._closed = False

    def post(
        self,
        url: str,
        *,
        json: Any = None,
        timeout: float | None = None,
        deadline: float | None = None,
        pipeline: Pipeline | None = None,
    ) -> LeanResponse:
        """Post ``json`` and return the response, within ``timeout`` seconds and before ``deadline``.

        ``deadline`` is an instant of ``time.monotonic``. With ``pipeline`` the request has been
        sent already, and this takes its reply.
        """
        until = _FOREVER_S if timeout is None else timeout
        until += time.monotonic()
        until = until if deadline is None else min(until, deadline)
        if pipeline is not None:
            return pipeline.next(until)
        return Pipeline(self, [(url, json)], until).next(until)

    def close(self) -> None:
        """Close the idle connections; those in use are closed when their call ends."""
        self._closed = True
        self.drain()
        self._sweep(math.inf)

    def give_up(self, conn: Conn, *, reads: bool) -> None:
        """Close a connection whose call was given up: at once, with a reset, but for one that only ``reads``.

        etcd 3.5.0 to 3.5.4 panic when a connection goes while they read in a transaction that only
        reads (etcd issue 14110). Such a call is harmless however late it arrives: its connection is left
        until it has answered, or for a while, and closed by whatever call of the connection is next.
        """
        if self._closed or not reads:
            conn.reset()
        else:
            self._given_up.append((time.monotonic() + GIVEN_UP_S, conn))
            self._drain_if_closed()

    def sweep(self) -> None:
        """Close what was given up, and has answered or had its time."""
        if self._given_up:
            self._sweep(time.monotonic())

    def _sweep(self, now: float) -> None:
        for _ in range(len(self._given_up)):
            try:
                until, conn = self._given_up.popleft()
            except IndexError:  # pragma: no cover - another thread sweeps as well
                return
            if until <= now or conn.stale():
                conn.reset()
            else:
                self._given_up.append((until, conn))

    def drain(self) -> None:
        """Close the idle connections: after a failure the others are probably dead as well."""
        while self._idle:
            try:
                self._idle.pop().close()
            except IndexError:  # pragma: no cover - another thread took the last one
                return

    def _drain_if_closed(self) -> None:
        if self._closed:
            self.drain()
            self._sweep(math.inf)

    def take(self, deadline: float) -> Conn:
        """Return the connection used last that is still good, or a new one."""
        if self._closed:
            raise OSError("this link is closed")
        while self._idle:
            try:
                conn = self._idle.pop()
            except IndexError:  # pragma: no cover - another thread took the last one
                break
            if not conn.stale():
                return conn
            conn.close()
        return dial(self._endpoint, self._context, deadline)

    def give(self, conn: Conn) -> None:
        """Keep a connection that has answered all it was asked."""
        if self._closed or len(self._idle) >= _IDLE_KEPT:
            conn.close()
            return
        self._idle.append(conn)
        self._drain_if_closed()  # it may have been, in between

    def encode(self, url: str, json: Any) -> bytes:
        """Return the request of one call; ValueError for another server's URL."""
        if not url.startswith(self._origin + "/"):
            raise ValueError(f"this session posts to {self._origin} only")
        token = None if self._authorization is None else self._authorization()
        body = compact(json).encode()
        return self._dialect.request(url[len(self._origin) :], body, token)


class Pipeline:
    """Requests sent back to back on one connection; ``next`` takes their replies, in order.

    After the first failure every ``next`` fails: the connection is gone.
    """

    __slots__ = ("_broken", "_calls", "_conn", "_failure", "_kind", "_left", "_rest", "_session")

    def __init__(self, session: LeanSession, calls: Sequence[tuple[str, Any]], deadline: float) -> None:
        """Send ``calls`` (URL and document); a failure shows at ``next``."""
        self._session = session
        self._calls = calls
        self._left = len(calls)
        self._rest = b""
        self._failure: str | None = None
        self._kind: type[requests.exceptions.ConnectionError] = requests.exceptions.ConnectionError
        self._broken = False
        self._conn: Conn | None = None
        data = Sealed(b"".join([session.encode(url, json) for url, json in calls]))
        try:
            self._conn = session.take(deadline)
            self._conn.send(data, deadline)
        except OSError as error:
            self._fail(error, unsent=self._conn is None)
        except BaseException:
            self.close()
            raise

    def next(self, deadline: float) -> LeanResponse:
        """Return the next response, or raise one of the exceptions of requests."""
        if self._failure is None:
            try:
                return LeanResponse(self._receive(deadline))
            except (OSError, WireError) as error:
                self._fail(error)
            except BaseException:
                self.close()
                raise
        raise self._kind(self._failure)

    def close(self) -> None:
        """Let go of the connection unless it was given back."""
        conn, self._conn = self._conn, None
        if conn is not None and self._left:
            reads = not self._broken and all(only_reads(url, json) for url, json in self._calls)
            self._session.give_up(conn, reads=reads)
        elif conn is not None:
            conn.close()
        self._failure = self._failure or "the call was interrupted"

    def _receive(self, deadline: float) -> Reply:
        assert self._conn is not None
        exchange = Exchange()
        reply = exchange.feed(self._rest) if self._rest else None
        while reply is None:
            reply = exchange.feed(self._conn.receive(deadline))
        self._left -= 1
        self._rest = reply.rest
        if self._left == 0 and reply.reusable and not reply.rest:
            conn, self._conn = self._conn, None
            self._session.give(conn)
            self._failure = "all replies were taken"
        elif self._left == 0 or not reply.reusable:
            self._failure, self._broken = "the server closed the connection", True
            self.close()
        return reply

    def _fail(self, error: Exception, *, unsent: bool = False) -> None:
        self._failure = describe(error)
        if unsent:
            self._kind = UntrustedError if refused_by_tls(error) else UnsentError
        elif refused_by_tls(error):
            self._kind = requests.exceptions.SSLError
        self._broken = not isinstance(error, TimeoutError)
        self.close()
        self._session.drain()
