"""What stands between a client and its store.

Its backend, connections and mailboxes, each with a tap on it.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from recipes._contract.backend import Backend
from recipes._contract.connection import Batch, Request
from recipes._run.clock import boot_time
from recipes._run.tasks import AsyncRuntime
from recipes.errors import StoreUnavailable
from recipes.stores.etcd.requests import Post
from recipes.stores.redis.requests import Command, Listen, Run, Sure
from recipes.stores.sql import requests as sql
from tests.contract.tap import PATIENCE_S, RECEIVE, Act, Tap

__all__ = ["install"]

SENT_TOGETHER = (Batch, Sure)
LISTEN = (Listen, sql.Listen)
LOSING = (Act.LOSE_REPLY, Act.LOSE_LAST_REPLY, Act.LOSE_LAST_REQUESTS)


def install(client: Any, tap: Tap) -> None:
    """Put ``tap`` between a client that was not used yet and its store."""
    runtime = client._runtime
    runtime.backend = TappedBackend(runtime.backend, tap)
    make = AsyncTappedMailbox if isinstance(runtime, AsyncRuntime) else TappedMailbox
    begin = runtime.call

    def call(*args: Any, **options: Any) -> Any:
        begun = begin(*args, **options)
        begun.mailbox = make(begun.mailbox, tap)
        return begun

    runtime.call = call


def behind_in_thread() -> bool:
    """Whether this is the client's keepalive loop or cleaner, and no caller."""
    return threading.current_thread().name.startswith("recipes-")


def behind_in_task() -> bool:
    """Same as `behind_in_thread`, but for tasks."""
    task = asyncio.current_task()
    return task is not None and task.get_name().startswith("recipes-")


def interrupt_me(tap: Tap) -> None:
    """Interrupt the current thread, here and now."""
    tap.struck_at = boot_time()
    raise KeyboardInterrupt


async def cancel_me(tap: Tap) -> None:
    """Have the current task cancelled, here and now."""
    tap.struck_at = boot_time()
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


def names_of(request: Request[Any]) -> tuple[str, ...]:
    """Return the names of the primitive requests in ``request``."""
    if isinstance(request, SENT_TOGETHER):
        return tuple(name for part in request.parts for name in names_of(part))
    if isinstance(request, Run | Command):
        return (str(request.words[0]),)
    if isinstance(request, sql.Transact):
        return (getattr(request.act, "func", request.act).__name__,)
    operation = getattr(request, "op", None)  # in memory, a request is an operation
    name = type(operation or request).__name__
    return (request.path if isinstance(request, Post) else name,)


def lost() -> StoreUnavailable:
    """Return the error of an answer that did not come."""
    return StoreUnavailable("the tap", "lost on the way")


def unanswered(request: Request[Any]) -> Any:
    """Return, or raise, what a connection says when no answer comes."""
    if isinstance(request, SENT_TOGETHER):
        return tuple(lost() for _ in request.parts)
    raise lost()


def shortened(request: Request[Any], act: Act | None) -> Request[Any]:
    """Return what of ``request`` reaches the store."""
    if act is Act.LOSE_LAST_REQUESTS and isinstance(request, SENT_TOGETHER):
        return replace(request, parts=request.parts[:1])
    return request


def thinned(request: Request[Any], reply: Any, act: Act | None) -> Any:
    """Return what of ``reply`` reaches the client."""
    if not isinstance(request, SENT_TOGETHER):
        if act in LOSING:
            raise lost()
        return reply
    if act is Act.LOSE_REPLY:
        return unanswered(request)
    if act is Act.LOSE_LAST_REPLY:
        return (*reply[:-1], lost())
    if act is Act.LOSE_LAST_REQUESTS:
        return (*reply, *(lost() for _ in request.parts[1:]))
    return reply


class TappedBackend(Backend):
    """A backend whose connections are tapped."""

    def __init__(self, backend: Backend, tap: Tap) -> None:
        self._backend = backend
        self._tap = tap
        self.label = backend.label
        self.guarantees = backend.guarantees

    def protocol(self) -> Any:
        return self._backend.protocol()

    def connection(self, on_end: Any) -> Any:
        return TappedConnection(self._backend.connection(on_end), self._tap)

    def async_connection(self, on_end: Any) -> Any:
        return AsyncTappedConnection(self._backend.async_connection(on_end), self._tap)


