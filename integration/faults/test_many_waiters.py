"""Fault 30: a thousand waiters and more on one lock: in order, one at a time, without a herd."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from integration import servers
from integration.faults.actors import Actor, AsyncActor
from integration.faults.labs import Lab
from recipes._run.clock import boot_time

FEW, CLIENTS = 400, 10  # a short queue is read whole, and asks less
MANY = {"blocking": 1000, "asyncio": 1500}
SESSION_S = 120.0
REQUESTS_PER_HAND_OVER = 9
"""Most are asked of etcd: one deletes, the next checks, and whoever moves up reads, twice if its watch began
behind that; the rest begin and end watches. On a slow machine several go before one looks: that is less.
"""
KIB_PER_WAITER = 250
PATIENCE_S = 300


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("no_periodic_reading")
def test_fault_30_a_thousand_waiters(lab: Lab) -> None:
    few = hand_over(lab, "few", FEW)
    before = resident_kib()
    many = hand_over(lab, "many", MANY[lab.api], lambda: resident_kib() - before)
    lab.figure(f"{few:.2f} requests a hand-over with {FEW} waiters, {many:.2f} with {MANY[lab.api]}")
    assert many <= REQUESTS_PER_HAND_OVER
    assert many <= few * 2 + 0.5, "it grows with how many wait"  # L4; how many ask at once varies


def hand_over(lab: Lab, name: str, waiters: int, grown_kib: Callable[[], int] | None = None) -> float:
    """Have so many wait, hand the lock over from each to the next; returns the requests that took each."""
    options = {"session_timeout": SESSION_S, "request_timeout": 20.0, **lab.server.options}
    clients = [lab.actor(proxied=True, **options) for _ in range(CLIENTS)]
    holder = lab.actor(**options)
    for one in clients:
        one.acquire(f"{name} {id(one)}").release()  # what is made once is made now
    held = holder.acquire(name)
    order: list[int] = []
    began = boot_time()
    calls = [visit(clients[number % CLIENTS], name, order) for number in range(waiters)]
    lab.seen.wait("lock.queued", name=name, count=waiters, within_s=PATIENCE_S)
    joined_s = boot_time() - began
    if grown_kib is not None:
        each_kib = grown_kib() / waiters
        lab.figure(f"{waiters} joined in {joined_s:.1f} s, {each_kib:.0f} KiB each")
        assert each_kib <= KIB_PER_WAITER
    with lab.proxy.counting() as counts:
        began = boot_time()
        assert held.release()
        for call in calls:
            call.result(PATIENCE_S)
        took_s = boot_time() - began
        assert servers.eventually(lambda: not lab.contenders(), PATIENCE_S)
    lab.figure(f"{waiters} hand-overs in {took_s:.1f} s, {1000 * took_s / waiters:.2f} ms each")
    assert len(order) == waiters
    assert order == sorted(order)  # L3; and each once
    assert len(set(order)) == waiters
    for event in ("lock.requeued", "lock.lost", "session.lost"):
        assert not lab.seen.of(event)
    for one in (*clients, holder):
        one.close()
    return sum(counts.requests.values()) / waiters


def visit(one: Actor, name: str, order: list[int]) -> Future[Any]:
    """Acquire, note the token, and release, in a thread or task of its own."""
    lock = one.client.lock(name)

    def in_thread() -> None:
        with lock.acquire() as grant:
            order.append(grant.token)

    async def in_task() -> None:
        async with lock.acquire() as grant:
            order.append(grant.token)

    return one.start(in_task if isinstance(one, AsyncActor) else in_thread)


def resident_kib() -> int:
    """Return how much memory this process has, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
