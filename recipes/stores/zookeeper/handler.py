"""A handler for kazoo that costs less, can be stopped, and notices silence.

The handler is a public parameter of ``KazooClient``. Against kazoo's own it makes one
system call a wait, delivers completions and watch events inline in the connection
thread (in the order of the wire, without a hop to a worker), and keeps hold of the
socket, so that no thread of kazoo's outlives a close by more than a moment.
"""

from __future__ import annotations

import errno
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.retry import InterruptedError as NoMoreTries

from recipes._descriptors import TAKEN, Descriptor
from recipes._mutex import new_lock
from recipes._section import section
from recipes._threads import new_thread
from recipes.events import Log
from recipes.stores.addresses import forget_unsent
from recipes.stores.sockets import over_tls
from recipes.stores.zookeeper.handler_results import LeanResult, survive
from recipes.stores.zookeeper.handler_sockets import (
    LeanSocket,
    OwnSocket,
    Pair,
    Waker,
    closes_its_own,
    poll,
    tls_context,
)

__all__ = ["LeanHandler"]

log = Log("recipes.kazoo")

GOODBYE = struct.pack(">iii", 8, 0, -11)
"""A request to end the session: its length, a number that nobody looks at, and its kind."""


class LeanHandler(SequentialThreadingHandler):  # type: ignore[misc] # kazoo ships no types
    """The handler; one for each client.

    Args:
        connect_timeout_s: The longest that one server may take to accept a connection, and
            again to speak TLS, and again to answer at all.
        on_pause: Called in the connection thread when every server failed and before the next round.
        on_stop: Called with the exception, if any, when the connection thread ends.
        on_connect: Called in the connection thread before each connection; what it raises ends the try.
        ssl_context: For TLS, in place of one made of kazoo's options.

    Attributes:
        silence_limit_s: Give a connection up when something sent was followed by so many
            seconds without a byte. kazoo itself counts each request as a ping and so never
            notices that a busy connection is dead.
        ahead: Whether sockets read ahead and never block, which a `LeanClient` counts on.
        tried: Whether a connection was tried; what is notified of pauses resets it, for kazoo makes
            one pause of many short ones.
    """

    name = "lean_handler"

    def __init__(
        self,
        *,
        connect_timeout_s: float = 5.0,
        on_pause: Callable[[], None] | None = None,
        on_stop: Callable[[BaseException | None], None] | None = None,
        on_connect: Callable[[], None] | None = None,
        on_resolved: Callable[[int], None] | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__()
        self.silence_limit_s: float | None = None
        self.ahead = True
        self.tried = False
        self.connect_timeout_s = connect_timeout_s
        self._on_pause = on_pause
        self._on_stop = on_stop
        self._on_connect = on_connect
        self._on_resolved = on_resolved
        self._ssl_context = ssl_context
        self._results = new_lock()
        self._guard = new_lock()
        self._socket: socket.socket | None = None
        self._own: Descriptor | None = None  # of that socket
        self._connecting = False
        self._wakers: list[Waker] = []
        self._thread: threading.Thread | None = None
        self._unheard = False  # no answer on this connection yet
        self._asked_at: float | None = None  # when something was sent that nothing came back for
        self._retired = threading.Event()
        self._pair: Pair | None = None

    # Ending.

    def retire(self) -> None:
        """Make no connection any more; one that stands may still be used to say goodbye."""
        self._retired.set()
        if self._connecting:
            self.abort()

    def abort(self) -> None:
        """Shut the socket down hard: kazoo's thread sees the end of the connection at once."""
        with section.mark, self._guard:
            self._take_back()
            if self._socket is not None and not self._is_taken():
                try:
                    # Of the plain socket: that of a TLS socket would pull the session from under a reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
                except OSError:
                    log.debug("the connection was gone already")

    def resolved(self, servers: int) -> None:
        """Hear of how many servers there are, as names resolve."""
        if self._on_resolved is not None:
            self._on_resolved(servers)

    def ring(self) -> None:
        """Have kazoo's thread look at its queue once more than it would.

        An interrupt between kazoo's queueing a request and its ringing for it would
        leave every later request one behind.
        """
        for waker in self._wakers:
            try:
                waker.send(b"\0")
            except OSError:
                log.debug("kazoo's thread has ended")

    # What kazoo calls.

    def start(self) -> None:
        """Have no workers: nothing is handed to them."""
        self._running = True

    def stop(self) -> None:
        """Have no workers to wait for, nor anything at interpreter exit."""
        self._running = False

    def async_result(self) -> Any:
        """Return a `LeanResult`."""
        return LeanResult(self._results)

    def dispatch_callback(self, callback: Any) -> None:
        """Call a watcher here and now, so that events and replies keep their order."""
        survive(callback.func, *callback.args)

    def create_socket_pair(self) -> Any:
        """Return what callers wake the connection thread with: both ends of a `Waker`."""
        waker = Waker()
        self._wakers = [waker]
        return waker, waker

    def sleep_func(self, seconds: float) -> None:
        """Pause between two rounds of connecting; ends early when there will be no other."""
        if self._on_pause is not None:
            self._on_pause()
        if self._retired.wait(seconds):
            raise NoMoreTries  # kazoo's own word for an end of trying

    def spawn(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> threading.Thread:
        """Run kazoo's loop in a daemon thread; its death is reported, not printed."""

        def run() -> None:
            error: BaseException | None = None
            try:
                func(*args, **kwargs)
            except BaseException as raised:
                error = raised
            if self._on_stop is not None:
                survive(self._on_stop, error)

        thread = new_thread("kazoo", run)
        thread.start()
        self._thread = thread
        return thread

    def join(self) -> None:
        """Wait for kazoo's thread, however long it takes."""
        if self._thread is not None:
            self._thread.join()

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        use_ssl: bool = False,
        **tls: Any,
    ) -> socket.socket:
        """Connect within the connect timeout; can be ended by ``retire``."""
        if self._on_connect is not None:
            self._on_connect()
        limit_s = min(self.connect_timeout_s, timeout or self.connect_timeout_s)
        family, _, _, _, target = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        for waker in self._wakers:
            waker.mend()
        plain = (LeanSocket if self.ahead else OwnSocket)(family)
        sock: socket.socket = self._hold(plain, plain.own)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(limit_s)
            self._check_wanted()
            sock.connect(target)
            if use_ssl:
                context = self._ssl_context or tls_context(**tls)
                secure = over_tls(sock, context, hostname)
                sock = self._hold(secure, closes_its_own(secure))
                secure.do_handshake()
            self._check_wanted()  # else kazoo would resume the session
        except TimeoutError as error:
            sock.close()  # and say it with a text: kazoo looks for nothing else
            raise TimeoutError(errno.ETIMEDOUT, f"no connection within {limit_s:.3g} s") from error
        except BaseException:
            sock.close()
            raise
        finally:
            self._connecting = False
        return sock

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], _xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as ``select.select`` does; KazooTimeoutError when the server has been silent too long."""
        if self._pair is not None and not rlist and self._socket in wlist:
            readable, writable = list(rlist), list(wlist)  # it keeps what it cannot send
        else:
            readable, writable = self._wait(rlist, wlist, timeout)
        if self._socket in readable:
            if not (self._unheard and isinstance(self._socket, ssl.SSLSocket)):
                self.heard()  # else it may be TLS's own: a session that it offers to resume
        elif self._socket in writable:
            self.asked()
        return readable, writable, []

    def more(self, timeout_s: float) -> bool:
        """Wait for the server, and whether it is all there is to do: nobody rings."""
        pair = self._pair
        return pair is not None and pair.readable(timeout_s)

    def asked(self) -> None:
        """Note that the server owes an answer from now on."""
        if self._asked_at is None:
            self._asked_at = time.monotonic()

    def heard(self) -> None:
        """Note that the server is not silent."""
        self._unheard, self._asked_at = False, None

    def _wait(
        self, rlist: Sequence[Any], wlist: Sequence[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any]]:
        """Wait, but no longer than the server may be silent."""
        patience_s = self._patience_s() if self._socket in rlist else None
        short = patience_s is not None and (timeout is None or patience_s < timeout)
        limit_s = patience_s if short else timeout
        pair = self._pair
        if pair is not None and rlist == pair.both and not wlist:
            readable, writable = pair.wait(limit_s), list(wlist)
        else:
            readable, writable = poll(rlist, wlist, limit_s)
            if self._is_taken():
                raise OSError(errno.EBADF, TAKEN)
        if short and self._socket not in readable and (self._patience_s() or 0.0) <= 0.0:
            with section.mark, self._guard:
                self._take_back()
            raise KazooTimeoutError(f"the server did not answer for {self._limit_s():.1f} s")
        return readable, writable

    # The parts.

    def _hold(self, sock: socket.socket, own: Descriptor) -> socket.socket:
        """Let ``abort`` reach the socket from now on."""
        with section.mark, self._guard:
            self._own = own
            self._socket, self._connecting, self.tried = sock, True, True
            self._unheard, self._asked_at = True, None
            self._pair = (
                Pair(sock, self._wakers[0]) if isinstance(sock, LeanSocket) and self._wakers else None
            )
        return sock

    def _take_back(self) -> None:
        """Have a request for the session, which is given up unanswered, not keep it alive if it arrives late.

        A network that was held up delivers it. What this kernel still has is forgotten; once no other try
        follows, an end of the session goes behind it. ZooKeeper reads that when it has answered the first.
        """
        sock = self._socket
        if sock is None or not self._unheard or self._asked_at is None or self._is_taken():
            return
        if not self._retired.is_set():
            forget_unsent(sock)
            return
        if isinstance(sock, ssl.SSLSocket) and threading.current_thread() is not self._thread:
            return  # that is for one thread at a time
        try:
            sock.send(GOODBYE)
        except OSError:
            log.debug("the connection was gone already")

    def _is_taken(self) -> bool:
        """Whether other code of this process closed the socket: its number is not ours to send to."""
        return self._own is not None and self._own.taken

    def _check_wanted(self) -> None:
        if self._retired.is_set():
            raise ConnectionAbortedError(errno.ECONNABORTED, "the session is over")

    def _limit_s(self) -> float | None:
        return self.connect_timeout_s if self._unheard else self.silence_limit_s

    def _patience_s(self) -> float | None:
        """Return how much longer the server may stay silent; None for as long as it likes."""
        limit_s = self._limit_s()
        if self._asked_at is None or limit_s is None:
            return None
        return max(0.0, self._asked_at + limit_s - time.monotonic())
