"""The blocking way to Redis: redis-py's connections, on sockets whose every step has a deadline."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import redis

from recipes._contract.connection import Connection, Mailbox, OnEnd, Request
from recipes._descriptors import TAKEN
from recipes._run.clock import boot_time
from recipes._threads import new_thread, start
from recipes.errors import StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.redis.requests import Listen, Sure
from recipes.stores.redis.resp import CLOSED, INCOMPLETE, Replies, packed
from recipes.stores.redis.wire import (
    Dial,
    Exchange,
    Hear,
    Pause,
    Settings,
    Step,
    Steps,
    Wire,
    Words,
    login_of,
)
from recipes.stores.sockets import Conn, dial

__all__ = ["Link", "RedisConnection"]

CLOSE_WITHIN_S = 0.9


class _Socket:
    """What redis-py takes for a socket: each step ends at the deadline, whatever timeout it sets."""

    def __init__(self, conn: Conn, deadline: float) -> None:
        self._conn = conn
        self.deadline = deadline
        self._looked = False  # just now, whether it is still ours

    def sendall(self, data: bytes) -> None:
        looked, self._looked = self._looked, False
        if not looked and self._conn.taken:
            raise OSError(TAKEN)
        self._conn.send(data, self.deadline)

    def recv(self, size: int) -> bytes:
        del size
        return self._conn.receive(self.deadline)

    def recv_into(self, buffer: Any) -> int:  # as hiredis reads
        data = self.recv(0)
        buffer[: len(data)] = data
        return len(data)

    def settimeout(self, timeout: float | None) -> None:
        del timeout

    @property
    def conn(self) -> Conn | None:
        """The connection itself; None: other code of this process closed it, and its number is not ours."""
        return None if self._conn.taken or self._conn.sock.fileno() < 0 else self._conn

    def silent(self) -> bool:
        self._looked = not self._conn.stale()
        return self._looked

    def shutdown(self, how: int) -> None:
        """Have whatever waits for it find the end of the connection; from any thread."""
        del how  # both ways
        self._conn.hang_up()

    def close(self) -> None:
        """Close it, and have nothing delivered that the server has not got yet."""
        self._conn.reset()


class Link(redis.Connection):
    """One connection to one server; ``deadline`` is of ``time.monotonic``."""

    def __init__(self, step: Dial, label: str, deadline: float, stop: Callable[[], bool]) -> None:
        self.address, self.not_before_us, self.used_at, self.hears = step.address, 0, boot_time(), 0
        self._dialing = Endpoint(*step.address), step.access.encryption, deadline, stop
        self._socket: _Socket | None = None
        self._replies = Replies()
        host, port = step.address
        super().__init__(host=host, port=port, socket_timeout=None, **login_of(step.access))  # type: ignore[no-untyped-call]
        self.driver_info = self.lib_name = self.lib_version = None  # two more round trips
        credentials = step.access.credentials
        if credentials is not None:
            self.username = credentials.username
            self.password = credentials.asker.within(label, deadline - time.monotonic())
        elif step.access.asker is not None:
            self.credential_provider = step.access.asker.within(label, deadline - time.monotonic())
        step.links.add(self)
        try:
            self.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Any:
        if self._socket is not None:
            raise OSError("the connection was lost")  # redis-py would make another
        self._socket = _Socket(dial(*self._dialing), self._dialing[2])
        return self._socket

    @property
    def conn(self) -> Conn | None:
        """What is below it, for what reads from several at once; None: it is closed."""
        return None if self._socket is None else self._socket.conn

    def exchange(self, commands: Sequence[Words], replies: int, deadline: float) -> list[Any]:
        """Send commands together and read so many replies."""
        assert self._socket is not None, "it should be connected"
        self._socket.deadline = deadline
        self._socket.sendall(packed(commands))
        return [self._reply(self._socket) for _ in range(replies)]

    def hear(self, deadline: float) -> Any:
        """Return what comes unasked; None: nothing does in time."""
        assert self._socket is not None, "it should be connected"
        self._socket.deadline = deadline
        try:
            return self._reply(self._socket)
        except TimeoutError:
            return None

    def good(self) -> bool:
        """Whether nothing came unasked, and not its end."""
        return self._socket is not None and not self._replies and self._socket.silent()

    def hang_up(self) -> None:
        """Have the thread that uses it find its end."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close it; only by what uses it."""
        self.disconnect()  # type: ignore[no-untyped-call]
        if self._socket is not None:
            self._socket.close()

    def _reply(self, sock: _Socket) -> Any:
        while (reply := self._replies.take()) is INCOMPLETE:
            data = sock.recv(0)
            if not data:
                raise OSError(CLOSED)
            self._replies.feed(data)
        return reply


