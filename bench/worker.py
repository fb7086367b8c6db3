"""A contender in a process of its own, told what to do on its standard input, line by line.

Run as ``python -m bench.worker KIND ADDRESS``; ``go/contender.go`` and ``java/Contender.java`` take
the same lines: ``use NAME SIDE`` (ready), ``cycles COUNT PAUSE`` (the nanoseconds of each acquire
and release, each after a pause of nanoseconds), ``contend START END HOLD`` (in nanoseconds of
CLOCK_MONOTONIC: come again and again until END; from when to when each grant was held, as pairs).
Answers are JSON, one line each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from bench import takers, takers_async

now = time.monotonic_ns
Spans = list[tuple[int, int]]


def cycles(take: takers.Take, count: int, pause_ns: int) -> list[int]:
    """Acquire and release, nobody else there."""
    took = []
    for _ in range(count):
        if pause_ns:
            time.sleep(pause_ns / 1e9)
        began = now()
        take()()
        took.append(now() - began)
    return took


def contend(take: takers.Take, start: int, end: int, hold_ns: int) -> Spans:
    """Acquire, hold and release, again and again."""
    spans: Spans = []
    _sleep_until(start)
    while now() < end:
        release = take()
        got = now()
        if hold_ns:
            time.sleep(hold_ns / 1e9)
        spans.append((got, now()))
        release()
    return spans


async def cycles_async(take: takers_async.Take, count: int, pause_ns: int) -> list[int]:
    """Same as `cycles`, but awaits."""
    took = []
    for _ in range(count):
        if pause_ns:
            await asyncio.sleep(pause_ns / 1e9)
        began = now()
        release = await take()
        await release()
        took.append(now() - began)
    return took


async def contend_async(take: takers_async.Take, start: int, end: int, hold_ns: int) -> Spans:
    """Same as `contend`, but awaits."""
    spans: Spans = []
    await asyncio.sleep((start - now()) / 1e9)
    while now() < end:
        release = await take()
        got = now()
        if hold_ns:
            await asyncio.sleep(hold_ns / 1e9)
        spans.append((got, now()))
        await release()
    return spans


def serve(kind: str, address: str) -> None:
    """Do what the lines say, until there are no more."""
    taker = takers.KINDS[kind](address)
    take: Any = None
    _say("hello")
    for line in sys.stdin:
        match line.split():
            case ["use", name, side]:
                take = taker.use(name, side)
                _say("ready")
            case ["cycles", count, pause]:
                _say(cycles(take, int(count), int(pause)))
            case ["contend", start, end, hold]:
                _say(contend(take, int(start), int(end), int(hold)))
    taker.close()


async def serve_async(kind: str, address: str) -> None:
    """Same as `serve`; the loop goes on between two lines, so that sessions are renewed."""
    taker = takers_async.KINDS[kind](address)
    await taker.open()
    take: Any = None
    _say("hello")
    while line := await asyncio.to_thread(sys.stdin.readline):
        match line.split():
            case ["use", name, side]:
                take = taker.use(name, side)
                _say("ready")
            case ["cycles", count, pause]:
                _say(await cycles_async(take, int(count), int(pause)))
            case ["contend", start, end, hold]:
                _say(await contend_async(take, int(start), int(end), int(hold)))
    await taker.close()


def _sleep_until(instant: int) -> None:
    if (left := instant - now()) > 0:
        time.sleep(left / 1e9)


def _say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1] in takers.KINDS:
        serve(sys.argv[1], sys.argv[2])
    else:
        asyncio.run(serve_async(sys.argv[1], sys.argv[2]))
