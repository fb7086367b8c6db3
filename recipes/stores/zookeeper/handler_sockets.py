"""The file descriptors that kazoo's connection thread waits on, with fewer system calls than kazoo's own."""

from __future__ import annotations

import errno
import math
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from operator import call
from typing import Any, SupportsIndex

from recipes._descriptors import TAKEN, Descriptor, identity
from recipes._mutex import new_lock
from recipes._section import section

__all__ = ["LeanSocket", "OwnSocket", "Pair", "Waker", "closes_its_own", "poll", "tls_context"]

READ_AHEAD = 16384
MOST_AHEAD = 1 << 20
LENGTH = 4
_TROUBLE = select.POLLERR | select.POLLHUP | select.POLLNVAL
_READABLE = select.POLLIN | _TROUBLE
_WRITABLE = select.POLLOUT | _TROUBLE


class OwnSocket(socket.socket):
    """A TCP socket that closes no number which is somebody else's by now.

    Attributes:
        own: Whether other code of this process has closed it.
    """

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.own = Descriptor(self)
        self._kind = identity(self.fileno())

    def check(self) -> None:
        """Raise OSError if other code of this process closed it; before each request: leaner than ``own``."""
        if identity(self.fileno()) != self._kind:
            raise OSError(errno.EBADF, TAKEN)

    def close(self) -> None:
        """Close it, unless other code of this process did."""
        if self.own.taken:
            self.detach()
        else:
            super().close()


def closes_its_own(secure: ssl.SSLSocket) -> Descriptor:
    """Have a TLS socket, which only its context makes, close as an `OwnSocket` does; whether it is taken."""
    own = Descriptor(secure)

    def close() -> None:
        secure.detach() if own.taken else ssl.SSLSocket.close(secure)

    vars(secure)["close"] = close
    return own