class RedisConnection(Connection):
    """A ``Connection`` to Redis; threads may share it. Making one does no I/O.

    Args:
        settings: Where the servers are, and what all connections have in common.
        on_end: Not used: that a session has ended shows when it is renewed.
    """

    def __init__(self, settings: Settings, on_end: OnEnd) -> None:
        del on_end
        self._settings = settings
        self._wire = Wire(settings)
        self._over = threading.Event()
        self._listeners: dict[str, threading.Thread] = {}
        self._ended = False  # the thread that listened was, by somebody

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        deadline = time.monotonic() + timeout_s
        if not isinstance(request, Listen):
            if self._wire.closed:
                raise StoreUnavailable(self._settings.label, "this connection is closed", unsent=True)
            if isinstance(request, Sure) and request.bell and not self._listeners:
                self._wire.channel = request.bell
                self._listen(self._drive(self._wire.subscribed(), deadline))
            elif self._ended and not self._listeners:
                with contextlib.suppress(StoreUnavailable):  # the next request tries again
                    self._listen(None)
        return self._drive(self._wire.carry_out(request, boot_time() + timeout_s), deadline)

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._wire.bells.forget(mailbox)

    def close(self) -> None:
        """Let go of the sockets and the thread, within a second; never raises."""
        self._over.set()
        self._wire.close()
        listener = self._listeners.get("now")
        if listener is not None and listener is not threading.current_thread():
            listener.join(CLOSE_WITHIN_S)

    def _listen(self, link: Any) -> None:
        """Have a thread listen, subscribed before anything is asked; of two at once the first stays."""
        # After an interrupt there is a thread that listens, or a connection that is dropped, and so closed.
        listener = new_thread("listener", self._hear, link)
        try:
            start(listener)
        except OSError as error:
            if link is not None:
                link.close()
            raise StoreUnavailable(self._settings.label, str(error), unsent=True) from error

    def _hear(self, link: Any) -> None:
        if self._listeners.setdefault("now", threading.current_thread()) is not threading.current_thread():
            if link is not None:
                link.close()
            return
        try:
            self._drive(self._wire.listen(link), None)
        finally:
            self._ended = True
            self._listeners.clear()

    def _drive(self, steps: Steps[Any], deadline: float | None) -> Any:
        """Take the steps; without a deadline each has as long as the listener's silence."""
        reply: Any = None
        try:
            step = next(steps)
            while True:
                until = deadline or time.monotonic() + self._settings.silence_s
                try:
                    reply = self._take(step, until)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(reply)
        except StopIteration as done:
            return done.value
        finally:
            steps.close()

    def _take(self, step: Step, deadline: float) -> Any:
        match step:
            case Exchange():
                replies = len(step.commands) if step.replies is None else step.replies
                return step.link.exchange(step.commands, replies, deadline)
            case Hear():
                return step.link.hear(time.monotonic() + step.within_s)
            case Dial():
                return Link(step, self._settings.label, deadline, self._over.is_set)
            case Pause():
                return self._over.wait(step.for_s)
            case _:
                raise AssertionError(f"{step!r} should be a step of the wire")
