"""The asyncio API's watching: the multiplexer on the loop's transports, with no thread."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import cast

from recipes._contract.connection import Mailbox
from recipes.stores.etcd.stream_book import Arming
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.wire_answers import failed, unavailable
from recipes.stores.etcd.wire_dial import DIAL_S
from recipes.stores.etcd.wires import Channel, WireError
from recipes.stores.streams import connect
from recipes.stores.tls import of_established

__all__ = ["Watching"]


class _Stream(asyncio.Protocol):
    """The connection of one channel."""

    transport: asyncio.Transport | None = None

    def __init__(self, owner: Watching, channel: Channel) -> None:
        self._owner = owner
        self._channel = channel
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # see `Conn`

    def data_received(self, data: bytes) -> None:
        self._owner.received(self._channel, data)

    def eof_received(self) -> bool:
        self._owner.received(self._channel, b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        self._owner.lost(self._channel, exc)


class Watching:
    """Carry out what the multiplexer wants, on one loop."""

    def __init__(self, multiplexer: Multiplexer, context: ssl.SSLContext | None, store: str) -> None:
        self._multiplexer = multiplexer
        self._context = context
        self._store = store
        self._streams: dict[Channel, _Stream] = {}
        self._openings: dict[Channel, asyncio.Task[None]] = {}
        self._timer: asyncio.Handle | None = None
        self._timer_at = 0.0  # uvloop's handle of what is due at once does not say
        self._closed = False

    def arm(self, arming: Arming) -> None:
        """Send for a watch; ``arming.resolve`` will be notified."""
        if self._closed:
            arming.resolve(unavailable(self._store, "this link is closed"))
        else:
            self._step(lambda now: self._multiplexer.arm(arming, now))

    def drop(self, arming: Arming) -> None:
        """Undo ``arming``."""
        if not self._closed:
            self._step(lambda _now: self._multiplexer.drop(arming))

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``."""
        if not self._closed and self._multiplexer.book.watches(mailbox):
            self._step(lambda _now: self._multiplexer.forget(mailbox))

    def follow(self) -> None:
        """Leave the servers that calls have left."""
        if not self._closed:
            self._step(lambda _now: self._multiplexer.follow())

    async def close(self) -> None:
        """End the connections, and wait until they are closed."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        openings, streams = list(self._openings.values()), list(self._streams.values())
        self._step(lambda _now: self._multiplexer.lose_all(unavailable(self._store, "this link was closed")))
        if openings:
            await asyncio.wait(openings)
        if streams:
            await asyncio.wait([stream.closed for stream in streams])

    def received(self, channel: Channel, data: bytes) -> None:
        """Take what arrived on ``channel``."""
        self._step(lambda now: self._multiplexer.received(channel, data, now))

    def lost(self, channel: Channel, exc: Exception | None) -> None:
        """Take note that the connection of ``channel`` is gone."""
        self._streams.pop(channel, None)
        store = channel.endpoint.store
        closed = WireError("the watch stream was closed")
        failure = failed(store, closed if exc is None else of_established(exc))
        self._step(lambda _now: self._multiplexer.broken(channel, failure))

    def _step(self, step: Callable[[float], None]) -> None:
        multiplexer, loop = self._multiplexer, asyncio.get_running_loop()
        step(loop.time())
        while multiplexer.opens or multiplexer.closes:
            opens, multiplexer.opens = multiplexer.opens, []
            closes, multiplexer.closes = multiplexer.closes, []
            for channel in opens:
                if channel.live:
                    opening = Context().run(loop.create_task, self._open(channel))  # as `AsyncRuntime` does
                    self._openings[channel] = opening
                    opening.add_done_callback(partial(self._opened, channel))
            for channel in closes:
                self._close(channel)
        for channel, stream in self._streams.items():
            if channel.outbox and channel.live and stream.transport is not None:
                stream.transport.write(bytes(channel.outbox))
                channel.outbox.clear()
        self._set_timer(loop)
        for tell, what in multiplexer.take_told():
            tell(what)

    def _close(self, channel: Channel) -> None:
        opening = self._openings.get(channel)
        if opening is not None:
            opening.cancel()
        stream = self._streams.get(channel)
        if stream is not None and stream.transport is not None:
            stream.transport.abort()

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the timer run at ``due``; one that runs too early is left alone, it looks again."""
        due = None if self._closed else self._multiplexer.due()
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = loop.call_at(due, self._tick), due

    def _tick(self) -> None:
        self._timer = None
        self._step(self._multiplexer.tick)

    def _opened(self, channel: Channel, _: asyncio.Task[None]) -> None:
        self._openings.pop(channel, None)

    async def _open(self, channel: Channel) -> None:
        stream = _Stream(self, channel)
        loop = asyncio.get_running_loop()
        try:
            await connect(channel.endpoint, self._context, stream, loop.time() + DIAL_S)
        except Exception as error:  # whatever it was: this channel never comes to be
            failure = failed(channel.endpoint.store, error)
            self._step(lambda _now: self._multiplexer.broken(channel, failure))
        else:
            self._streams[channel] = stream
            if not channel.live and stream.transport is not None:
                stream.transport.abort()
            self._step(lambda now: self._multiplexer.connected(channel, now))
