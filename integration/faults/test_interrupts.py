"""Faults 26 and 27: calls are interrupted at random moments, and leave nothing behind."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import recipes
from integration import servers
from integration.faults.actors import Actor, AsyncActor
from integration.faults.labs import Lab, at_once
from integration.faults.storm import (
    LATE_S,
    STEADY,
    STORM_SESSION_S,
    Tally,
    Weather,
    churn,
    in_time,
    losing_replies,
)
from recipes._run.clock import boot_time
from tests.pace import Pace, taking

BY_TIMEOUT, BY_CANCELLATION, BY_SIGNAL = 100, 150, 300  # timeouts: of each API
STARTS = 50
CREW = 4
SOON_S = 5


@pytest.fixture
def seed() -> str:
    """Return the seed of a storm, printed if the test fails; RECIPES_TEST_SEED repeats one."""
    chosen = os.environ.get("RECIPES_TEST_SEED") or os.urandom(4).hex()
    print(f"RECIPES_TEST_SEED={chosen}")
    return chosen


@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_26_27_five_hundred_interruptions(lab: Lab, seed: str) -> None:
    lab.session_s = STORM_SESSION_S
    with Pace() as pace, churn(lab, seed), losing_replies(lab, seed) as lost:
        blocking, tasks = (lab.actor(proxied=True, api=api) for api in ("blocking", "asyncio"))
        assert isinstance(tasks, AsyncActor)
        script = lab.worker("shot", "calls", BY_SIGNAL, seed, proxied=True)
        wanted = (BY_TIMEOUT, BY_TIMEOUT, BY_CANCELLATION)
        timed, timed_tasks, cancelled = (Tally(count, pace) for count in wanted)
        side_by_side(
            *(partial(expire, blocking, timed, Weather((seed, "threads", n)), n) for n in range(CREW)),
            lambda: tasks.run(storm(tasks, timed_tasks, expire_task, seed)),
            lambda: tasks.run(storm(tasks, cancelled, cancel_task, seed)),
        )
        shot = json.loads(script.next_line(180))

    tallies = {"timeouts": timed, "timeouts of tasks": timed_tasks, "cancellations": cancelled}
    for what, tally in tallies.items():
        lab.figure(f"{tally.interrupted} {what}, {1000 * tally.worst_s:.0f} ms late at most")
        assert in_time(tally.lateness)
    lab.figure(f"{shot['interrupted']} SIGINTs, {1000 * shot['worst_s']:.0f} ms late at most; {shot}")
    lab.figure(f"{lost()} replies to creates lost")
    assert in_time(shot)
    assert shot["strays"] == 0  # what an interrupted call was granted, nobody holds
    assert shot["swallowed"] == 0
    assert shot["settled"]
    assert sum(tally.interrupted for tally in tallies.values()) + shot["interrupted"] >= 500
    assert lost() >= 5
    for one in (blocking, tasks):
        assert servers.eventually(lambda one=one: one.client.pending_cleanups == 0, SOON_S)
        assert one.client.grants == []
    assert lab.contenders_become(0), lab.contenders()  # L5, with every session alive
    for one in (blocking, tasks):
        assert one.acquire("busy", timeout=5).release()
    assert script.ask("go on") is True


def side_by_side(*works: Callable[[], None]) -> None:
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(250)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


def expire(one: Actor, tally: Tally, weather: Weather, number: int) -> None:
    while tally.more():
        assert one.acquire(f"{STEADY}-{number}").release()  # connected: what follows is sent
        lock = weather.lock(one.client)
        timeout_s = weather.moment_s()
        due = boot_time() + timeout_s
        try:
            grant = one.call(lock.acquire, timeout=timeout_s)
        except recipes.LockTimeout:
            tally.note_interrupted(due)
        else:
            tally.note_granted()
            assert one.call(grant.release)


async def storm(one: Actor, tally: Tally, strike: Callable[..., Any], seed: str) -> None:
    async with asyncio.TaskGroup() as crew:
        for number in range(CREW):
            name = f"{strike.__name__} {number}"
            crew.create_task(keep_striking(one.client, tally, strike, Weather((seed, name)), name))


async def keep_striking(
    client: Any, tally: Tally, strike: Callable[..., Any], weather: Weather, name: str
) -> None:
    while tally.more():
        connected = await client.lock(f"{STEADY}-{name}").acquire(timeout=20)  # what follows is sent
        assert await connected.release()
        grant = await strike(weather.lock(client), tally, weather)
        if grant is not None:
            tally.note_granted()
            assert await grant.release()


async def expire_task(lock: Any, tally: Tally, weather: Weather) -> Any:
    timeout_s = weather.moment_s()
    due = boot_time() + timeout_s
    try:
        return await lock.acquire(timeout=timeout_s)
    except recipes.LockTimeout:
        tally.note_interrupted(due)


async def cancel_task(lock: Any, tally: Tally, weather: Weather) -> Any:
    async def acquire() -> Any:
        return await lock.acquire()

    task = asyncio.create_task(acquire())
    await asyncio.wait({task}, timeout=weather.moment_s())
    struck_at = boot_time()
    task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        tally.note_interrupted(struck_at)


@pytest.mark.parametrize("lab", ["blocking"], indirect=True)
def test_fault_27_signals_while_the_session_starts(lab: Lab, seed: str) -> None:
    before = servers.sessions(lab.server)
    script = lab.worker("shot", "starts", STARTS, seed)
    shot = json.loads(script.next_line(180))
    lab.figure(f"{shot}")
    assert in_time(shot)
    assert (shot["strays"], shot["doubled"], shot["left"]) == (0, 0, 0)
    assert lab.contenders() == []
    assert servers.eventually(lambda: not servers.sessions(lab.server) - before, lab.failover_s + 20)
    script.tell("go on")


@at_once()
def test_fault_26_a_call_cut_off_from_the_store_is_cancelled_at_once(lab: Lab) -> None:
    held = lab.actor().acquire(lab.name)
    one = lab.actor(proxied=True, request_timeout=5)
    waiting = one.start_acquire(lab.name)
    lab.seen.wait("lock.queued", name=lab.name)
    lab.proxy.blackhole()
    began = boot_time()
    with taking(LATE_S if isinstance(one, AsyncActor) else SOON_S):
        if isinstance(one, AsyncActor):
            one.run(cancel_acquire())
        else:
            one.call(one.client.close)
        with pytest.raises((concurrent.futures.CancelledError, recipes.ClientClosed)) as ended:
            waiting.result(2 * SOON_S)
        lab.figure(f"{ended.type.__name__} after {boot_time() - began:.2f} s")
    lab.proxy.heal()
    assert lab.contenders_become(1)
    assert held.verify()


async def cancel_acquire() -> None:
    mine = asyncio.current_task()
    (waiting,) = [task for task in asyncio.all_tasks() if task is not mine and "_awaited" in repr(task)]
    waiting.cancel()