class TappedConnection:
    """A blocking connection that is tapped."""

    def __init__(self, connection: Any, tap: Tap) -> None:
        self.inner = connection
        self._tap = tap
        self.forget, self.close = connection.forget, connection.close

    def ask(self, request: Any, timeout_s: float) -> Any:
        if isinstance(request, LISTEN):  # nothing is sent
            return self.inner.ask(request, timeout_s)
        names = names_of(request)
        act = self._tap.step(names, behind_in_thread())
        if self._tap.silences(names):
            self._tap.wait_healed(timeout_s)
            return unanswered(request)
        if act is Act.INTERRUPT_BEFORE:
            interrupt_me(self._tap)
        if act is Act.LAND_LATE:
            self._tap.keep(lambda: self.inner.ask(request, PATIENCE_S))
        if act in (Act.LOSE_REQUEST, Act.LAND_LATE):
            return unanswered(request)
        try:
            reply = self.inner.ask(shortened(request, act), timeout_s)
        except Exception:
            thinned(request, (), act)
            raise
        if act is Act.HOLD_REPLY:
            self._tap.wait_let_go()
        if act is Act.INTERRUPT_AFTER:
            interrupt_me(self._tap)
        return thinned(request, reply, act)


class AsyncTappedConnection:
    """An asyncio connection that is tapped."""

    def __init__(self, connection: Any, tap: Tap) -> None:
        self.inner = connection
        self._tap = tap
        self.forget, self.close, self.for_another_loop = (
            connection.forget,
            connection.close,
            connection.for_another_loop,
        )

    async def ask(self, request: Any, timeout_s: float) -> Any:
        if isinstance(request, LISTEN):
            return await self.inner.ask(request, timeout_s)
        loop = asyncio.get_running_loop()
        names = names_of(request)
        act = self._tap.step(names, behind_in_task())
        if self._tap.silences(names):
            await loop.run_in_executor(None, self._tap.wait_healed, timeout_s)
            return unanswered(request)
        if act is Act.INTERRUPT_BEFORE:
            await cancel_me(self._tap)
        if act is Act.LAND_LATE:
            asked = self.inner.ask
            self._tap.keep(
                lambda: asyncio.run_coroutine_threadsafe(asked(request, PATIENCE_S), loop).result(PATIENCE_S)
            )
        if act in (Act.LOSE_REQUEST, Act.LAND_LATE):
            return unanswered(request)
        try:
            reply = await self.inner.ask(shortened(request, act), timeout_s)
        except Exception:
            thinned(request, (), act)
            raise
        if act is Act.HOLD_REPLY:
            await loop.run_in_executor(None, self._tap.wait_let_go)
        if act is Act.INTERRUPT_AFTER:
            await cancel_me(self._tap)
        return thinned(request, reply, act)


class TappedMailbox:
    """A blocking call's mailbox that is tapped."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap
        self._has_waited = False

    def post(self, event: Any) -> None:
        self._tap.deliver(event, self._inner.post)

    def clear(self) -> None:
        self._inner.clear()

    def _parked(self, behind: bool) -> AbstractContextManager[None]:
        first, self._has_waited = not self._has_waited, True
        return self._tap.parked(behind, first=first)

    def receive(self, at_most_s: float | None) -> Any:
        behind = behind_in_thread()
        act = self._tap.step((RECEIVE,), behind)
        if act is Act.INTERRUPT_BEFORE:
            interrupt_me(self._tap)
        with self._parked(behind):
            event = self._inner.receive(at_most_s)
        if act is Act.INTERRUPT_AFTER:
            interrupt_me(self._tap)
        return event


class AsyncTappedMailbox(TappedMailbox):
    """An asyncio call's mailbox that is tapped."""

    async def receive(self, at_most_s: float | None) -> Any:
        behind = behind_in_task()
        act = self._tap.step((RECEIVE,), behind)
        if act is Act.INTERRUPT_BEFORE:
            await cancel_me(self._tap)
        with self._parked(behind):
            event = await self._inner.receive(at_most_s)
        if act is Act.INTERRUPT_AFTER:
            await cancel_me(self._tap)
        return event
