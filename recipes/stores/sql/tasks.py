"""The asyncio way to a database: the same acts as the blocking one, by an engine of asyncio, on one loop.

What is done with a connection is done in a task of its own. A driver may wait for the server also when it is
cancelled, or when it closes a connection. So the caller leaves at once; the connection is ended behind it,
and with it the task.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.util import await_only

from recipes._contract.connection import AsyncConnection, Mailbox, OnEnd, Request
from recipes._run.clock import boot_time
from recipes.errors import StoreUnavailable
from recipes.stores.sql.ears import ears_of, hang_up, let_go
from recipes.stores.sql.meaning import connecting, is_ours, meaning
from recipes.stores.sql.requests import Listen, Transact
from recipes.stores.sql.settings import Settings
from recipes.stores.sql.wire import Progress, Wire

__all__ = ["AsyncSqlConnection"]

CLOSE_WITHIN_S = 0.4
"""So long each of the two steps of closing may take."""
CANCEL_WITHIN_S = 0.1
"""So long what is cancelled at the end of that may take to see it."""
LINGER_S = 0.3
"""So long what nobody waits for any more has to find that its connection ended; then it is cancelled."""
LISTEN_WITHIN_S = 2.0
"""So long the beginning of a session waits for the connection that listens; without it, it looks by time."""
RETRY_S = LOOK_S = 1.0
CLOSED = "this connection is closed"


class _Progress(Progress):
    """How far a request has come.

    Attributes:
        raw: The driver's connection that it uses.
    """

    __slots__ = ("raw",)

    def __init__(self) -> None:
        super().__init__()
        self.raw: Any = None


class AsyncSqlConnection(AsyncConnection):
    """An ``AsyncConnection`` to a database, for one event loop; made as a ``SqlConnection`` is."""

    def __init__(self, settings: Settings, on_end: OnEnd) -> None:
        del on_end
        self._settings = settings
        self._wire = Wire(settings)
        self._made: Any = None
        self._pooled: weakref.WeakSet[Any] = weakref.WeakSet()
        self._under_way: dict[asyncio.Task[Any], _Progress] = {}
        self._session, self._joins, self._others = (asyncio.Semaphore(most) for most in (1, 4, 4))
        self._listener: asyncio.Task[Any] | None = None
        self._closed = False

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        if isinstance(request, Listen):
            return self._wire.hearing.listen(request)
        assert isinstance(request, Transact), f"{request!r} should be a request to a database"
        if request.behind_s:
            self._expect_open()
            _ = self._start(self.ask(replace(request, behind_s=0.0), request.behind_s), _Progress())
            return None
        deadline = asyncio.get_running_loop().time() + timeout_s
        if request.channel and self._settings.listens and self._listener is None and not self._closed:
            await self._begin_to_listen(request.channel, min(LISTEN_WITHIN_S, timeout_s / 2))
        lane = self._session if request.session else self._joins if request.joins else self._others
        try:
            async with asyncio.timeout_at(deadline if lane.locked() else None):
                await lane.acquire()
        except TimeoutError:
            raise self._unavailable("earlier requests take too long") from None
        try:
            return await self._have(request, deadline - asyncio.get_running_loop().time())
        finally:
            lane.release()

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._wire.hearing.bells.forget(mailbox)

    def for_another_loop(self) -> None:
        """Return None: this connection works in its own loop only."""

    async def close(self) -> None:
        """Let go of the connections and the tasks, within a second; never raises."""
        if self._closed:
            return
        self._closed = True
        for task in list(self._under_way):
            self._end(task)
        await self._over(CLOSE_WITHIN_S)
        if self._made is not None and self._made is not self._settings.theirs:
            disposing = self._start(self._made.dispose(), _Progress())
            await self._over(CLOSE_WITHIN_S)
            if not disposing.done():  # the server does not answer
                for record in list(self._pooled):
                    hang_up(record.driver_connection)
        for task in self._under_way:
            task.cancel()
        await self._over(CANCEL_WITHIN_S)

    # What is under way.

    async def _have(self, request: Transact, within_s: float) -> Any:
        """Have a request carried out; leave when the time is over, and it sends nothing more."""
        self._expect_open()
        progress = _Progress()
        task = self._start(self._carry_out(request, progress, boot_time() + within_s), progress)
        try:
            await asyncio.wait([task], timeout=max(0.0, within_s))
        finally:
            unsent = not progress.sent
            self._end(task)
        if task.done() and not task.cancelled():
            return task.result()
        self._expect_open(unsent=unsent)
        raise self._wire.late(progress, unsent=unsent)

    def _expect_open(self, *, unsent: bool = True) -> None:
        if self._closed:
            raise self._unavailable(CLOSED, unsent=unsent)

    def _start(self, what: Coroutine[Any, Any, Any], progress: _Progress) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(what, name="recipes-sql")
        self._under_way[task] = progress
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        del self._under_way[task]
        if not task.cancelled():
            task.exception()  # its caller may have left

    def _end(self, task: asyncio.Task[Any]) -> None:
        """Have a task end soon, and send nothing more; cancelled, a driver might ask the server first."""
        if task.done():
            return
        raw = self._under_way[task].raw
        if raw is None:
            task.cancel()
        else:
            hang_up(raw)
            asyncio.get_running_loop().call_later(LINGER_S, task.cancel)

    async def _over(self, within_s: float) -> None:
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=within_s)

    # On a connection.

    @property
    def _engine(self) -> Any:
        if self._made is None:
            self._made = self._settings.engine()
            if self._made is not self._settings.theirs:
                event.listen(self._made.sync_engine, "connect", lambda _, record: self._pooled.add(record))
        return self._made

    async def _carry_out(self, request: Transact, progress: _Progress, until: float) -> Any:
        try:
            with connecting(self._settings.label):
                connection = await self._engine.connect()
            try:
                return await connection.run_sync(self._transact, request, progress, until)
            finally:
                await connection.close()
        except Exception as error:
            if not is_ours(error):
                raise
            raise meaning(error, self._settings.label, sent=progress.sent) from error

    def _transact(self, connection: Connection, request: Transact, progress: _Progress, until: float) -> Any:
        progress.raw = connection.connection.driver_connection
        return self._wire.transact(connection, request, progress, until, _pause)

    # What is notified.

    async def _begin_to_listen(self, channel: str, within_s: float) -> None:
        """Listen, before anything is asked, if that is possible in this time."""
        self._wire.hearing.channel = channel
        progress, ready = _Progress(), asyncio.Event()
        self._listener = self._start(self._listen(progress, ready), progress)
        try:
            async with asyncio.timeout(within_s):
                await ready.wait()
        except TimeoutError:
            pass  # it goes on trying

    async def _listen(self, progress: _Progress, ready: asyncio.Event) -> None:
        """Listen, on one connection after the other, until closed."""
        while True:
            try:
                await self._hear(progress, ready)
            except Exception as error:
                if not is_ours(error):
                    raise
            finally:
                progress.raw = None
                self._wire.hearing.lost()
                ready.set()
            if self._closed:
                return
            await asyncio.sleep(max(RETRY_S, self._wire.hearing.rest_s))

    async def _hear(self, progress: _Progress, ready: asyncio.Event) -> None:
        hearing = self._wire.hearing
        connection = await self._engine.execution_options(isolation_level="AUTOCOMMIT").connect()
        try:
            progress.raw = raw = await connection.run_sync(_apart)
            async with ears_of(raw, hearing.channel, hearing.hear) as deaf:
                hearing.connected()
                ready.set()
                while not (deaf.done() or self._closed or hearing.overdue):
                    await asyncio.wait([deaf], timeout=LOOK_S)
        finally:
            try:
                await connection.close()
            finally:
                let_go(progress.raw)

    def _unavailable(self, detail: str, *, unsent: bool = True) -> StoreUnavailable:
        return StoreUnavailable(self._settings.label, detail, unsent=unsent)


def _pause(for_s: float) -> None:
    await_only(asyncio.sleep(for_s))


def _apart(connection: Connection) -> Any:
    """Take a connection from the pool, whose connections are for acts; return the driver's."""
    raw = connection.connection.driver_connection
    connection.detach()
    return raw
