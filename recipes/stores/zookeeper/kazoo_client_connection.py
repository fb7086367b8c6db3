"""kazoo's client and its connection, with less on the way of a request and of its reply.

kazoo queues a request, wakes its thread, and that sends it; here the thread that asks sends, where
nothing is in the way. kazoo goes round a long loop for each message that arrives; here its thread
takes all that has, and stays a while with the connection before it goes round again. What is
neither a plain reply nor an event is left to kazoo: connecting, logging in, TLS, closing.
"""

from __future__ import annotations

import random
import struct
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionDropped,
    SessionExpiredError,
)
from kazoo.protocol.connection import CLOSE_RESPONSE, WATCH_XID, ConnectionHandler
from kazoo.protocol.serialization import Auth, Exists, GetChildren
from kazoo.protocol.states import KeeperState

from recipes._mutex import new_rlock
from recipes._section import section
from recipes.stores.zookeeper.codec import unread_names
from recipes.stores.zookeeper.handler_sockets import LeanSocket
from recipes.stores.zookeeper.kazoo_client_calls import Part
from recipes.stores.zookeeper.kazoo_client_errors import error_of
from recipes.stores.zookeeper.requests import NoNode

__all__ = ["LeanClient", "PlainClient"]

_OVER = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: ConnectionClosedError,
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}
_HEAD = struct.Struct("!iii")  # length, number, kind
_REPLY = struct.Struct("!iiqi")  # length, number, zxid, error
_LENGTH = 4
_LAST_XID = 2**31 - 1
LINGER_S = 0.05
"""How long kazoo's thread stays with the connection after something arrived."""
LONGEST_S = 0.2
"""... in all: its loop sends the pings."""
LOGINS_CUT = 3
"""A connection that ends in the login so often in a row is the answer to wrong credentials."""


