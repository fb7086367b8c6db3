"""What one uncontended acquire and release costs, in what does not depend on the machine.

``python -m integration.cost FACE URL`` prints it as JSON (see `Cost`). In a process of its own: nothing
else traces there, and nothing else runs.
"""

from __future__ import annotations

import _socket
import asyncio
import gc
import json
import os
import select
import subprocess
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

import recipes
import recipes.events

__all__ = ["Cost", "measured"]

WARM, CYCLES, WAITERS = 10, 20, 200
WITHIN_S = 180
SETTLE_S = 0.3
ASKED = ("poll", "recv", "recv_into", "send", "sendall")
OF = (_socket.socket, select.epoll, type(select.poll()))
"""Methods, written in C, that call the system: they touch the connection, or wait for it."""

Cycle = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Cost:
    """Of one acquire and release.

    Attributes:
        instructions: Of Python, in the thread (the loop) of the caller; the fewest of several.
        system_calls: Which touch the connection or wait for it, in all threads; the fewest of several.
        peak_bytes: Memory that was needed at once; the least of several.
        left_blocks: Blocks of memory that each cycle leaves behind.
        waiter_bytes: Memory that each contender takes while it waits (only asyncio).
    """

    instructions: int
    system_calls: int
    peak_bytes: int
    left_blocks: float
    waiter_bytes: int


def measured(api: str, url: str) -> Cost:
    """Measure in a fresh process."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    program = [sys.executable, "-m", "integration.cost", api, url]
    done = subprocess.run(program, env=clean, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    return Cost(**json.loads(done.stdout))


class Tracing:
    """Counts Python's instructions in this thread, and calls of the system in all that start from now on."""

    def __init__(self) -> None:
        self.instructions = 0
        self.calls: Counter[str] = Counter()
        self._counting = False
        threading.setprofile(self._called)

    async def instructions_of(self, cycle: Cycle) -> int:
        """Return how many instructions a cycle takes."""
        before = self.instructions
        sys.settrace(self._stepped)
        try:
            await cycle()
        finally:
            sys.settrace(None)
        return self.instructions - before

    async def system_calls_of(self, cycle: Cycle) -> int:
        """Return how many calls of the system a cycle takes."""
        self.calls.clear()
        self._counting = True
        sys.setprofile(self._called)
        try:
            await cycle()
        finally:
            sys.setprofile(None)
            self._counting = False
        return self.calls.total()

    def _stepped(self, frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self.instructions += event == "opcode"
        return self._stepped

    def _called(self, _: FrameType, event: str, what: Any) -> None:
        if self._counting and event == "c_call" and what.__name__ in ASKED and isinstance(what.__self__, OF):
            self.calls[what.__name__] += 1


async def cost(tracing: Tracing, cycle: Cycle) -> Cost:
    """Measure a cycle in every respect; the memory of waiters is added by who can wait."""
    for _ in range(WARM):
        await cycle()
    instructions = [await tracing.instructions_of(cycle) for _ in range(CYCLES)]
    system_calls = [await tracing.system_calls_of(cycle) for _ in range(CYCLES)]
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(CYCLES):
        await cycle()
    gc.collect()
    left = (sys.getallocatedblocks() - blocks) / CYCLES
    peaks = [await _peak_of(cycle) for _ in range(CYCLES)]
    return Cost(min(instructions), min(system_calls), min(peaks), left, 0)


async def _peak_of(cycle: Cycle) -> int:
    tracemalloc.start()
    await cycle()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    await cycle()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


def blocking(url: str) -> Cost:
    """Measure the blocking API."""
    tracing = Tracing()
    with recipes.connect(url, session_timeout=60) as client:
        lock = client.lock("cost")

        async def cycle() -> None:
            lock.acquire().release()

        coroutine = cost(tracing, cycle)
        try:
            coroutine.send(None)
        except StopIteration as stop:
            found: Cost = stop.value
            return found
    raise AssertionError("nothing here should wait for a loop")


async def tasks(url: str) -> Cost:
    """Measure the asyncio API."""
    tracing = Tracing()
    async with recipes.connect_async(url, session_timeout=60) as client:
        lock = client.lock("cost")

        async def cycle() -> None:
            await (await lock.acquire()).release()

        found = await cost(tracing, cycle)
        return Cost(**{**asdict(found), "waiter_bytes": await _waiter_bytes(client, lock)})


async def _waiter_bytes(client: recipes.AsyncClient, lock: recipes.AsyncLock) -> int:
    """Return what each of many takes that wait for one lock, once all stand in the queue."""
    queued = asyncio.Semaphore(0)
    grant = await lock.acquire()

    async def wait() -> None:
        await client.lock("cost").acquire()

    async def queue_up(count: int) -> list[asyncio.Task[None]]:
        stop = recipes.events.subscribe(
            lambda transition: queued.release() if transition.event == "lock.queued" else None
        )
        waiting = [asyncio.create_task(wait()) for _ in range(count)]
        for _ in waiting:
            await queued.acquire()
        stop()
        await asyncio.sleep(SETTLE_S)  # for the watches, of which nobody tells
        gc.collect()
        return waiting

    waiting = await queue_up(WARM)
    tracemalloc.start()
    waiting += await queue_up(WAITERS)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await grant.release()
    return grown // WAITERS


if __name__ == "__main__":
    made = blocking(sys.argv[2]) if sys.argv[1] == "blocking" else asyncio.run(tasks(sys.argv[2]))
    print(json.dumps(asdict(made)))
