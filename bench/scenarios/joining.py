"""Joining a long queue, and what an unrelated write suffers beside those who do (etcd)."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import recipes
from bench.figures import summary
from bench.stage import Stage
from bench.tables import Plan, Table
from integration import servers
from integration.harness.etcd import encoded
from recipes.events import Transition, subscribe

__all__ = ["joining"]

LENGTHS = (10, 1000)
LONG = 10_000
JOINS, PUTS = 100, 300
JOINERS = 4


def joining(stage: Stage, plan: Plan) -> list[Table]:
    """Measure the join, and the put."""
    server = stage.server("etcd")
    assert isinstance(server, servers.Etcd)
    return [_joins(server, plan), _puts(server, plan)]


def _joins(server: servers.Etcd, plan: Plan) -> Table:
    took: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for length in LENGTHS:
        plant(server, f"join-{length}", length)
    for _ in range(plan.rounds):
        for length in LENGTHS:
            took[length] += asyncio.run(_join(server.url("bench"), f"join-{length}", plan.count(JOINS)))
    table = Table("joining", "etcd: joining a queue, from the call until the place in it is known")
    for length, found in took.items():
        table.add(f"join-{length}", summary(found), label=f"behind {length:,}")
    return table


async def _join(url: str, name: str, count: int) -> list[float]:
    """Join, and leave again, so often; in nanoseconds."""
    took = []
    queued = asyncio.Event()

    def told(transition: Transition) -> None:
        if transition.event == "lock.queued":
            took.append(time.perf_counter_ns() - began)
            queued.set()

    async with recipes.connect_async(url) as client:
        lock = client.lock(name)
        stop = subscribe(told)
        for _ in range(count):
            queued.clear()
            began = time.perf_counter_ns()
            joining_now = asyncio.create_task(_acquire(lock))
            await queued.wait()
            joining_now.cancel()
            await asyncio.gather(joining_now, return_exceptions=True)
            while client.pending_cleanups:  # noqa: ASYNC110 - nobody tells when it is tidy
                await asyncio.sleep(0.0005)
        stop()
    return took


async def _acquire(lock: recipes.AsyncLock) -> None:
    await lock.acquire()


def _puts(server: servers.Etcd, plan: Plan) -> Table:
    table = Table(
        "put-beside", f"etcd: an unrelated put, alone and beside {JOINERS} processes that join a queue"
    )
    lengths = [LENGTHS[0], LONG if plan.scale >= 1 else plan.count(LONG)]
    for length in lengths:
        plant(server, f"beside-{length}", length)
    took: dict[str, list[float]] = {}
    labels = {"alone": "alone"}
    for _ in range(plan.rounds):
        took.setdefault("alone", []).extend(_put(server, plan.count(PUTS)))
        for length in lengths:
            with joiners(server.url("bench"), f"beside-{length}", plan.processes(JOINERS)):
                took.setdefault(f"beside-{length}", []).extend(_put(server, plan.count(PUTS)))
                labels[f"beside-{length}"] = f"beside joiners of a queue of {length:,}"
    for who, found in took.items():
        table.add(who, summary(found), label=labels[who])
    table.notes.append(
        "Each joiner waits for 20 ms at most, joining included, leaves, and comes again at once. Beside the "
        "joiners of a queue of 10 one sees what the processes themselves take from the machine."
    )
    return table


def _put(server: servers.Etcd, count: int) -> list[float]:
    """Put so often, on one connection, with a pause between; in nanoseconds."""
    connection = http.client.HTTPConnection(server.host, server.port)
    body = json.dumps({"key": encoded("unrelated"), "value": encoded("x")})
    took = []
    for _ in range(count):
        began = time.perf_counter_ns()
        connection.request("POST", "/v3/kv/put", body)
        connection.getresponse().read()
        took.append(time.perf_counter_ns() - began)
        time.sleep(0.002)
    connection.close()
    return took


@contextmanager
def joiners(url: str, name: str, count: int) -> Iterator[None]:
    """Have processes join and leave, for the time of the block."""
    command = [sys.executable, "-m", "bench.joiner", url, name]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for one in running:
            assert one.stdout is not None
            assert one.stdout.readline(), "a joiner should say that it joined"
        yield
    finally:
        for one in running:
            one.communicate()


def plant(server: servers.Etcd, name: str, length: int) -> None:
    """Put contenders of a session that never ends, one after the other, as if they had queued."""
    lease = server.grant(3600)
    connection = http.client.HTTPConnection(server.host, server.port)
    for number in range(length):
        key = f"bench/{name}/W-{int(lease):x}-{number:08x}-0000-4000-8000-000000000000"
        body = json.dumps({"key": encoded(key), "value": "", "lease": lease})
        connection.request("POST", "/v3/kv/put", body)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == http.HTTPStatus.OK
    connection.close()
