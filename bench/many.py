"""Many waiters of one client, told what to do on standard input, line by line.

Run as ``python -m bench.many FACE URL`` with FACE "asyncio", "threads", "kazoo" (and its address), or
"plain-threads" and "plain-asyncio": a lock of the process alone, the floor of what one client can do:
``join NAME COUNT APART AT_ONCE`` has so many wait for one lock (APART 1: each for a lock of its own,
``NAME-0`` and so on; not with kazoo), some at a time, and answers when all stand in the queue; ``trace``
has Python count its memory from now on; ``spans END HOLD`` waits
until END (nanoseconds of CLOCK_MONOTONIC) while each holds for HOLD seconds and comes again, and
answers who held when; ``size`` tells memory, threads and connections.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import Any

import recipes
from recipes.events import Transition, subscribe

QUEUE_WITHIN_S = 300.0


def session_s(url: str) -> int:
    """Return a long session timeout; where restarts have a grace, at most as long as that."""
    return 20 if url.startswith(("redis:", "postgresql:", "mysql:")) else 60


class Book:
    """What all waiters of this process note."""

    def __init__(self) -> None:
        self.hold_s = 0.0
        self.end = 1 << 62
        self.spans: list[tuple[int, int, int]] = []
        self.queued = 0
        self.wanted = 0
        self.all_queued = threading.Event()
        self.deaf = subscribe(self.told)

    def expect(self, count: int) -> None:
        """So many more are to stand in the queue."""
        self.wanted += count
        self.all_queued.clear()

    def told(self, transition: Transition) -> None:
        """Count who stands in the queue."""
        self.queued += transition.event == "lock.queued"
        if self.queued >= self.wanted:
            self.all_queued.set()

    def begin(self, end: int, hold_s: float) -> None:
        """Listen no more: it would be measured as well."""
        self.deaf()
        self.hold_s, self.end = hold_s, end

    def wait(self) -> str:
        """Wait until all stand in the queue."""
        assert not self.wanted or self.all_queued.wait(QUEUE_WITHIN_S), (
            f"{self.queued} of {self.wanted} stand in the queue"
        )
        return "joined"


class Threads:
    """Waiters that are threads."""

    def __init__(self, url: str) -> None:
        self.client = recipes.connect(url, session_timeout=session_s(url)).open()
        self.book = Book()

    def join(self, name: str, count: int, *, apart: bool, at_once: int) -> str:
        """Have threads wait."""
        for number in range(count):
            lock = f"{name}-{number}" if apart else name
            self.book.expect(1)
            threading.Thread(target=self.wait, args=(lock, number), daemon=True).start()
            if number % at_once == at_once - 1:
                self.book.wait()
        return self.book.wait()

    def lock(self, name: str) -> Callable[[], AbstractContextManager[object]]:
        """Return what acquires."""
        return self.client.lock(name).acquire

    def wait(self, name: str, number: int) -> None:
        """Come again and again."""
        acquire = self.lock(name)
        try:
            while time.monotonic_ns() < self.book.end:
                with acquire():
                    got = time.monotonic_ns()
                    time.sleep(self.book.hold_s)
                    self.book.spans.append((got, time.monotonic_ns(), number))
        except (recipes.ClientClosed, recipes.LockLost):  # sent home, perhaps while it released
            return

    def spans(self, end: int, hold_s: float) -> list[tuple[int, int, int]]:
        """Let them hold until END."""
        self.book.begin(end, hold_s)
        time.sleep(max(0.0, (end - time.monotonic_ns()) / 1e9))
        return list(self.book.spans)

    def close(self) -> None:
        """Send everybody home."""
        self.client.close()


class Kazoo(Threads):
    """Waiters that are threads, by kazoo."""

    def __init__(self, address: str) -> None:
        from kazoo.client import KazooClient  # noqa: PLC0415

        self.kazoo = KazooClient(address, timeout=60)
        self.kazoo.start()
        self.book = Book()

    def join(self, name: str, count: int, *, apart: bool, at_once: int) -> str:
        """Have threads wait."""
        path = f"/bench/{name}"
        for _ in range(count):
            threading.Thread(target=self.kazoo.Lock(path).acquire, daemon=True).start()
        for _ in range(int(QUEUE_WITHIN_S * 10)):  # nobody tells who stands in kazoo's queue
            if len(self.kazoo.get_children(path)) > count:  # beside the holder
                return "joined"
            time.sleep(0.1)
        raise AssertionError("all should stand in the queue")

    def close(self) -> None:
        os._exit(0)


class Fair:
    """A lock for threads, in order of arrival."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._held = False
        self.waiting: deque[threading.Lock] = deque()

    def __enter__(self) -> None:
        with self._changing:
            if not self._held:
                self._held = True
                return
            mine = threading.Lock()
            mine.acquire()
            self.waiting.append(mine)
        mine.acquire()

    def __exit__(self, *_: object) -> None:
        with self._changing:
            if self.waiting:
                self.waiting.popleft().release()
            else:
                self._held = False