class LeanConnection(ConnectionHandler):  # type: ignore[misc] # kazoo ships no types
    """kazoo's connection, on which callers send by themselves."""

    _open: bool
    _socket: Any
    _read_sock: Any
    _number = 0

    def __init__(self, client: Any, *args: Any, **options: Any) -> None:
        super().__init__(client, *args, **options)
        # The order of what waits for an answer is that of the wire. A signal handler may ask in the middle.
        self._sending = new_rlock()
        self._open = False  # kazoo has connected and logged in
        self._logins_cut = 0  # in a row
        self._salt = random.random()  # noqa: S311 - spreads load only
        self.said_goodbye = False  # the server has answered that the session is closed

    @property
    def _xid(self) -> int:
        """The number of the last request, which kazoo sets to 0 for each connection: here it counts on.

        A server knows by session and number what was committed for which request. One that the session has
        asked by way of another server, and that is committed late, would answer the new one of that number.
        """
        return self._number

    @_xid.setter
    def _xid(self, number: int | None) -> None:
        self._number = number or self._number

    def send_at_once(self, parts: Sequence[Part]) -> bool:
        """Send requests if nothing is in the way; never blocks."""
        if not self._open:  # with TLS the lock is not for a moment: kazoo's thread waits in it
            return False
        with section.mark, self._sending:
            if not self._is_clear():
                return False
            sock = self._socket
            try:
                self._send([(part, part) for part in parts])
            except OSError:
                self.handler.abort()  # kazoo's thread sees the end of the connection, and says so
        if sock.full:
            self.handler.ring()
        return True

    def _is_clear(self) -> bool:
        """Whether nothing is in the way; with the lock held, else kazoo's thread may close the socket."""
        return self._open and not self.client._queue and not self._socket.unsent

    def stand_still(self) -> None:
        """Have callers send no more."""
        with section.mark, self._sending:
            self._open = False

    def _send(self, asked: Sequence[tuple[Any, Any]]) -> None:
        """Send them, and have them wait for replies."""
        data, entries = [], []
        for request, result in asked:
            xid = self._number = self._number % _LAST_XID + 1
            body = request.serialize()
            data.append(_HEAD.pack(len(body) + _HEAD.size - _LENGTH, xid, request.type) + body)
            entries.append((request, result, xid))
        self.handler.asked()
        self._socket.send_behind(b"".join(data), partial(self.client._pending.extend, entries))

    # What kazoo calls, in its thread.

    def _connect(self, host: Any, hostip: Any, port: Any) -> Any:
        limits = super()._connect(host, hostip, port)
        with section.mark, self._sending:
            self._open = isinstance(self._socket, LeanSocket)  # TLS is for one thread at a time
        return limits

    def _expand_client_hosts(self) -> Any:
        """Return the addresses in an order of this client's own, the same in each round.

        A name may be that of several servers. One server may have an address of each family.
        """
        places = super()._expand_client_hosts()
        families = Counter(":" in address for _, address, _ in places)
        self.handler.resolved(max(families.values(), default=1))
        return sorted(places, key=lambda place: hash((self._salt, *place)))

    def _authenticate_with_sasl(self, host: Any, timeout: Any) -> None:
        """Log in; a connection that ends meanwhile says nothing of credentials, unless each does."""
        try:
            super()._authenticate_with_sasl(host, timeout)
        except AuthFailedError as failed:
            self._logins_cut += 1
            if isinstance(failed.__cause__, ConnectionDropped) and self._logins_cut < LOGINS_CUT:
                raise failed.__cause__ from None
            raise
        self._logins_cut = 0

    def _submit(self, request: Any, timeout: Any, xid: Any = None) -> None:
        with section.mark, self._sending if self._open else nullcontext():
            super()._submit(request, timeout, xid)

    def _send_request(self, read_timeout: Any, connect_timeout: Any) -> None:
        """Send what is queued; kazoo itself sends one at a time."""
        if not self._open:
            super()._send_request(read_timeout, connect_timeout)
            return
        self._read_sock.hush()  # before the look: who queues something from here on rings again
        queue = self.client._queue
        with section.mark, self._sending:
            self._socket.flush()
            self._send_queued(queue)
            if queue:  # one of those that kazoo treats as something else; it counts on a ring
                self.handler.ring()
                super()._send_request(read_timeout, connect_timeout)
        if queue:
            self.handler.ring()

    def _send_queued(self, queue: deque[tuple[Any, Any]]) -> None:
        asked = []
        while queue and getattr(queue[0][0], "type", Auth.type) != Auth.type:
            asked.append(queue.popleft())
        if asked:
            try:
                self._send(asked)
            except BaseException:
                queue.extendleft(reversed(asked))  # kazoo ends, and says so to all that is queued
                raise

    def _read_socket(self, read_timeout: Any) -> Any:
        """Take all that has arrived, and what comes soon after."""
        response = self._take_what_came(read_timeout)
        self.said_goodbye |= response == CLOSE_RESPONSE
        return response

    def _take_what_came(self, read_timeout: Any) -> Any:
        if not self._open:
            return super()._read_socket(read_timeout)
        sock, handler = self._socket, self.handler
        until = time.monotonic() + LONGEST_S
        while True:
            if not sock.whole() and not sock.fill():
                raise ConnectionDropped("socket connection broken")
            handler.heard()
            while self._take_all(sock):
                response = super()._read_socket(read_timeout)
                if response is not None:
                    return response
            if not handler.more(LINGER_S) or time.monotonic() > until:
                return None

    def _take_all(self, sock: LeanSocket) -> bool:
        """Take what is whole; whether it stopped at something out of the ordinary, which is for kazoo."""
        held = sock.held
        at, size = 0, len(held)
        odd = False
        while size - at >= _REPLY.size:
            length, xid, zxid, error = _REPLY.unpack_from(held, at)
            end = at + _LENGTH + length
            if length < _REPLY.size - _LENGTH:
                raise ConnectionDropped(f"a message of {length} bytes, which is none of ZooKeeper's")
            if end > size:
                break
            if xid == WATCH_XID:
                self._read_watch_event(held[at:end], _REPLY.size)
            elif odd := not self._take(xid, zxid, error, held[at:end], _REPLY.size):
                break
            at = end
        sock.held = held[at:]
        return odd

    def _read_response(self, header: Any, buffer: Any, offset: Any) -> Any:
        """Take a reply that kazoo has read; one that is not due ends the connection, and not kazoo's thread.

        With TLS kazoo reads all of them. It does not know which watch a request of ours sets, nor all errors.
        A server to which the session no longer belongs does not answer what it refuses: it closes the
        connection, and may have answered what was asked next.
        """
        if self._take(header.xid, header.zxid, header.err, buffer, offset):
            return None
        pending = self.client._pending
        if not pending or pending[0][2] != header.xid:
            due = f"that to number {pending[0][2]}" if pending else "none"
            raise ConnectionDropped(f"a reply to request number {header.xid}, where {due} was due")
        return super()._read_response(header, buffer, offset)

    def _take(self, xid: int, zxid: int, error: int, message: bytes, at: int) -> bool:
        """Hand over the reply to one of our requests, which begins there; False if it is none."""
        client = self.client
        pending = client._pending
        if not pending or pending[0][2] != xid or type(pending[0][0]) is not Part:
            return False
        part, _, _ = pending.popleft()
        if zxid > 0:
            client.last_zxid = zxid
        missing = error == NoNode.code and part.type == Exists.type  # which is watched all the same
        if error and not missing:
            part.set_exception(error_of(error))
            return True
        if part.watcher is not None and not client._stopped.is_set():
            watchers = client._child_watchers if part.type == GetChildren.type else client._data_watchers
            watchers[part.path].add(part.watcher)
        try:
            reply = None if missing else part.deserialize(message, at)
        except Exception as malformed:
            part.set_exception(malformed)
        else:
            part.set(reply)
        return True


