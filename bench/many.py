"""Many waiters of one client, told what to do on standard input, line by line.

Run as ``python -m bench.many FACE URL`` with FACE "asyncio", "threads", or "kazoo" (and its address):
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

    def wait(self, name: str, number: int) -> None:
        """Come again and again."""
        lock = self.client.lock(name)
        try:
            while time.monotonic_ns() < self.book.end:
                with lock.acquire():
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
        while time.monotonic_ns() < self.book.end:
            async with lock.acquire():
                got = time.monotonic_ns()
                await asyncio.sleep(self.book.hold_s)
                self.book.spans.append((got, time.monotonic_ns(), number))

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
    many = Kazoo(url) if api == "kazoo" else Threads(url)
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


async def serve_async(url: str) -> None:
    """Same as `serve`, with tasks."""
    many = Tasks(url)
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
    if sys.argv[1] == "asyncio":
        asyncio.run(serve_async(sys.argv[2]))
    else:
        serve(sys.argv[1], sys.argv[2])
