"""One session with a Memcached: its connections, of which each call has one for itself."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from recipes._contract.connection import OnEnd
from recipes._run.clock import boot_time
from recipes.errors import StoreError, StoreUnavailable
from recipes.stores._kit.cell import Drop
from recipes.stores._kit.queue import Command
from recipes.stores._kit.session import Session
from recipes.stores.addresses import Endpoint
from recipes.stores.memcached.acts import GREETING, Acts, Answer, Life, read
from recipes.stores.sockets import Conn, describe, dial

__all__ = ["MemcachedSession"]


class MemcachedSession(Session):
    """Carries out acts, each on a connection that is free, or on a new one."""

    parallel: ClassVar[bool] = True

    def __init__(self, label: str, endpoint: Endpoint, acts: Acts, on_end: OnEnd) -> None:
        super().__init__(label, on_end)
        self._endpoint, self._acts = endpoint, acts
        self._free: list[tuple[Conn, Life]] = []
        self._closed = False

    @property
    def pause_s(self) -> float:
        """After how long to look at what is listened to, which is nothing: one that waits takes again."""
        return 1.0

    def try_once(self, command: Command, until: float) -> Any:
        """Carry out a command before a moment of the boot clock, or raise."""
        deadline = time.monotonic() + until - boot_time()
        conn, life = self._unused() or self._connected(deadline, isinstance(command.op, Drop))
        asking = self._acts.of(command, life, boot_time())
        try:
            requests = next(asking)
            while True:
                requests = asking.send(self._exchanged(conn, requests, deadline))
        except StopIteration as done:
            self._give_back(conn, life)
            return done.value
        except StoreUnavailable as error:
            if not error.unsent:
                conn.reset()
                self._reset_free()
            else:
                self._give_back(conn, life)
            raise
        except BaseException:  # what was asked for may still arrive on it
            conn.reset()
            raise

    def _reset_free(self) -> None:
        """Try none of those that are free: each would go the way of the one that was silent."""
        while True:
            try:
                self._free.pop()[0].reset()
            except IndexError:
                return

    def close(self, within_s: float) -> None:
        """Close what is free; what is in use is closed when it is given back."""
        del within_s
        self._closed = True
        while True:
            try:
                self._free.pop()[0].close()
            except IndexError:  # none is left, or another thread took the last one
                return

    def _unused(self) -> tuple[Conn, Life] | None:
        while True:
            try:
                conn, life = self._free.pop()
            except IndexError:  # or another thread took the last one
                return None
            if not conn.stale():
                return conn, life
            conn.close()

    def _connected(self, deadline: float, frees: bool) -> tuple[Conn, Life]:
        try:
            conn = dial(self._endpoint, None, deadline, lambda: self._closed and not frees)
        except OSError as error:
            raise StoreUnavailable(self.label, describe(error), unsent=True) from error
        try:
            answers = self._exchanged(conn, GREETING, deadline)
            return conn, Life.of(self.label, answers, boot_time())
        except StoreUnavailable as error:
            conn.reset()
            raise StoreUnavailable(self.label, error.detail, unsent=True) from error
        except BaseException:
            conn.reset()
            raise

    def _give_back(self, conn: Conn, life: Life) -> None:
        self._free.append((conn, life))
        if self._closed:
            self.close(0.0)

    def _exchanged(self, conn: Conn, requests: Any, deadline: float) -> list[Answer]:
        """Send requests and return the answer to each."""
        answers: list[Answer] = []
        try:
            if requests:
                conn.send(b"".join(requests), deadline)
            received = b""
            while len(answers) < len(requests):
                found = read(received, self.label) if received else None
                if found is not None:
                    answers.append(found[0])
                    received = received[found[1] :]
                elif data := conn.receive(deadline):
                    received += data
                else:
                    raise ConnectionResetError("the server closed the connection")
        except StoreError:
            raise
        except OSError as error:
            raise StoreUnavailable(self.label, describe(error)) from error
        return answers
