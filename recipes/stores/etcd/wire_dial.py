"""Where the servers are: endpoints, their order, and their addresses."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "DIAL_S",
    "Address",
    "Attempt",
    "Endpoint",
    "Endpoints",
    "addresses",
    "forget_unsent",
    "look_up",
    "tune",
]

DIAL_S = 3.0
"""How long a connection for watches may take to be made."""

Address = tuple[int, tuple[Any, ...]]
"""A socket family, and what ``connect`` takes."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server of the cluster."""

    host: str
    port: int

    @property
    def store(self) -> str:
        """What errors and the ``Host`` header call it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request to one server: since when, and until when it may take."""

    endpoint: Endpoint
    began: float
    until: float


SHARES = 3
SHORTEST_SHARE_S = 0.25


class Endpoints:
    """The servers of the cluster, one of them current; after a failure the next one is.

    Where there are several, an attempt may wait for one of them only for a share of its time, so
    that a silent server leaves enough of it to ask another. The share follows what answers take:
    where all are slow, nobody is left for being slow.

    Attributes:
        several: Whether there is another one to go to.
    """

    def __init__(self, endpoints: Sequence[tuple[str, int]]) -> None:
        if not endpoints:
            raise ValueError("at least one endpoint (host, port) is needed")
        self.all = tuple(Endpoint(host, port) for host, port in endpoints)
        self.several = len(self.all) > 1
        self._at = 0
        self._slow_s = 0.0

    def current(self) -> Endpoint:
        """Return the server to ask next."""
        return self.all[self._at]

    def attempt(self, now: float, deadline: float) -> Attempt:
        """Return which server to ask, and until when; both instants are of one monotonic clock."""
        left_s = deadline - now
        if self.several:
            left_s = min(left_s, max(left_s / SHARES, SHORTEST_SHARE_S, 2 * self._slow_s))
        return Attempt(self.current(), now, now + left_s)

    def answered(self, attempt: Attempt, now: float) -> None:
        """Take note of how long an answer takes."""
        self._slow_s = max(now - attempt.began, self._slow_s / 2)

    def unanswered(self, attempt: Attempt, now: float) -> None:
        """Leave the server of ``attempt``, unless that hardly gave it any time."""
        waited_s = now - attempt.began
        if now >= attempt.until:  # else it is not there, or says itself that it cannot serve
            if waited_s < SHORTEST_SHARE_S:
                return
            self._slow_s = max(self._slow_s, attempt.until - attempt.began)
        self.failed(attempt.endpoint)

    def failed(self, endpoint: Endpoint) -> None:
        """Leave ``endpoint`` if it is the current one: many calls may see the same failure.

        Without a lock, which a signal handler could wait for: each caller puts the same one in its place.
        """
        at = self._at
        if self.all[at] == endpoint:
            self._at = (at + 1) % len(self.all)


def numeric(endpoint: Endpoint) -> list[Address] | None:
    """Return the address if the host is one already, else None."""
    try:
        return _resolve(endpoint, socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None


def look_up(endpoint: Endpoint, done: Callable[[list[Address] | Exception], None]) -> None:
    """Ask the resolver from a thread of its own, since nothing can interrupt it; ``done`` is called there."""

    def work() -> None:
        try:
            found: list[Address] | Exception = _resolve(endpoint, 0)
        except (OSError, UnicodeError) as error:
            found = error
        done(found)

    threading.Thread(target=work, name="recipes-resolve", daemon=True).start()


def addresses(endpoint: Endpoint, timeout_s: float) -> list[Address]:
    """Return the addresses of ``endpoint`` within ``timeout_s``, or raise OSError."""
    found: list[Address] | Exception | None = numeric(endpoint)
    if found is None:
        answer: queue.Queue[list[Address] | Exception] = queue.Queue()  # not Simple: a signal may hang that
        look_up(endpoint, answer.put)
        try:
            found = answer.get(timeout=max(timeout_s, 0))
        except queue.Empty:
            raise TimeoutError("the name was not resolved in time") from None
    if isinstance(found, Exception):
        raise OSError(f"the name cannot be resolved: {found}")
    return found


def tune(sock: socket.socket) -> None:
    """Set what every connection needs: no delay, and probes that notice a dead peer within 20 s."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2)):
        with contextlib.suppress(AttributeError, OSError):  # not every system has them
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def forget_unsent(sock: Any) -> None:
    """Have the kernel forget what it has not delivered when ``sock`` is closed, and reset the connection.

    Otherwise it goes on delivering for about a quarter of an hour, to a server that was cut off too.
    """
    with contextlib.suppress(OSError, ValueError):  # it is closed already; uvloop says it with the second
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _resolve(endpoint: Endpoint, flags: int) -> list[Address]:
    infos = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in infos]
