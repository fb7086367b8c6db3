"""The blocking connection: a command is carried out in the caller's own thread."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from typing import Any

from recipes._contract.connection import Connection, Mailbox, Request
from recipes._contract.operations import Open
from recipes._descriptors import TAKEN, Descriptor
from recipes._threads import new_thread, start
from recipes.errors import StoreUnavailable
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import Session

__all__ = ["QueueConnection"]

CLOSE_WITHIN_S = 0.5


class QueueConnection(Connection):
    """A connection to a queue store: one session, and one thread that listens; threads may share it.

    Raises:
        OSError: This process has as many files open as it may.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        session.on_listen = self._poke
        self._listeners: dict[str, threading.Thread] = {}  # the one that listens: it is the first to say so
        self._listens = False  # so should one
        self._closed = threading.Event()
        self._waking, self._woken = socket.socketpair()
        for end in (self._waking, self._woken):
            end.setblocking(False)
        self._own = (Descriptor(self._waking), Descriptor(self._woken))

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        assert isinstance(request, Command), f"{request!r} should be a Command"
        if self._listens and not self._listeners and not self._closed.is_set():  # somebody ended it
            with contextlib.suppress(StoreUnavailable):  # the next request tries again
                self._listen()
        reply = self.session.carry_out(request, timeout_s)
        if isinstance(request.op, Open) and not self._listeners:
            self._listens = True
            self._listen()
        return reply

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self.session.subscriptions.forget(mailbox)

    def close(self) -> None:
        """Let go of the session, the sockets and the thread, within a second; never raises."""
        self._closed.set()
        listener = self._listeners.get("now")
        if self._listens:
            self._poke()
        if listener is not None:
            listener.join(CLOSE_WITHIN_S)
        self.session.close(CLOSE_WITHIN_S)
        for one in self._own:
            one.close()

    def _listen(self) -> None:
        try:
            start(new_thread("listener", self._work))
        except OSError as error:
            raise StoreUnavailable(self.session.label, str(error)) from error

    def _poke(self) -> None:
        """Have the listener look at what there is to do."""
        if self._own[0].taken:  # it would be said to somebody else
            return
        try:
            self._waking.send(b".")
        except OSError:  # it is poked already, or the connection is closed
            pass

    def _work(self) -> None:
        if self._listeners.setdefault("now", threading.current_thread()) is not threading.current_thread():
            return
        try:
            self._hear()
        except BaseException:
            self._listeners.clear()
            if self._closed.is_set():  # before it began: so its sockets are closed
                return
            self.session.subscriptions.disturb()
            raise

    def _hear(self) -> None:
        session = self.session
        poll = select.poll()
        for heard in (self._woken, session.socket):
            if heard is not None:
                poll.register(heard, select.POLLIN)
        while not self._closed.is_set():
            tick_s = session.tick_s
            poll.poll(None if tick_s is None else tick_s * 1000)
            if self._closed.is_set():
                break
            if session.taken or any(one.taken for one in self._own):
                session.end(TAKEN)
                break
            self._unpoke()
            if session.hear() or session.tick_s == 0:
                session.tick()

    def _unpoke(self) -> None:
        try:
            self._woken.recv(100)
        except OSError:  # it was not poked, or the connection is closed
            pass