class LeanSocket(OwnSocket):
    """A TCP socket that reads ahead, and sends without ever blocking.

    kazoo asks for a header and then a body: both are in one ``recv``. What cannot be sent at once is kept
    until `flush`; that, and sending, is for one thread at a time.

    Attributes:
        held: What was read ahead.
        full: It took no more when something was sent last.
    """

    def __init__(self, family: int) -> None:
        super().__init__(family)
        self.held = b""
        self.full = False
        self._last: tuple[bytes, list[int | None]] = (b"", [None])  # with how much of it was sent, at the end

    def pending(self) -> int:
        """Return how many bytes can be received without a system call; kazoo asks before it waits."""
        return len(self.held)

    def recv(self, bufsize: SupportsIndex, flags: int = 0, /) -> bytes:
        """Receive at most ``bufsize`` bytes."""
        wanted = bufsize.__index__()
        held = self.held or super().recv(max(wanted, READ_AHEAD), flags)
        self.held = held[wanted:]
        return held[:wanted]

    def fill(self) -> bool:
        """Read ahead what has arrived; False at the end of the connection."""
        held = self.held
        missing = self._whole_size() - len(held)
        self.check()
        try:
            more = super().recv(min(max(READ_AHEAD, missing), MOST_AHEAD))
        except BlockingIOError:
            return True
        self.held = held + more if held else more
        return bool(more)

    def whole(self) -> bool:
        """Return whether a whole message was read ahead."""
        return len(self.held) >= self._whole_size()

    def _whole_size(self) -> int:
        return LENGTH + int.from_bytes(self.held[:LENGTH])

    @property
    def unsent(self) -> bytes:
        """What was kept."""
        data, done = self._last
        return data[done[-1] or 0 :]

    def send_behind(self, data: bytes, step: Callable[[], None]) -> None:
        """Take a step, and then send; keep what does not fit in.

        No signal strikes between the two, nor before it is known how much was sent: Python handles one
        when a call has returned, and here all of it is one call. It finds nothing done, or everything.
        """
        if self.unsent:
            step()
            self.send(data)
            return
        done: list[int | None] = []
        begin = partial(setattr, self, "_last", (data, done))
        steps: tuple[Callable[[], Any], ...] = (begin, step, self.check, partial(super().send, data))
        try:
            done.extend(map(call, steps))
        except BlockingIOError:
            pass  # the last that is done is the step
        self.full = bool(self.unsent)

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send it behind what was kept, or keep it."""
        self._last = (self.unsent + data, [0])
        self.flush()
        return len(data)

    def flush(self) -> None:
        """Send what was kept, as much as fits in."""
        rest = self.unsent
        if rest:
            self.check()
            try:
                self._last = (rest, [super().send(rest)])
            except BlockingIOError:
                self._last = (rest, [0])
        self.full = bool(self.unsent)


class Waker:
    """Both ends of the pipe with which callers wake kazoo's thread.

    kazoo sends a byte for each request and takes one for each sent, on a blocking pair
    that holds some 280 of them: a caller (an event loop!) would block when the thread is
    stuck in a write. This one counts, never blocks, and makes a system call only when the
    count leaves or reaches zero.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._rung = 0
        self._closed = False
        self._make()

    def _make(self) -> None:
        self._read, self._write = socket.socketpair()
        self._own = Descriptor(self._read), Descriptor(self._write)
        self._read.setblocking(False)
        self._write.setblocking(False)

    @property
    def taken(self) -> bool:
        """Whether other code of this process closed one of its ends."""
        return any(one.taken for one in self._own)

    def mend(self) -> None:
        """Make it anew where other code has closed it, and have it stand where it stood."""
        with section.mark, self._lock:
            if self.taken and not self._closed:
                before = self._own
                self._make()
                for one in before:
                    one.close()
                if self._rung:
                    self._write.send(b"\0")

    def fileno(self) -> int:
        """Return the descriptor that is readable while the count is not zero."""
        return self._read.fileno()

    def send(self, data: bytes) -> int:
        """Count one more for each byte; OSError once closed."""
        with section.mark, self._lock:
            if self._closed:
                raise OSError(errno.EBADF, "closed")
            if not self._rung and not self._own[1].taken:  # else kazoo's thread has noticed
                self._write.send(b"\0")
            self._rung += len(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Count one less; OSError if the count is zero."""
        with section.mark, self._lock:
            self._rung = max(0, self._rung - 1)
            if not self._rung:
                self._drain()
        return b"\0"[:size]

    def hush(self) -> None:
        """Count from zero again."""
        with section.mark, self._lock:
            self._rung = 0
            try:
                self._drain()
            except BlockingIOError:  # it was quiet
                pass

    def _drain(self) -> None:
        if self._own[0].taken:
            raise OSError(errno.EBADF, TAKEN)
        self._read.recv(READ_AHEAD)  # all of it: a forked child may have rung as well

    def close(self) -> None:
        """Close both ends; kazoo calls it once for each."""
        with section.mark, self._lock:
            self._closed = True
            self._close()

    def _close(self) -> None:
        for one in self._own:
            one.close()


class Pair:
    """The two that kazoo's loop waits for, again and again: registered once."""

    def __init__(self, sock: LeanSocket, waker: Waker) -> None:
        self.both: list[Any] = [sock, waker]
        self._sock_fd = _fileno(sock)
        self._sending = False
        self._poller = select.poll()
        for fd in (self._sock_fd, _fileno(waker)):
            self._poller.register(fd, select.POLLIN)

    def wait(self, timeout_s: float | None) -> list[Any]:
        """Return which of them can be read within so many seconds; trouble shows as it is read.

        The bell stands as well for a socket that would take more of what it could not send.
        """
        sock, waker = self.both
        ahead = sock.whole()
        found: list[Any] = []
        for fd, mask in self._poll(0 if ahead else timeout_s):
            if mask & _TROUBLE and (sock.own.taken or waker.taken):
                raise OSError(errno.EBADF, TAKEN)
            one = sock if fd == self._sock_fd and mask & _READABLE else waker
            if one not in found:
                found.append(one)
        return [sock, *found] if ahead and sock not in found else found

    def readable(self, timeout_s: float) -> bool:
        """Return whether the socket alone can be read within so many seconds; as `wait`, but leaner."""
        found = self._poll(timeout_s)
        return len(found) == 1 and found[0][0] == self._sock_fd and found[0][1] != select.POLLOUT

    def _poll(self, timeout_s: float | None) -> list[tuple[int, int]]:
        if self._sending != self.both[0].full:
            self._sending = not self._sending
            mask = select.POLLIN | select.POLLOUT if self._sending else select.POLLIN
            self._poller.modify(self._sock_fd, mask)
        return self._poller.poll(_wait_ms(timeout_s))


_READERS_AHEAD = (LeanSocket, ssl.SSLSocket)


def poll(rlist: Sequence[Any], wlist: Sequence[Any], timeout_s: float | None) -> tuple[list[Any], list[Any]]:
    """Wait as ``select.select`` does, without its limit on descriptors, in one system call.

    A socket that has read ahead (or a TLS socket with decrypted bytes, which kazoo's own
    select would sleep on) is readable at once, and the others are still looked at.
    """
    poller = select.poll()
    masks: dict[int, int] = {}
    reads: dict[int, Any] = {}
    writes: dict[int, Any] = {}
    ahead: list[Any] = []
    for one in rlist:
        fd = _fileno(one)
        reads[fd], masks[fd] = one, select.POLLIN
        if isinstance(one, _READERS_AHEAD) and one.pending():
            ahead.append(one)
    for one in wlist:
        fd = _fileno(one)
        writes[fd], masks[fd] = one, masks.get(fd, 0) | select.POLLOUT
    for fd, mask in masks.items():
        poller.register(fd, mask)
    found = poller.poll(0 if ahead else _wait_ms(timeout_s))
    readable = [reads[fd] for fd, mask in found if mask & _READABLE and fd in reads]
    readable += [one for one in ahead if one not in readable]
    return readable, [writes[fd] for fd, mask in found if mask & _WRITABLE and fd in writes]


def _wait_ms(timeout_s: float | None) -> int | None:
    return None if timeout_s is None else math.ceil(max(0.0, timeout_s) * 1000)


def _fileno(one: Any) -> int:
    fd: int = one if isinstance(one, int) else one.fileno()
    if fd < 0:
        # An OSError, which kazoo takes for a lost connection; ValueError would end its thread.
        raise OSError(errno.EBADF, "the socket is closed")
    return fd


def tls_context(
    *,
    ca: str | None = None,
    certfile: str | None = None,
    keyfile: str | None = None,
    keyfile_password: str | None = None,
    verify_certs: bool = True,
    check_hostname: bool = False,
) -> ssl.SSLContext:
    """Return the context that kazoo would make of its options of the same names."""
    if check_hostname and not verify_certs:
        raise ssl.SSLError("check_hostname needs verify_certs")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    context.verify_mode = ssl.CERT_REQUIRED if verify_certs else ssl.CERT_NONE
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if ca:
        context.load_verify_locations(ca)
    if certfile and keyfile:
        context.load_cert_chain(certfile, keyfile, keyfile_password)
    return context
