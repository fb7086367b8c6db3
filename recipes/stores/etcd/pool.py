"""Kept connections to one server, for the blocking API: each carries one call, or one batch, at a time."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from recipes.errors import StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.etcd.codec import only_reads
from recipes.stores.etcd.requests import Post
from recipes.stores.etcd.wire_answers import failed, unavailable
from recipes.stores.etcd.wires import Authorization, Call, Json, Line, Reply, Speaker, WireError
from recipes.stores.sockets import Conn, dial

if TYPE_CHECKING:
    import ssl

__all__ = ["Pipeline", "Pool", "Server", "once"]

_IDLE_KEPT = 32
_NEWS_READ = 16
GIVEN_UP_S = 2.0


class _Talk:
    """One connection, and what is said on it."""

    __slots__ = ("conn", "line")

    conn: Conn

    def __init__(self, line: Line) -> None:
        self.line = line

    def good(self) -> bool:
        """Say whether it can carry another call; what a chatty server said meanwhile is read."""
        left = _NEWS_READ
        while self.conn.stale():
            left -= 1
            if not left or not self.line.chatty or self.heard():  # there is no end to it, or no good
                return False
        return self.line.usable

    def heard(self) -> bool:
        """Read what is there, and say whether that is a reply, the end, or no good."""
        try:
            data = self.conn.receive_own()
            return data is not None and (bool(self.line.feed(data)) or not data or not self.line.usable)
        except (OSError, WireError):
            return True


class Pool:
    """Connections to one server; threads may share it.

    A connection whose call was interrupted, by whatever, is closed, and what is left of the call on
    this machine is not delivered any more. Nothing is ever sent twice: a call that failed may have been
    carried out, or may be yet by what lies in between, and only the caller knows what that means.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        speaker: Speaker,
        *,
        ssl_context: ssl.SSLContext | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.speaker = speaker
        self._context = ssl_context
        self._authorization = authorization
        self._idle: deque[_Talk] = deque()
        self._given_up: deque[tuple[float, _Talk]] = deque()
        self._closed = False

    def token(self) -> str | None:
        """Return the token for the next call."""
        return None if self._authorization is None else self._authorization()

    def close(self) -> None:
        """Close the idle connections; those in use are closed when their call ends."""
        self._closed = True
        self.drain()
        self._sweep(math.inf)

    def give_up(self, pipeline: Pipeline, talk: _Talk, *, reads: bool) -> None:
        """Close the connection of a pipeline that is given up: at once, by a reset, unless it only ``reads``.

        etcd 3.5.0 to 3.5.4 panic when a connection goes while they read in a transaction that only
        reads (etcd issue 14110). Such a call is harmless however late it arrives: its connection is left
        until it has answered, or for a while, and closed by whatever call of the connection is next.
        """
        if self._closed or not reads:
            talk.conn.reset()
        else:
            one = time.monotonic() + GIVEN_UP_S, talk
            pipeline.talk = None
            self._given_up.append(one)  # as in `give`

    def sweep(self) -> None:
        """Close what was given up, and has answered or had its time."""
        if self._given_up:
            try:
                self._sweep(time.monotonic())
            finally:
                self.drain_if_closed()

    def _sweep(self, now: float) -> None:
        for one in self._given_up.copy():
            until, talk = one
            if until > now and not talk.conn.stale():
                continue
            over = True
            try:
                try:
                    self._given_up.remove(one)
                except ValueError:  # pragma: no cover - another thread took it
                    over = False
                    continue
                if until > now and not talk.heard():
                    over = False
                    self._given_up.append(one)
            finally:
                if over:
                    talk.conn.reset()

    def drain(self) -> None:
        """Close the idle connections: after a failure the others are probably dead as well."""
        while self._idle:
            try:
                talk = self._idle[-1]
            except IndexError:  # pragma: no cover - another thread took the last one
                return
            ours = True
            try:
                self._idle.remove(talk)
            except ValueError:  # pragma: no cover - another thread took it
                ours = False
            finally:
                if ours:
                    talk.conn.close()

    def drain_if_closed(self) -> None:
        """Close what came back, if the pool was closed in between."""
        if self._closed:
            self.drain()
            self._sweep(math.inf)

    # An interrupt may strike as a call returns, and what it returned is lost: so a connection has an owner
    # before it is taken from where it was, and none but that which called is there in between.

    def take(self, deadline: float) -> _Talk:
        """Return the connection used last that is still good, or a new one."""
        if self._closed:
            raise OSError("this link is closed")
        while self._idle:
            try:
                talk = self._idle[-1]
            except IndexError:  # pragma: no cover - another thread took the last one
                break
            try:
                try:
                    self._idle.remove(talk)
                except ValueError:  # pragma: no cover - another thread took it
                    continue
                if talk.good():
                    return talk
            except BaseException:
                talk.conn.close()
                raise
            talk.conn.close()
        talk = _Talk(self.speaker.line())
        talk.conn = dial(self.endpoint, self._context, deadline)
        return talk

    def give(self, pipeline: Pipeline, talk: _Talk) -> None:
        """Keep the connection of a pipeline that has answered all it was asked."""
        if self._closed or len(self._idle) >= _IDLE_KEPT:
            pipeline.close()
            return
        pipeline.talk = None
        self._idle.append(talk)  # no interrupt strikes between these two
        if self._closed:
            self.drain_if_closed()  # type: ignore[unreachable] # another thread may have closed it


