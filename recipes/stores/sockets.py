"""A TCP or TLS connection whose every step has a deadline: for the blocking API."""

from __future__ import annotations

import math
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from recipes._descriptors import TAKEN, Descriptor, identity
from recipes._run.waiting import SLICE_S
from recipes._signals import of_a_wait
from recipes.stores.addresses import Address, Endpoint, addresses, forget_unsent, tune
from recipes.stores.tls import CLOSED, is_of_tls, of_established, tls_words

if TYPE_CHECKING:
    import ssl

__all__ = ["Conn", "any_ready", "describe", "dial", "over_tls", "readable"]

_SLICE_S = 0.2
_LONGEST_S = 3600.0
_READ = 65_536
_OF_ASYNCIO = "Connect call failed"  # is in place of the reason, which is in the number only


def readable(fd: int) -> bool:
    """Say whether reading ``fd`` would find something now, be it the end."""
    return _wait(fd, False, 0.0)


def _wait(fd: int, write: bool, timeout_s: float) -> bool:
    try:
        poll = select.poll()
    except AttributeError:  # pragma: no cover - not everywhere
        ready = select.select([] if write else [fd], [fd] if write else [], [], timeout_s)
        return bool(ready[0] or ready[1])
    poll.register(fd, select.POLLOUT if write else select.POLLIN)
    try:
        return bool(poll.poll(math.ceil(timeout_s * 1000)))
    except Exception as error:
        raise of_a_wait(error) if timeout_s else error from None


def any_ready(read: Iterable[int], write: Iterable[int], timeout_s: float) -> set[int]:
    """Return which of these can be read from or written to, as soon as one can; none if it takes longer.

    In the main thread it may be none sooner: so that no signal goes unheard.
    """
    if threading.current_thread() is threading.main_thread():
        timeout_s = min(timeout_s, SLICE_S)
    timeout_s = max(min(timeout_s, _LONGEST_S), 0.0)
    if hasattr(select, "poll"):
        poll = select.poll()
        for fd in read:
            poll.register(fd, select.POLLIN)
        for fd in write:
            poll.register(fd, select.POLLIN | select.POLLOUT)
        try:
            return {fd for fd, _ in poll.poll(math.ceil(timeout_s * 1000))}
        except Exception as error:
            raise of_a_wait(error) from None
    some = select.select([*read, *write], list(write), [], timeout_s)  # pragma: no cover
    return {*some[0], *some[1]}  # pragma: no cover


def _not_now() -> tuple[type[Exception], ...]:
    """Return what says that a socket cannot send or receive at once; with TLS once that is imported."""
    module = sys.modules.get("ssl")
    names = ("SSLWantReadError", "SSLWantWriteError")
    # Another thread may be amid the import: then no connection of ours has TLS yet.
    return BlockingIOError, *(getattr(module, name) for name in names if hasattr(module, name))


class Conn:
    """One connection; the socket never blocks, the methods wait until their deadline (``time.monotonic``).

    Attributes:
        hides: Whether it may have received what no poll sees: TLS holds decrypted bytes.
    """

    __slots__ = ("_kind", "_own", "hides", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._own = Descriptor(sock)
        self._kind = identity(sock.fileno())
        self.hides = hasattr(sock, "do_handshake")

    @property
    def taken(self) -> bool:
        """Whether other code of this process closed it: what is open under its number now is not ours."""
        return self._own.taken

    def send(self, data: bytes, deadline: float) -> None:
        """Send all of ``data``."""
        sent = self.send_some(data)
        if sent < len(data):
            view = memoryview(data)
            while sent < len(data):
                self._await(True, deadline)
                sent += self.send_some(view[sent:])

    def receive(self, deadline: float) -> bytes:
        """Return what arrives next, ``b""`` at the end of the connection."""
        if self.hides and time.monotonic() < deadline:  # a plain reply is never there at once
            data = self.receive_own()
            if data is not None:
                return data
        self._await(False, deadline)
        while (data := self.receive_some()) is None:
            self._await(False, deadline)
        return data

    def send_some(self, data: bytes | bytearray | memoryview) -> int:
        """Send what fits in now, and return how much that was."""
        try:
            return self.sock.send(data)
        except _not_now():
            return 0
        except OSError as error:
            raise of_established(error) from None

    def receive_some(self) -> bytes | None:
        """Return what is there, None if nothing is."""
        try:
            return self.sock.recv(_READ)
        except _not_now():
            return None
        except OSError as error:
            raise of_established(error) from None

    def receive_own(self) -> bytes | None:
        """Return what is there, as `receive_some`; OSError if that is somebody else's."""
        if identity(self.sock.fileno()) != self._kind:
            raise OSError(TAKEN)
        return self.receive_some()

    def stale(self) -> bool:
        """Say whether something arrived unasked, or it was closed: such a connection is of no use."""
        fd = self.sock.fileno()
        return fd < 0 or identity(fd) != self._kind or _wait(fd, False, 0.0)  # leaner than `taken`

    def hang_up(self) -> None:
        """Have whatever waits for it find its end; any thread may."""
        if not self._own.taken:
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)  # of TLS only the connection below it

    def close(self) -> None:
        """Close it; any thread may."""
        self._own.close()

    def reset(self) -> None:
        """Close it, and have nothing delivered that the server has not got yet."""
        try:
            if not self._own.taken:
                forget_unsent(self.sock)
        finally:
            self._own.close()

    def _await(self, write: bool, deadline: float) -> None:
        while (left := deadline - time.monotonic()) > 0:
            if _wait(self.sock.fileno(), write, min(left, SLICE_S)):  # so that no signal goes unheard
                if identity(self.sock.fileno()) != self._kind:  # what is there is somebody else's
                    raise OSError(TAKEN)
                return
        raise TimeoutError("no answer in time")


