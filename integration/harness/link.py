"""One connection through the proxy: two pipes that know nothing of each other's troubles."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from enum import Enum, auto
from typing import Any, Literal

from integration.harness.wire import Wire

__all__ = ["CUT", "Cut", "Direction", "Gate", "Link", "Piece", "Policy"]

Direction = Literal["up", "down"]
"""``up`` is from client to server."""


class Cut(Enum):
    """Marks, among the pieces of one direction, where it ends."""

    EOF = auto()
    RESET = auto()


CUT = Cut.RESET
_LANDS_WITHIN_S = 10.0


class Gate:
    """Lets bytes pass, or holds them until it is opened again.

    Attributes:
        landed: Set once the other side has said something after it was sent what was held: it has read it.
    """

    def __init__(self) -> None:
        self.landed = threading.Event()
        self._open = asyncio.Event()
        self._open.set()

    def set(self, *, is_open: bool) -> None:
        """Let pass, or hold."""
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def passed(self) -> None:
        """Wait until it lets pass."""
        await self._open.wait()


Piece = bytes | Gate | Cut
"""What a pipe carries, in order: bytes, a gate to wait at, an end."""


class Policy(ABC):
    """What a link asks its proxy."""

    @abstractmethod
    def gate(self, direction: Direction) -> Gate:
        """Return the gate that holds back every connection."""

    @abstractmethod
    def delay_s(self) -> float:
        """Return by how much to delay what was read just now."""

    @abstractmethod
    def cross(self, link: Link, direction: Direction, data: bytes) -> Iterable[Piece]:
        """See what was read, and return the pieces to pass on."""


class Link:
    """A client's connection and the one to the server on its behalf.

    What one side sent before it went away still reaches the other, late if it was held:
    so does the network. Only ``run`` being cancelled cuts.
    """

    def __init__(self, policy: Policy, client: socket.socket, wire: Wire) -> None:
        self.policy = policy
        self.wire = wire
        self.muted = False
        self._late: Gate | None = None  # what was sent last was held there, and was not answered
        self._answered = asyncio.Event()
        self._orderly = False
        self._client = client
        self._server = socket.socket()
        self._server.setblocking(False)

    async def run(self, host: str, port: int) -> None:
        """Carry bytes until both sides are done, or the task is cancelled; ``close`` comes after."""
        loop = asyncio.get_running_loop()
        try:
            await self.policy.gate("up").passed()  # as a SYN would be held
            await loop.sock_connect(self._server, (host, port))
            for side in (self._client, self._server):
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await _all(
                self._pipe("up", self._client, self._server) + self._pipe("down", self._server, self._client)
            )
            self._orderly = True
        except (OSError, asyncio.CancelledError, _Reset):
            pass

    def close(self) -> None:
        """Close both connections: with a reset, unless both sides were done."""
        for side in (self._client, self._server):
            if not self._orderly:
                with contextlib.suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            side.close()

    def _pipe(
        self, direction: Direction, source: socket.socket, sink: socket.socket
    ) -> list[Coroutine[Any, Any, None]]:
        queue: Queue = asyncio.Queue()
        return [self._read(direction, source, queue), self._write(direction, sink, queue)]

    async def _read(self, direction: Direction, source: socket.socket, queue: Queue) -> None:
        """Take everything at once, so that no sender ever feels a fault as back-pressure."""
        loop = asyncio.get_running_loop()
        due = 0.0
        end = Cut.RESET
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, 65536):
                if direction == "down" and self._late is not None:
                    self._late.landed.set()
                    self._answered.set()
                due = max(due, loop.time() + self.policy.delay_s())
                for piece in self.policy.cross(self, direction, data):
                    queue.put_nowait((due, piece))
            end = Cut.EOF
        queue.put_nowait((max(due, loop.time() + self.policy.delay_s()), end))

    async def _write(self, direction: Direction, sink: socket.socket, queue: Queue) -> None:
        loop = asyncio.get_running_loop()
        held: Gate | None = None
        while True:
            due, piece = await queue.get()
            if (wait := due - loop.time()) > 0:
                await asyncio.sleep(wait)
            await self.policy.gate(direction).passed()
            if isinstance(piece, Gate):
                await piece.passed()
                held = piece
            elif piece is Cut.RESET:
                if self._late is not None:  # a reset would take away what the server has not read yet
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._answered.wait(), _LANDS_WITHIN_S)
                raise _Reset
            elif piece is Cut.EOF:
                with contextlib.suppress(OSError):
                    sink.shutdown(socket.SHUT_WR)
                return
            else:
                with contextlib.suppress(OSError):  # nobody there any more: the other pipe sees to the end
                    await loop.sock_sendall(sink, piece)
                if held is not None and direction == "up":
                    self._late, held = held, None


Queue = asyncio.Queue[tuple[float, Piece]]


class _Reset(Exception):
    """One side reset its connection, and all it had sent before was passed on."""


async def _all(parts: list[Coroutine[Any, Any, None]]) -> None:
    """Run ``parts`` side by side; the first that fails ends the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