class Pipeline:
    """Calls sent back to back on one connection; ``next`` takes their replies, in order.

    After the first failure every ``next`` fails: the connection is gone.
    """

    __slots__ = ("_broken", "_calls", "_failure", "_left", "_pool", "_replies", "talk")

    def __init__(self, pool: Pool, calls: Sequence[Call]) -> None:
        self._pool = pool
        self._calls = calls
        self._left = len(calls)
        self._replies: deque[Reply] = deque()
        self._failure: StoreUnavailable | str = ""  # an error, or the words of one that nobody may ask for
        self._broken = False
        self.talk: _Talk | None = None

    def send(self, deadline: float) -> Self:
        """Send the calls; a failure shows at ``next``. Whatever is raised, `close` has to be called."""
        token = self._pool.token()
        try:
            talk = self.talk = self._pool.take(deadline)
            talk.conn.send(talk.line.ask(self._calls, token), deadline)
        except OSError as error:
            self._fail(error, unsent=self.talk is None)
        except BaseException:
            self.close()
            raise
        return self

    def next(self, deadline: float) -> Reply:
        """Return the next reply; StoreUnavailable if none came."""
        if not self._failure or self._replies:
            try:
                talk = self.talk
                while not self._replies:
                    assert talk is not None
                    if more := talk.line.more():
                        talk.conn.send(more, deadline)
                    self._replies += talk.line.feed(talk.conn.receive(deadline))
                reply = self._replies.popleft()
                self._left -= 1
                if talk is not None and self._left == 0 and talk.line.usable:
                    self._failure = "all replies were taken"
                    self._pool.give(self, talk)
                elif talk is not None and not self._replies and not talk.line.owes:
                    self._failure, self._broken = "the server closed the connection", True
                    self.close()
                return reply
            except (OSError, WireError) as error:
                self._fail(error)
            except BaseException:
                self.close()
                raise
        failure = self._failure
        assert failure
        raise unavailable(self._pool.endpoint.store, failure) if isinstance(failure, str) else failure

    def close(self) -> None:
        """Let go of the connection unless it was given back."""
        talk = self.talk
        if talk is not None and self._left:
            reads = not self._broken and all(only_reads(path, body) for path, body in self._calls)
            self._pool.give_up(self, talk, reads=reads)
        elif talk is not None:
            talk.conn.close()
        self.talk = None  # now: an interrupt before this has it done twice, which does no harm
        self._failure = self._failure or "the call was interrupted"
        self._pool.drain_if_closed()

    def _fail(self, error: Exception, *, unsent: bool = False) -> None:
        self._failure = failed(self._pool.endpoint.store, error, unsent=unsent)
        self._broken = not isinstance(error, TimeoutError)
        self.close()
        self._pool.drain()


def once(pool: Pool, call: Call, deadline: float) -> Reply:
    """Make one call, and return its reply; StoreUnavailable if none came."""
    pipeline = Pipeline(pool, [call])
    try:
        return pipeline.send(deadline).next(deadline)
    except BaseException:
        pipeline.close()  # an interrupt may have struck between these two
        raise


class Server:
    """One endpoint: its connections, and how it is asked."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def reply(self, post: Post, deadline: float, pipeline: Pipeline | None = None) -> Json:
        """Make one unary call, or take the reply of one that was sent."""
        pool = self.pool
        if pipeline is None:
            return pool.speaker.meaning(post.path, once(pool, (post.path, post.body), deadline))
        return pool.speaker.meaning(post.path, pipeline.next(deadline))
