"""The blocking link to a file: a request is carried out in the caller's own thread."""

from __future__ import annotations

import select
import socket
import threading
from typing import Any

from recipes._contract.connection import Mailbox, OnEnd, Request
from recipes.stores.sqlite.descriptors import Descriptor
from recipes.stores.sqlite.requests import Ask, Start
from recipes.stores.sqlite.session import FileSession

__all__ = ["SqliteLink"]

CLOSE_WITHIN_S = 0.5


class SqliteLink:
    """A ``Link`` to a file: one session, one connection, one thread that hears; threads may share it.

    Args:
        path: The file.
        label: Where it is, for errors.
        on_end: Told once, in some thread, if the session turns out to have ended.
    """

    def __init__(self, path: str, label: str, on_end: OnEnd) -> None:
        self._session = FileSession(path, label, on_end, self._poke)
        self._listener: threading.Thread | None = None
        self._closed = threading.Event()
        self._waking, self._woken = socket.socketpair()
        for end in (self._waking, self._woken):
            end.setblocking(False)
        self._own = (Descriptor(self._waking), Descriptor(self._woken))

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        assert isinstance(request, Ask), f"{request!r} should be a request to a file"
        reply = self._session.carry_out(request, timeout_s)
        if isinstance(request, Start):
            self._start_listening()
        return reply

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._session.book.forget(mailbox)

    def close(self) -> None:
        """Let go of the connection, the socket and the thread, within a second; never raises."""
        self._closed.set()
        listener = self._listener
        if listener is not None:
            self._poke()
            listener.join(CLOSE_WITHIN_S)
        self._session.close(CLOSE_WITHIN_S)
        for one in self._own:
            one.close()

    def _start_listening(self) -> None:
        self._listener = threading.Thread(target=self._hear, name="recipes-listener", daemon=True)
        self._listener.start()

    @property
    def _taken(self) -> bool:
        """Whether somebody else closed what the listener listens to."""
        return self._session.taken or any(one.taken for one in self._own)

    def _poke(self) -> None:
        """Have the listener look at what there is to do."""
        if self._own[0].taken:  # it would be said to somebody else
            return
        try:
            self._waking.send(b".")
        except OSError:  # it is poked already, or the link is closed
            pass

    def _hear(self) -> None:
        session = self._session
        poll = select.poll()
        poll.register(self._woken, select.POLLIN)
        if session.bell is not None and session.bell.socket is not None:
            poll.register(session.bell.socket, select.POLLIN)
        while not self._closed.is_set():
            tick_s = session.tick_s
            poll.poll(None if tick_s is None else tick_s * 1000)
            if self._closed.is_set():
                break
            if self._taken:
                session.give_up()
                break
            self._unpoke()
            if session.hear() or session.tick_s == 0:
                session.tick()

    def _unpoke(self) -> None:
        try:
            self._woken.recv(100)
        except OSError:  # it was not poked, or the link is closed
            pass