class PlainThreads(Threads):
    """Waiters that are threads, by a lock of the process."""

    def __init__(self) -> None:
        self.book = Book()
        self.fair = Fair()

    def lock(self, name: str) -> Callable[[], AbstractContextManager[object]]:
        """Return what acquires."""
        return lambda: self.fair

    def join(self, name: str, count: int, *, apart: bool, at_once: int) -> str:
        """Have threads wait."""
        self.fair.__enter__()
        for number in range(count):
            threading.Thread(target=self.wait, args=(name, number), daemon=True).start()
        while len(self.fair.waiting) < count:
            time.sleep(0.001)
        return "joined"

    def spans(self, end: int, hold_s: float) -> list[tuple[int, int, int]]:
        """Let them hold until END."""
        self.book.hold_s = hold_s
        self.fair.__exit__()
        return super().spans(end, hold_s)

    def close(self) -> None:
        """They go home by themselves."""


class Tasks:
    """Waiters that are tasks."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.book = Book()
        self.tasks: list[asyncio.Task[None]] = []
        self.client: Any = None

    async def open(self) -> None:
        """Connect."""
        self.client = await recipes.connect_async(self.url, session_timeout=session_s(self.url)).open()

    async def join(self, name: str, count: int, *, apart: bool, at_once: int) -> str:
        """Have tasks wait."""
        for number in range(count):
            lock = self.client.lock(f"{name}-{number}" if apart else name)
            self.book.expect(1)
            self.tasks.append(asyncio.create_task(self.wait(lock, number)))
            if number % at_once == at_once - 1:
                await asyncio.to_thread(self.book.wait)
        return await asyncio.to_thread(self.book.wait)

    async def wait(self, lock: Any, number: int) -> None:
        """Come again and again."""
        acquire = self.acquire_of(lock)
        while time.monotonic_ns() < self.book.end:
            async with acquire():
                got = time.monotonic_ns()
                await asyncio.sleep(self.book.hold_s)
                self.book.spans.append((got, time.monotonic_ns(), number))

    def acquire_of(self, lock: Any) -> Callable[[], AbstractAsyncContextManager[object]]:
        """Return what acquires."""
        found: Callable[[], AbstractAsyncContextManager[object]] = lock.acquire
        return found

    async def spans(self, end: int, hold_s: float) -> list[tuple[int, int, int]]:
        """Let them hold until END."""
        self.book.begin(end, hold_s)
        await asyncio.sleep(max(0.0, (end - time.monotonic_ns()) / 1e9))
        return list(self.book.spans)

    async def close(self) -> None:
        """Send everybody home."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.client.close()


class PlainTasks(Tasks):
    """Waiters that are tasks, by a lock of their loop."""

    async def open(self) -> None:
        """Make the lock."""
        self.plain = asyncio.Lock()

    async def join(self, name: str, count: int, *, apart: bool, at_once: int) -> str:
        """Have tasks wait."""
        await self.plain.acquire()
        self.tasks += [asyncio.create_task(self.wait(self.plain, number)) for number in range(count)]
        await asyncio.sleep(0.1)  # each has had its turn
        return "joined"

    def acquire_of(self, lock: Any) -> Callable[[], AbstractAsyncContextManager[object]]:
        """Return what acquires."""
        return lambda: self.plain

    async def spans(self, end: int, hold_s: float) -> list[tuple[int, int, int]]:
        """Let them hold until END."""
        self.book.hold_s = hold_s
        self.plain.release()
        return await super().spans(end, hold_s)

    async def close(self) -> None:
        """Send everybody home."""
        await asyncio.gather(*self.tasks)


def size() -> dict[str, float]:
    """Return memory (KiB), threads and connections of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    links = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    inodes = {link[8:-1] for link in links if link.startswith("socket:")}
    tables = [Path(f"/proc/self/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    tcp = {line.split()[9] for table in tables for line in table}
    return {
        "kib": int(fields["VmRSS"].split()[0]),
        "live_kib": tracemalloc.get_traced_memory()[0] / 1024,
        "threads": int(fields["Threads"]),
        "connections": len(inodes & tcp),
    }


def serve(api: str, url: str) -> None:
    """Do what the lines say, with threads."""
    many = Kazoo(url) if api == "kazoo" else PlainThreads() if api == "plain-threads" else Threads(url)
    _say("hello")
    for line in sys.stdin:
        match line.split():
            case ["join", name, count, apart, at_once]:
                _say(many.join(name, int(count), apart=apart == "1", at_once=int(at_once)))
            case ["spans", end, hold]:
                _say(many.spans(int(end), float(hold)))
            case ["trace"]:
                tracemalloc.start()
            case ["size"]:
                _say(size())
    many.close()


async def serve_async(api: str, url: str) -> None:
    """Same as `serve`, with tasks."""
    many = PlainTasks(url) if api == "plain-asyncio" else Tasks(url)
    await many.open()
    _say("hello")
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["join", name, count, apart, at_once]:
                _say(await many.join(name, int(count), apart=apart == "1", at_once=int(at_once)))
            case ["spans", end, hold]:
                _say(await many.spans(int(end), float(hold)))
            case ["trace"]:
                tracemalloc.start()
            case ["size"]:
                _say(size())
    await many.close()


def _say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1].endswith("asyncio"):
        asyncio.run(serve_async(*sys.argv[1:]))
    else:
        serve(sys.argv[1], sys.argv[2])
