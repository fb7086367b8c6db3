"""Clients of both APIs in the same words, so that a fault is written down once.

An `Actor` is one client. Its calls block the test, whatever the API: those of an
asyncio client run in a loop of its own, on a thread of its own. What needs no I/O
(``held``, ``lost.is_set()``) is read from the grant itself.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import recipes

__all__ = ["APIS", "Actor", "AsyncActor", "BlockingActor", "Held", "actor"]

T = TypeVar("T")
APIS = ("blocking", "asyncio")
PATIENCE_S = 60  # no call of a test takes that long, and a hang is a failure


class Held:
    """A grant, and how to call it."""

    def __init__(self, owner: Actor, grant: Any) -> None:
        self.owner = owner
        self.grant = grant

    @property
    def token(self) -> int:
        """Return its fencing token."""
        token: int = self.grant.token
        return token

    @property
    def held(self) -> bool:
        """Whether it is held, by the local clock."""
        held: bool = self.grant.held
        return held

    def release(self) -> bool:
        """Release it, and return what that returned."""
        return bool(self.owner.call(self.grant.release))

    def verify(self) -> bool:
        """Ask the store."""
        return bool(self.owner.call(self.grant.verify))

    def wait_lost(self, timeout_s: float) -> bool:
        """Wait until it is lost."""
        return bool(self.owner.call(self.grant.lost.wait, timeout_s))

    @property
    def deadline(self) -> float:
        """Return the boot time at which its session is given up, as its clock counts now."""
        deadline: float = self.grant._hold.session.clock.deadline
        return deadline


class Actor(ABC):
    """One client, and how to call it."""

    client: Any

    @abstractmethod
    def call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call ``method`` as its API wants it, and return what it returned."""

    @abstractmethod
    def start(self, method: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        """Call ``method`` in a thread or task of its own, and return its future."""

    def open(self) -> None:
        """Start the session."""
        self.call(self.client.open)

    def acquire(self, name: str, *, timeout: float | None = PATIENCE_S) -> Held:
        """Acquire a lock, and return the grant."""
        return Held(self, self.call(self.client.lock(name).acquire, timeout=timeout))

    def start_acquire(self, name: str, *, timeout: float | None = PATIENCE_S) -> Future[Held]:
        """Acquire a lock in a thread or task of its own, which is then its owner."""
        found: Future[Held] = Future()

        def tell(future: Future[Any]) -> None:
            error = CancelledError() if future.cancelled() else future.exception()
            if error is None:
                found.set_result(Held(self, future.result()))
            else:
                found.set_exception(error)

        self.start(self.client.lock(name).acquire, timeout=timeout).add_done_callback(tell)
        return found

    def try_acquire(self, name: str) -> Held | None:
        """Take a lock if it is free."""
        grant = self.call(self.client.lock(name).try_acquire)
        return None if grant is None else Held(self, grant)

    @abstractmethod
    def close(self) -> None:
        """Close the client, and end whatever runs it."""


class BlockingActor(Actor):
    """A blocking client."""

    def __init__(self, url: str, **options: Any) -> None:
        self.client = recipes.connect(url, **options)
        self._threads: list[threading.Thread] = []

    def call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return method(*args, **options)

    def start(self, method: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(method(*args, **options))
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=run, name="actor")
        thread.start()
        self._threads.append(thread)
        return future

    def close(self) -> None:
        self.client.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "closing a client should end its calls"


class AsyncActor(Actor):
    """An asyncio client, and the loop that it belongs to."""

    def __init__(self, url: str, **options: Any) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()), name="actor-loop")
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        self.client = recipes.connect_async(url, **options)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._ready.set()
        await self._over.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and return what it returned."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * PATIENCE_S)

    def call(self, method: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return self.run(_awaited(method, *args, **options))

    def start(self, method: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(_awaited(method, *args, **options), self._loop)

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        try:
            self.run(self.client.close())
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(PATIENCE_S)
            assert not self._thread.is_alive(), "closing a client should end its calls"


async def _awaited(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return await method(*args, **options)


def actor(api: str, url: str, **options: Any) -> Actor:
    """Return a client of that API; makes no connection yet."""
    return BlockingActor(url, **options) if api == "blocking" else AsyncActor(url, **options)