def dial(
    endpoint: Endpoint,
    context: ssl.SSLContext | None,
    deadline: float,
    stop: Callable[[], bool] = lambda: False,
) -> Conn:
    """Connect to ``endpoint``, trying each of its addresses, or raise OSError; ``stop`` is asked often."""
    found = addresses(endpoint, deadline - time.monotonic())
    for position, address in enumerate(found, 1):
        now = time.monotonic()
        share = now + (deadline - now) / (len(found) - position + 1)
        try:
            return _connect(address, endpoint.host, context, share, stop)
        except OSError:
            if position == len(found):
                raise
    raise AssertionError("a host without addresses should not resolve")


def _connect(
    address: Address, host: str, context: ssl.SSLContext | None, deadline: float, stop: Callable[[], bool]
) -> Conn:
    family, where = address
    sock = socket.socket(family, socket.SOCK_STREAM)
    own = Descriptor(sock)
    try:
        tune(sock)
        sock.setblocking(False)
        try:
            sock.connect(where)
        except BlockingIOError:
            _sliced(sock, True, deadline, stop, "no connection in time")
            error = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if error:
                raise OSError(error, os.strerror(error)) from None
        if context is not None:
            sock = over_tls(sock, context, host)
            own = Descriptor(sock)
            _handshake(sock, deadline, stop)
        return Conn(sock)
    except ConnectionResetError as error:
        own.close()
        raise ConnectionResetError(error.errno, error.strerror if context is None else CLOSED) from error
    except BaseException:
        own.close()
        raise


def over_tls(sock: socket.socket, context: ssl.SSLContext, host: str | None) -> ssl.SSLSocket:
    """Return the TLS socket of a connection, which owns its descriptor from then on, before the handshake.

    Where the connection was reset by then, Python's ``SSLSocket._create`` drops that socket unclosed.
    """
    import ssl  # noqa: PLC0415 - whatever made the context has imported it

    try:
        return context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None:
            made = trace.tb_frame.f_locals.get("self")
            if isinstance(made, ssl.SSLSocket):
                if made.fileno() == sock.fileno():  # an interrupt struck where both have it
                    made.detach()
                made.close()
            trace = trace.tb_next
        raise


def _handshake(sock: ssl.SSLSocket, deadline: float, stop: Callable[[], bool]) -> None:
    import ssl  # noqa: PLC0415 - whatever made its context has imported it

    while True:
        try:
            return sock.do_handshake()
        except ssl.SSLWantReadError:
            _sliced(sock, False, deadline, stop, "no TLS handshake in time")
        except ssl.SSLWantWriteError:  # pragma: no cover - a handshake fits into any send buffer
            _sliced(sock, True, deadline, stop, "no TLS handshake in time")


def _sliced(sock: socket.socket, write: bool, deadline: float, stop: Callable[[], bool], late: str) -> None:
    """Wait in slices, so that who closes a connection need not wait for a connection in the making."""
    while not stop():
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(late)
        if _wait(sock.fileno(), write, min(left, _SLICE_S)):
            return
    raise OSError("the link was closed")


def describe(error: Exception) -> str:
    """Return what happened, in words without secrets."""
    if is_of_tls(error):
        return tls_words(error)
    if isinstance(error, OSError) and error.strerror:
        number = error.errno if error.strerror.startswith(_OF_ASYNCIO) else None
        return error.strerror if number is None else os.strerror(number)
    return str(error) or type(error).__name__
