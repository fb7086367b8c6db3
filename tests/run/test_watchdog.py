"""What takes a grant back while the event loop is blocked."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from recipes._run import watchdog
from recipes.client import AsyncClient, Client
from recipes.errors import StoreUnavailable
from tests.run.doubles import FAST, SETTINGS, FaultyBackend
from tests.run.test_blocking import SOON_S
from tests.run.test_tasks import in_loop, until

pytestmark = pytest.mark.filterwarnings("ignore:a blocking client of memory:RuntimeWarning")
"""They block the loop on purpose."""


def watchdogs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "recipes-watchdog"]


def block_until_served(backend: FaultyBackend) -> int:
    """Block this thread, and with it its loop, until another client holds; returns its token."""
    with Client(backend, SETTINGS) as other:
        return other.lock("x").acquire(timeout=SOON_S).token


@in_loop
async def test_a_blocked_loop_loses_the_lock_and_is_told_later() -> None:
    backend = FaultyBackend()
    client = AsyncClient(backend, SETTINGS)
    grant = await client.lock("x", max_hold=1.0).acquire()
    others = await client.lock("y", max_hold=60).acquire()
    plain = await client.lock("z").acquire()
    assert len(watchdogs()) == 1
    assert block_until_served(backend) > grant.token
    assert not grant.held
    assert grant._hold.reason is None, "told by the keepalive loop, which could not run"
    assert await grant.lost.wait(SOON_S)
    assert client.session.state == "held"
    assert others.held
    assert plain.held
    await client.close()
    (thread,) = watchdogs() or [None]
    if thread is not None:
        await asyncio.to_thread(thread.join, SOON_S)
    assert watchdogs() == [], "nothing is left to watch over"


class AsyncioOnly(FaultyBackend):
    """A store without a blocking driver.

    Attributes:
        loops: The event loops in which a connection was made, by the threads that ran them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loops: dict[str, asyncio.AbstractEventLoop] = {}

    def check_api(self, *, asynchronous: bool) -> None:
        if not asynchronous:
            raise ValueError("it is for asyncio")

    def async_connection(self, on_end: Any) -> Any:
        self.loops[threading.current_thread().name] = asyncio.get_running_loop()
        return super().async_connection(on_end)


@in_loop
async def test_a_store_without_a_blocking_driver_is_asked_in_another_loop() -> None:
    backend = AsyncioOnly()
    async with AsyncClient(backend, SETTINGS) as client:
        grant = await client.lock("x", max_hold=1.0).acquire()
        plain = await client.lock("y").acquire()
        assert block_until_served(backend) > grant.token
        assert await grant.lost.wait(SOON_S)
        assert plain.held
        assert await plain.verify(), "the session goes on"
    own, beside = backend.loops["MainThread"], backend.loops["recipes-watchdog"]
    assert own is not beside
    await until(beside.is_closed)  # by its thread, which has more to do than to withdraw


@in_loop
async def test_a_loop_that_runs_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "GRACE_S", 3.0)  # also where the machine stands still
    backend = FaultyBackend()
    async with AsyncClient(backend, SETTINGS) as client:
        grant = await client.lock("x", max_hold=1.0).acquire()
        connections = len(backend.on_ends)
        (thread,) = watchdogs()
        assert await grant.lost.wait(SOON_S)
        await asyncio.to_thread(thread.join, SOON_S)
        assert not thread.is_alive()
        assert len(backend.on_ends) <= connections + 1, "it opened no session"
        again = await client.lock("x", max_hold=60).acquire()
        assert len(watchdogs()) == 1
        await again.release()


@in_loop
async def test_progress_and_a_store_that_is_away_have_it_look_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watchdog, "AGAIN_S", 0.05)
    backend, failed = FaultyBackend(), threading.Event()

    def away(request: Any) -> None:
        if threading.current_thread().name == "recipes-keepalive" and not failed.is_set():
            failed.set()
            raise StoreUnavailable("memory://", "cut")

    client = AsyncClient(backend, FAST)
    grant = await client.lock("x", max_hold=4.0).acquire()
    await asyncio.sleep(0.2)
    grant.progress()
    other = Client(backend, SETTINGS).open()
    backend.before = away
    assert other.lock("x").acquire(timeout=SOON_S).token > grant.token
    assert failed.is_set()
    assert "could not be withdrawn yet" in caplog.text
    await client.close()
    other.close()
