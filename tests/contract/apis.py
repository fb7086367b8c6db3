"""The two APIs behind one: a test is written once, in straight lines, and runs on both.

``face.do(lambda: lock.acquire(timeout=1))`` calls the blocking API in the test's own
thread. On asyncio it awaits the same in a loop that runs in the background, in a task
that belongs to the test's thread, so that owners mean the same: one thread, one owner.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import uvloop

import recipes
from recipes._run.clock import boot_time

PATIENCE_S = 30.0


class Running:
    """Something under way beside the test."""

    def __init__(self, future: concurrent.futures.Future[Any]) -> None:
        self._future = future
        self.ended_at = 0.0
        future.add_done_callback(self._note_end)

    def _note_end(self, _future: concurrent.futures.Future[Any]) -> None:
        self.ended_at = boot_time()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def result(self, within_s: float = 30.0) -> Any:
        """Return what came of it, or raise that; AssertionError if it takes longer."""
        assert self.wait(within_s), f"still under way after {within_s} s"
        return self._future.result()

    def error(self, within_s: float = 30.0) -> BaseException | None:
        """Return what it raised."""
        try:
            self.result(within_s)
        except BaseException as error:
            return error
        return None

    def wait(self, within_s: float) -> bool:
        """Wait for its end; whether it came."""
        done, _ = concurrent.futures.wait([self._future], within_s)
        return bool(done)


class Api(ABC):
    """One of the two APIs."""

    name: ClassVar[str]
    is_async: ClassVar[bool]
    interrupts: ClassVar[type[BaseException]]

    @abstractmethod
    def connect(self, url: str, **options: Any) -> Any:
        """Return a client, not opened."""

    @abstractmethod
    def do(self, call: Callable[[], Any]) -> Any:
        """Call, as this thread; await what comes of it if that is awaitable."""

    @abstractmethod
    def start(self, call: Callable[[], Any]) -> Running:
        """Same as `do`, but beside the test, as an owner of its own."""

    @abstractmethod
    def enter(self, acquiring: Callable[[], Any], body: Callable[[Any], Any]) -> Any:
        """Run ``body(grant)`` in a ``with`` statement of what ``acquiring`` returns."""

    @abstractmethod
    def close(self) -> None:
        """End what the API itself started, and see that nothing else is left."""

    @staticmethod
    def spawn(script: Callable[[], Any]) -> Running:
        """Run a piece of a test in a thread of its own."""
        return _in_thread(script)


def _in_thread(call: Callable[[], Any]) -> Running:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="test-beside", daemon=True).start()
    return Running(future)


class BlockingApi(Api):
    """Threads."""

    name = "blocking"
    is_async = False
    interrupts = KeyboardInterrupt

    def connect(self, url: str, **options: Any) -> Any:
        return recipes.connect(url, **options)

    def do(self, call: Callable[[], Any]) -> Any:
        return call()

    def start(self, call: Callable[[], Any]) -> Running:
        return _in_thread(call)

    def enter(self, acquiring: Callable[[], Any], body: Callable[[Any], Any]) -> Any:
        with acquiring() as grant:
            return body(grant)

    def close(self) -> None:
        """Nothing to end: each thread of a test ends with what it does."""


class AsyncApi(Api):
    """Tasks, in a loop of this face's own."""

    name = "asyncio"
    is_async = True
    interrupts = asyncio.CancelledError
    new_loop: Callable[[], asyncio.AbstractEventLoop] = staticmethod(asyncio.new_event_loop)

    def __init__(self) -> None:
        self._loop = self.new_loop()
        self._owners: dict[threading.Thread, _Owner] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def connect(self, url: str, **options: Any) -> Any:
        return recipes.connect_async(url, **options)

    def do(self, call: Callable[[], Any]) -> Any:
        owner = self._owners.get(threading.current_thread())
        if owner is None:
            owner = self._owners[threading.current_thread()] = _Owner(self._loop)
        return owner.do(call)

    def start(self, call: Callable[[], Any]) -> Running:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        async def run() -> None:
            try:
                result = await _awaited(call)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        asyncio.run_coroutine_threadsafe(run(), self._loop)
        return Running(future)

    def enter(self, acquiring: Callable[[], Any], body: Callable[[Any], Any]) -> Any:
        async def statement() -> Any:
            async with acquiring() as grant:
                return await asyncio.to_thread(body, grant)

        return self.do(statement)

    def close(self) -> None:
        async def end() -> set[str]:
            mine = {asyncio.current_task(), *(owner.task for owner in self._owners.values())}
            left = asyncio.all_tasks() - mine  # type: ignore[operator]
            if left:
                _, left = await asyncio.wait(left, timeout=2)
            for owner in self._owners.values():
                if owner.task is not None:
                    owner.task.cancel()
            await self._loop.shutdown_default_executor()
            return {repr(task) for task in left}

        left = asyncio.run_coroutine_threadsafe(end(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()
        assert not left, f"tasks left behind: {left}"


class UvloopApi(AsyncApi):
    """Tasks, in a loop of uvloop's."""

    name = "uvloop"
    new_loop = staticmethod(uvloop.new_event_loop)


class _Owner:
    """A task that does, one after the other, what one thread asks for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wanted: asyncio.Queue[tuple[Any, concurrent.futures.Future[Any]]] = asyncio.Queue()
        self.task: asyncio.Task[None] | None = None
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self.task = self._loop.create_task(self._serve(), name="test-owner")

    def do(self, call: Callable[[], Any]) -> Any:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._loop.call_soon_threadsafe(self._wanted.put_nowait, (call, future))
        return future.result(PATIENCE_S)

    async def _serve(self) -> None:
        while True:
            call, future = await self._wanted.get()
            try:
                result = await _awaited(call)
            except BaseException as error:
                assert self.task is not None
                self.task.uncancel()
                future.set_exception(error)
            else:
                future.set_result(result)


async def _awaited(call: Callable[[], Any]) -> Any:
    result = call()
    return await result if hasattr(result, "__await__") else result


APIS: dict[str, type[Api]] = {api.name: api for api in (BlockingApi, AsyncApi)}
