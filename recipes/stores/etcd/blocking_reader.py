"""The blocking API's watching: one daemon thread that reads every watch connection.

Callers write for themselves (a watch has to be on its way before the read that follows
it), without ever waiting: what does not fit into the socket is left to the thread. The
multiplexer and the connections are touched under one lock, which is never held over anything
that waits; notifications that are due are sent when it is released.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from recipes._contract.connection import Mailbox
from recipes._section import section
from recipes.stores.etcd.stream_book import Arming
from recipes.stores.etcd.stream_multiplexer import Multiplexer
from recipes.stores.etcd.wire_answers import failed, unavailable
from recipes.stores.etcd.wires import Channel
from recipes.stores.sockets import Conn

__all__ = ["Dial", "Reader"]

Dial = Callable[[Channel, Callable[[], bool]], Conn]
"""Connect for a channel within a bounded time, or raise OSError; gives up soon when the callable says so."""

_logger = logging.getLogger("recipes")
_CLOSE_S = 0.9


class Reader:
    """Carry out what the multiplexer wants on sockets; the thread starts with the first watch."""

    def __init__(self, multiplexer: Multiplexer, dial: Dial, store: str) -> None:
        self._multiplexer = multiplexer
        self._dial = dial
        self._store = store
        self._lock = threading.Lock()
        self._conns: dict[Channel, Conn] = {}
        self._thread: threading.Thread | None = None
        self._wake_out: socket.socket | None = None
        self._asleep_until = 0.0
        self._closed = False
        self._upset = False

    def arm(self, arming: Arming) -> None:
        """Send for a watch; ``arming.resolve`` will be notified."""
        try:
            if self._thread is None:
                self._start()
        except OSError as error:  # this process has as many descriptors as it may
            arming.resolve(failed(self._store, error, unsent=True))
            return
        if not self._step(lambda now: self._multiplexer.arm(arming, now)):
            arming.resolve(unavailable(self._store, "this link is closed"))

    def drop(self, arming: Arming) -> None:
        """Undo ``arming``."""
        self._step(lambda _now: self._multiplexer.drop(arming))

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``."""
        if self._multiplexer.book.watches(mailbox):
            self._step(lambda _now: self._multiplexer.forget(mailbox))

    def follow(self) -> None:
        """Leave the servers that calls have left."""
        if self._thread is not None:
            self._step(lambda _now: self._multiplexer.follow())

    def close(self) -> None:
        """End the thread and the connections."""
        with section.mark, self._lock:
            self._closed = True
            thread = self._thread
            self._wake()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_S)

    def _start(self) -> None:
        """Start the thread; if that is interrupted, the next call starts another, and only that reads."""
        with section.mark, self._lock:
            if self._thread is not None or self._closed:
                return
            with ExitStack() as made:
                wake_out, wake_in = socket.socketpair()
                made.callback(wake_out.close)
                made.callback(wake_in.close)
                wake_out.setblocking(False)
                wake_in.setblocking(False)
                selector = made.enter_context(selectors.DefaultSelector())
                needs = selector, wake_out, wake_in
                thread = threading.Thread(target=self._run, args=needs, name="recipes-etcd", daemon=True)
                thread.start()
                made.pop_all()  # they are the thread's
            self._thread = thread

    def _step(self, step: Callable[[float], None]) -> bool:
        """Take one step of the multiplexer, send what it wants sent, then tell; False if closed."""
        try:
            with section.mark, self._lock:
                if self._closed:
                    return False
                self._mend()
                step(time.monotonic())
                self._flush()
                if self._needs_thread():
                    self._wake()
                told = self._multiplexer.take_told()
            for tell, what in told:
                tell(what)
        except BaseException:
            self._upset = True
            self._wake()
            raise
        return True

    def _mend(self) -> None:
        """Lose every watch after an interruption: what the multiplexer knows and what was sent may differ."""
        if self._upset:
            for channel in self._conns:
                channel.live = False
            self._multiplexer.closes += self._conns
            self._multiplexer.lose_all(unavailable(self._store, "a call was interrupted while it sent"))
            self._upset = False

    def _flush(self) -> None:
        for channel, conn in self._conns.items():
            if channel.outbox and channel.live:
                try:
                    del channel.outbox[: conn.send_some(channel.outbox)]
                except OSError as error:
                    self._multiplexer.broken(channel, failed(channel.endpoint.store, error))

    def _needs_thread(self) -> bool:
        multiplexer = self._multiplexer
        if multiplexer.opens or multiplexer.closes or any(channel.outbox for channel in self._conns):
            return True
        due = multiplexer.due()
        return due is not None and due < self._asleep_until - 0.001

    def _wake(self) -> None:
        wake_out = self._wake_out
        if wake_out is not None:
            with contextlib.suppress(OSError):  # full: it will wake anyway; closed: there is nothing to wake
                wake_out.send(b"!")

    # What follows runs in the thread.

    def _run(self, selector: selectors.BaseSelector, wake_out: socket.socket, wake_in: socket.socket) -> None:
        with section.mark, self._lock:  # which `_start` has until this thread is noted, or it was interrupted
            if not self._noted():
                wake_out.close()
                wake_in.close()
                selector.close()
                return
            self._wake_out = wake_out
        selector.register(wake_in, selectors.EVENT_READ)
        while not self._closed:
            try:
                self._turn(selector, wake_in)
            except Exception as error:
                _logger.exception("%s: watching failed; every watch is taken as lost", self._store)
                failure = unavailable(self._store, f"watching failed: {error!r}")
                self._turn_in(partial(self._multiplexer.lose_all, failure))
        with section.mark, self._lock:
            self._multiplexer.lose_all(unavailable(self._store, "this link was closed"))
            self._close_conns(selector, list(self._conns))
            told = self._multiplexer.take_told()
            self._wake_out = None
        wake_out.close()
        wake_in.close()
        selector.close()
        for tell, what in told:
            tell(what)

    def _noted(self) -> bool:
        return self._thread is threading.current_thread()

    def _turn(self, selector: selectors.BaseSelector, wake_in: socket.socket) -> None:
        with section.mark, self._lock:
            opens, self._multiplexer.opens = self._multiplexer.opens, []
            closes, self._multiplexer.closes = self._multiplexer.closes, []
            self._close_conns(selector, closes)
            timeout = self._nap(time.monotonic())
            for channel, conn in self._conns.items():
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.outbox else 0)
                if selector.get_key(conn.sock).events != wanted:
                    selector.modify(conn.sock, wanted, channel)
        for channel in opens:
            if channel.live:
                self._open(selector, channel)
        ready = selector.select(0 if opens else timeout)
        for key, _ in ready:
            if key.data is None:
                with contextlib.suppress(OSError):
                    wake_in.recv(4096)
            else:
                self._read(key.data)
        self._turn_in(lambda: self._after(bool(ready)))

    def _after(self, heard: bool) -> None:
        self._mend()
        if not heard:  # what had arrived is read first: a process that was stopped is not a silent server
            self._multiplexer.tick(time.monotonic())

    def _turn_in(self, step: Callable[[], None]) -> None:
        with section.mark, self._lock:
            step()
            self._flush()
            told = self._multiplexer.take_told()
        for tell, what in told:
            tell(what)

    def _nap(self, now: float) -> float | None:
        """Return how long to sleep; a nap is not made longer, so that callers seldom need to wake us."""
        due = self._multiplexer.due()
        if self._multiplexer.opens or self._multiplexer.closes or self._upset:
            return 0.0
        if not now < self._asleep_until < float("inf"):
            self._asleep_until = float("inf")
        if due is not None:
            self._asleep_until = min(self._asleep_until, due)
        return None if self._asleep_until == float("inf") else max(0.0, self._asleep_until - now)

    def _open(self, selector: selectors.BaseSelector, channel: Channel) -> None:
        try:
            conn = self._dial(channel, lambda: self._closed or not channel.live)
        except OSError as error:
            failure = failed(channel.endpoint.store, error)
            self._turn_in(lambda: self._multiplexer.broken(channel, failure))
            return
        with section.mark, self._lock:
            self._conns[channel] = conn
            selector.register(conn.sock, selectors.EVENT_READ, channel)
        self._turn_in(lambda: self._connected(channel))

    def _connected(self, channel: Channel) -> None:
        self._multiplexer.connected(channel, time.monotonic())
        if not channel.live:  # given up while it connected
            self._multiplexer.closes.append(channel)

    def _read(self, channel: Channel) -> None:
        while channel.live:
            with section.mark, self._lock:
                try:
                    data = self._conns[channel].receive_some()
                except OSError as error:
                    failure = failed(channel.endpoint.store, error)
                    self._multiplexer.broken(channel, failure)
                    break
                if data is None:
                    return
                self._multiplexer.received(channel, data, time.monotonic())
                told = self._multiplexer.take_told()
            for tell, what in told:  # what it sends in turn can wait: somebody may have got a lock
                tell(what)

    def _close_conns(self, selector: selectors.BaseSelector, channels: list[Channel]) -> None:
        for channel in channels:
            conn = self._conns.pop(channel, None)
            if conn is not None:
                selector.unregister(conn.sock)
                conn.close()
