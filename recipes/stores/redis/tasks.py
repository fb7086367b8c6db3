"""The asyncio way to Redis: the same steps as the blocking one, awaited, on one loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

import redis
import redis.asyncio

from recipes._contract.connection import AsyncConnection, Mailbox, OnEnd, Request
from recipes._run.clock import boot_time
from recipes.errors import StoreDenied, StoreUnavailable
from recipes.stores.addresses import Endpoint
from recipes.stores.credentials import Asker
from recipes.stores.redis.places import Address, One
from recipes.stores.redis.requests import Listen, Run, Sure
from recipes.stores.redis.resp import CLOSED, INCOMPLETE, Replies, packed
from recipes.stores.redis.wire import (
    Dial,
    Exchange,
    Hear,
    Pause,
    Settings,
    Step,
    Steps,
    Wire,
    Words,
    key_of,
    login_of,
)
from recipes.stores.sockets import readable
from recipes.stores.streams import connect, told

__all__ = ["AsyncRedisConnection"]

T = TypeVar("T")
CLOSE_WITHIN_S = 0.9
MOST_AT_ONCE = 32
"""Each request has a connection while it is under way: of many to a server so many at once, by their kind."""
READ = 65_536


class _Streams(asyncio.StreamReaderProtocol):
    """asyncio's own, which shows its transport.

    Attributes:
        rests: Nothing is asked.
        unasked: Something came while it did.
    """

    transport: Any = None
    rests = unasked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.unasked = self.unasked or self.rests
        super().data_received(data)


class _Link(redis.asyncio.Connection):
    """One connection to one server; ``deadline`` is of the loop's clock."""

    def __init__(self, step: Dial, deadline: float) -> None:
        self.address, self.not_before_us, self.used_at, self.hears = step.address, 0, boot_time(), 0
        self._dialing = Endpoint(*step.address), step.access.encryption, deadline
        self._transport: Any = None
        self._streams: _Streams | None = None
        self._replies = Replies()
        host, port = step.address
        super().__init__(host=host, port=port, socket_timeout=None, **login_of(step.access))
        self.driver_info = self.lib_name = self.lib_version = None  # two more round trips

    async def _connect(self) -> None:
        if self._transport is not None:
            raise OSError("the connection was lost")  # redis-py would make another
        endpoint, context, deadline = self._dialing
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        self._streams = streams = _Streams(reader, loop=loop)
        await connect(endpoint, context, streams, deadline)
        self._transport = streams.transport
        self._reader = reader
        self._writer = asyncio.StreamWriter(self._transport, streams, reader, loop)

    async def exchange(self, commands: Sequence[Words], replies: int) -> list[Any]:
        """Send commands together and read so many replies."""
        assert self._streams is not None, "it should be connected"
        self._streams.rests = False
        self._transport.write(packed(commands))
        found = [await self._reply() for _ in range(replies)]
        self._streams.rests = True
        return found

    async def hear(self) -> Any:
        """Return what comes unasked."""
        return await self._reply()

    def good(self) -> bool:
        """Whether nothing came unasked, read by the loop or not yet, and not its end."""
        if self._transport is None or self._transport.is_closing() or self._replies:
            return False
        if self._streams is None or self._streams.unasked:
            return False
        return not readable(self._transport.get_extra_info("socket").fileno())

    def hang_up(self) -> None:
        """Close it; what uses it finds its end."""
        self.close()

    def close(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()
        self._reader = self._writer = None

    async def _reply(self) -> Any:
        while (reply := self._replies.take()) is INCOMPLETE:
            data = await self._reader.read(READ) if self._reader is not None else b""
            if not data:
                raise OSError(CLOSED)
            self._replies.feed(data)
        return reply


class AsyncRedisConnection(AsyncConnection):
    """An ``AsyncConnection`` to Redis, for one event loop; the arguments are those of ``RedisConnection``."""

    def __init__(self, settings: Settings, on_end: OnEnd) -> None:
        del on_end
        self._settings = settings
        self._wire = Wire(settings)
        self._listener: asyncio.Task[None] | None = None
        self._lines: dict[tuple[str, Address | None], asyncio.Semaphore] = {}  # by kind, and by server

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Return the reply, or raise; within ``timeout_s`` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        if not isinstance(request, Listen):
            if self._wire.closed:
                raise StoreUnavailable(self._settings.label, "this connection is closed", unsent=True)
            if isinstance(request, Sure) and request.bell and self._listener is None:
                self._wire.channel = request.bell
                await self._subscribe(deadline)
            elif self._listener is not None and self._listener.done():  # somebody ended it
                self._listen(None)
        until = boot_time() + timeout_s
        turns = self._turns(request)
        if turns is None:
            return await self._drive(self._wire.carry_out(request, until), deadline)
        try:
            async with asyncio.timeout_at(deadline if turns.locked() else None):
                await turns.acquire()
        except TimeoutError:
            late = "earlier requests take too long"
            raise StoreUnavailable(self._settings.label, late, unsent=True) from None
        try:
            return await self._drive(self._wire.carry_out(request, until), deadline)
        finally:
            turns.release()

    def _turns(self, request: Request[Any]) -> asyncio.Semaphore | None:
        """Return in which line a request waits for a connection; None: there are few of its sort."""
        match request:
            case Sure(grants=True):
                kind, part = "grant", request.parts[-1]
            case Run():
                kind, part = ("join" if request.words[0] == "join" else "other"), request
            case _:
                return None
        place = self._settings.place
        line = kind, None if isinstance(place, One) else place.known(key_of(part))
        if line not in self._lines:
            self._lines[line] = asyncio.Semaphore(MOST_AT_ONCE)
        return self._lines[line]

    def forget(self, mailbox: Mailbox) -> None:
        """End the watches of ``mailbox``; never blocks, never raises."""
        self._wire.bells.forget(mailbox)

    def for_another_loop(self) -> None:
        """Return None: this connection works in its own loop only."""

    async def close(self) -> None:
        """Let go of the sockets and the task, within a second; never raises."""
        self._wire.close()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener], timeout=CLOSE_WITHIN_S)

    async def _subscribe(self, deadline: float) -> None:
        """Subscribe, before anything is asked, and have a task listen; of two at once the first stays."""
        link = await self._drive(self._wire.subscribed(), deadline)
        if self._listener is not None or self._wire.closed:
            link.close()
        else:
            self._listen(link)

    def _listen(self, link: Any) -> None:
        hearing = self._drive(self._wire.listen(link), None)
        start = asyncio.get_running_loop().create_task
        self._listener = Context().run(start, hearing, name="recipes-listener")  # as `AsyncRuntime` does

    async def _drive(self, steps: Steps[Any], deadline: float | None) -> Any:
        """Take the steps; without a deadline each has as long as the listener's silence."""
        reply: Any = None
        try:
            step = next(steps)
            while True:
                now = asyncio.get_running_loop().time()
                try:
                    reply = await self._take(step, deadline or now + self._settings.silence_s)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(reply)
        except StopIteration as done:
            return done.value
        finally:
            steps.close()

    async def _take(self, step: Step, deadline: float) -> Any:
        match step:
            case Exchange():
                replies = len(step.commands) if step.replies is None else step.replies
                try:
                    async with asyncio.timeout_at(deadline):
                        return await step.link.exchange(step.commands, replies)
                except TimeoutError:
                    raise TimeoutError("no answer in time") from None
            case Hear():
                try:
                    async with asyncio.timeout(step.within_s):
                        return await step.link.hear()
                except TimeoutError:
                    return None
            case Dial():
                return await self._dial(step, deadline)
            case Pause():
                return await asyncio.sleep(step.for_s)
            case _:
                raise AssertionError(f"{step!r} should be a step of the wire")

    async def _dial(self, step: Dial, deadline: float) -> _Link:
        link = _Link(step, deadline)
        step.links.add(link)
        try:
            async with asyncio.timeout_at(deadline):
                credentials = step.access.credentials
                if credentials is not None:
                    link.username = credentials.username
                    link.password = await _asked(credentials.asker, self._settings.label)
                elif step.access.asker is not None and not step.access.awaits:
                    link.credential_provider = await _asked(step.access.asker, self._settings.label)
                await link.connect()  # type: ignore[no-untyped-call]
        except TimeoutError as error:
            link.close()
            raise TimeoutError("no answer in time") from error
        except BaseException:
            link.close()
            raise
        return link


async def _asked(asker: Asker[T], label: str) -> T:
    found: T | StoreDenied = await told(partial(asker.ask, label))
    if isinstance(found, StoreDenied):
        raise found
    return found