class WatchedChildren(GetChildren):  # type: ignore[misc] # kazoo ships no types
    """A listing with a watch, as kazoo has to have it: by the class it knows what is watched."""

    deserialize = staticmethod(unread_names)  # pyright: ignore[reportAssignmentType] # as kazoo declares it


class PlainClient(KazooClient):  # type: ignore[misc] # kazoo ships no types
    """kazoo's client as it is, for a kazoo whose inside is not known; a request takes kazoo's own way.

    An interrupt that strikes while kazoo queues a request is taken by kazoo for a closed connection.
    """

    def ask(self, parts: Sequence[Part]) -> None:
        """Have kazoo's thread send requests."""
        for part in parts:
            lists = part.type == GetChildren.type and part.watcher is not None
            self._call(WatchedChildren(part.path, part.watcher) if lists else part, part)


class LeanClient(KazooClient):  # type: ignore[misc] # kazoo ships no types
    """kazoo's client, which takes several requests at once, on a connection of ours.

    An interrupt that strikes while a request is queued is not swallowed. kazoo takes *any*
    exception from waking its thread for a closed connection, a ``KeyboardInterrupt`` too: seen as
    7 % of interrupts that had no effect at all.
    """

    _connection: Any

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        kazoos = self._connection
        self._connection = LeanConnection(
            self, kazoos.retry_sleeper, logger=kazoos.logger, sasl_options=kazoos.sasl_options
        )

    def ask(self, parts: Sequence[Part]) -> None:
        """Send requests, or have kazoo's thread do it."""
        if parts and not self._connection.send_at_once(parts):
            self._hand_over([(part, part) for part in parts])

    def _hand_over(self, asked: Sequence[tuple[Any, Any]]) -> bool:
        """Queue requests, each with its result, and wake kazoo's thread; False if the session is over."""
        over = _OVER.get(self._state)
        if over is not None:
            _fail(asked, over())
            return False
        waker: Any = self._connection._write_sock
        rings = b"\0" * len(asked)
        try:
            self._queue.extend(asked)
            waker.send(rings)
        except (AttributeError, OSError):  # closed in between: there is no socket, or a closed one
            _fail(asked, ConnectionClosedError("the connection was closed"))
        except BaseException:  # they may be queued: the thread must not wait for the next one
            waker.send(rings)
            raise
        return True

    def _call(self, request: Any, async_object: Any) -> Any:
        """Queue one of kazoo's own requests; it compares with False."""
        return self._hand_over([(request, async_object)])

    def _session_callback(self, state: Any) -> None:
        if state != KeeperState.CONNECTED:
            self._connection.stand_still()  # before what is pending is failed
        super()._session_callback(state)


def _fail(asked: Sequence[tuple[Any, Any]], error: Exception) -> None:
    for _, result in asked:
        result.set_exception(error)
