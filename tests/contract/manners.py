"""Manners: what a client tells, leaves behind, and does in a forked child."""

from __future__ import annotations

import asyncio
import json
import operator
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

from recipes import ClientClosed
from recipes.events import EVENTS
from tests.contract.world import World, until
from tests.pace import NAPPER, taking

CYCLES = 100


class Manners:
    """How a client behaves towards its process."""

    def test_events_come_in_order_and_with_their_fields(self, world: World) -> None:
        a, b = world.client(), world.client()
        grant = a.acquire("x")
        waiting = b.queue_up("x")
        late = b.queue_up("x", timeout=3.0)
        late.error()
        a.release(grant)
        second = waiting.result()
        b.release(second)
        heard = world.heard
        assert heard.names(token=grant.token) == ["lock.acquired", "lock.released"]
        told = heard.names(name="x")
        assert told[:4] == ["lock.acquired", "lock.queued", "lock.queued", "lock.timeout"]
        assert sorted(told[4:6]) == ["lock.acquired", "lock.released"]  # here and there, at once
        assert told[6:] == ["lock.released"]
        positions = [1, 2] if world.store.has_queue else [1, 1]
        assert [queued.position for queued in heard.of("lock.queued")] == positions
        a.close()
        assert heard.names(session=None)[0] == "lock.acquired"
        assert len(heard.of("session.started")) == 2
        assert len(heard.of("session.closed")) == 1
        for transition in heard.of():
            fields = EVENTS[transition.event].fields
            assert set(fields) <= set(transition.fields()), transition

    def test_cycles_leave_nothing_behind(self, world: World) -> None:
        a, b = world.client(), world.client()

        def cycle() -> None:
            grant = a.acquire("x")
            waiting = b.acquiring("x")
            assert b.try_acquire("x") is None
            a.release(grant)
            b.release(waiting.result())

        for _ in range(5):
            cycle()
        threads, files, sessions = _footprint(world)
        spare = world.store.spare_threads
        most = threads + spare, files + world.store.spare_connections + spare, sessions
        for _ in range(CYCLES):
            cycle()
        assert a.wait_clean()
        assert b.wait_clean()
        assert until(lambda: all(map(operator.le, _footprint(world), most)), 5), (most, _footprint(world))
        assert world.store.everything() == []

    def test_a_closed_client_leaves_no_thread_and_no_file(self, world: World) -> None:
        self._use_and_close(world)  # whatever loads at first use, has
        threads, files = _threads(), _files()
        for _ in range(3):
            self._use_and_close(world)
        assert until(lambda: _threads() <= threads and _files() <= files, 5), (_threads(), threads, files)

    def _use_and_close(self, world: World) -> None:
        client = world.client()
        client.acquire("x")
        client.close()

    def test_closing_under_many_waiters_leaves_no_thread(self, world: World) -> None:
        self._use_and_close(world)
        threads = _threads()
        for n in range(5):
            holder, client = world.client(), world.client()
            holder.acquire(f"x{n}")
            with client.tap.one_more(20):
                waiting = [client.acquiring(f"x{n}", timeout=None) for _ in range(20)]
            client.close()
            assert {type(running.error()) for running in waiting} == {ClientClosed}
            holder.close()
        assert until(lambda: _threads() <= threads, 5), threading.enumerate()

    def test_a_forked_child_holds_nothing_and_touches_nothing(self, world: World) -> None:
        parent = world.client()
        grant = parent.acquire("x")
        saw = _in_child(lambda: _child_sees(world, parent, grant))
        assert saw == "held=False reason=forked released=False taken=False other=True"
        assert grant.held
        assert parent.verify(grant)
        assert until(lambda: len(world.store.everything()) == 1, 5)
        assert parent.release(grant)

    def test_leaving_without_a_close_does_not_hang(self, world: World) -> None:
        if world.store.url().startswith("memory"):
            return  # another process is another store
        script = world.store.prelude + (BLOCKING if not world.api.is_async else ASYNCIO)
        with taking(30):  # a busy machine takes ten to start it
            subprocess.run(
                [sys.executable, "-c", script, world.store.url()],
                input=json.dumps(dict(world.store.options)).encode(),
                check=True,
                timeout=60,
                cwd=Path(__file__).parents[2],
            )


BLOCKING = """
import json, sys, recipes
client = recipes.connect(sys.argv[1], session_timeout=6, **json.load(sys.stdin))
client.lock("x").acquire(timeout=5)
"""
ASYNCIO = """
import asyncio, json, sys, recipes
async def main():
    client = recipes.connect_async(sys.argv[1], session_timeout=6, **json.load(sys.stdin))
    await client.lock("x").acquire(timeout=5)
asyncio.run(main())
"""


def _child_sees(world: World, parent: Any, grant: Any) -> str:
    held, reason = grant.held, grant.lost_reason
    lock, other = parent.client.lock("x"), parent.client.lock("other")
    if not world.api.is_async:
        released = grant.release()
        taken, free = lock.try_acquire(), other.acquire(timeout=5).held
        parent.client.close()
    else:

        async def look() -> tuple[bool, Any, bool]:
            released = await grant.release()
            taken, free = await lock.try_acquire(), (await other.acquire(timeout=5)).held
            await parent.client.close()
            return released, taken, free

        released, taken, free = asyncio.run(look())
    return f"held={held} reason={reason} released={released} taken={taken is not None} other={free}"


def _in_child(script: Any) -> str:
    """Return what ``script`` returns in a forked child, or how it failed."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
        child = os.fork()
    if child == 0:
        try:
            said = str(script())
        except BaseException as error:
            said = f"raised {error!r}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def _threads() -> int:
    return sum(thread.name != NAPPER for thread in threading.enumerate())


def _files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _footprint(world: World) -> tuple[int, int, int]:
    sessions = len(world.store.sessions())
    return _threads(), _files(), sessions
