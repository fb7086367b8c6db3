"""Both APIs of the connection, driven alike, and a server for them."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recipes._contract.connection import Mailbox, Request
from recipes._contract.wakeups import Event
from recipes.errors import StoreUnavailable
from recipes.stores.zookeeper.blocking import KazooConnection
from recipes.stores.zookeeper.requests import Connect
from recipes.stores.zookeeper.tasks import AsyncKazooConnection
from tests.stores.zookeeper.fake_server import FakeZooKeeper
from tests.threads import until_ended

WITHIN_S = 20.0


class Box:
    """A mailbox."""

    __hash__ = None  # type: ignore[assignment] # a mailbox need not be hashable

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def post(self, event: Event) -> None:
        self.events.put(event)

    def next(self) -> Event:
        return self.events.get(timeout=WITHIN_S)

    def empty(self) -> bool:
        return self.events.empty()


class Driver:
    """One connection, asked from a thread."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.session = connection._session

    def ask(self, request: Request[Any], timeout_s: float = WITHIN_S) -> Any:
        return self.connection.ask(request, timeout_s)

    def forget(self, mailbox: Mailbox) -> None:
        self.connection.forget(mailbox)

    def close(self) -> None:
        self.connection.close()


class AsyncDriver(Driver):
    """One asyncio connection, asked from outside its loop."""

    def __init__(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(connection)
        self.loop = loop

    def ask(self, request: Request[Any], timeout_s: float = WITHIN_S) -> Any:
        asked = self.connection.ask(request, timeout_s)
        return asyncio.run_coroutine_threadsafe(asked, self.loop).result(timeout_s + WITHIN_S)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.connection.close(), self.loop).result(WITHIN_S)


class Connections:
    """Makes connections of one API, and closes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None) -> None:
        self.loop = loop
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.made: list[Driver] = []

    def __call__(self, hosts: str, *, on_end: Callable[[str], None] | None = None, **options: Any) -> Driver:
        kind: Any = KazooConnection if self.loop is None else AsyncKazooConnection
        connection = kind(hosts, on_end=on_end or self.ended.put, kazoo_options=options)
        driver = Driver(connection) if self.loop is None else AsyncDriver(connection, self.loop)
        self.made.append(driver)
        return driver

    def connected(self, hosts: str, **options: Any) -> Driver:
        driver = self(hosts, **options)
        driver.ask(Connect(12.0))
        return driver


@pytest.fixture(params=["blocking", "asyncio"])
def connections(request: pytest.FixtureRequest) -> Iterator[Connections]:
    loop = None if request.param == "blocking" else asyncio.new_event_loop()
    thread = None if loop is None else threading.Thread(target=loop.run_forever)
    if thread is not None:
        thread.start()
    connections = Connections(loop)
    yield connections
    for driver in connections.made:
        driver.close()
    if loop is not None and thread is not None:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(WITHIN_S)
        loop.close()


@pytest.fixture
def server() -> Iterator[FakeZooKeeper]:
    with FakeZooKeeper() as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """See that every thread ends after the test, and every descriptor with it."""
    before = descriptors()
    yield
    let_go()
    assert len(descriptors()) <= len(before)


def descriptors() -> set[tuple[str, str]]:
    """What is open: the number of each, and what it leads to."""
    opened = set()
    for number in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # what lists them
            opened.add((number.name, str(number.readlink())))
    return opened


def let_go(within_s: float = 10.0) -> None:
    until_ended("recipes-kazoo", within_s)


def answered(connection: Driver, request: Request[Any]) -> Any:
    """Ask until the connection is there again: no round of connecting that fails is waited out."""
    while True:
        try:
            return connection.ask(request)
        except StoreUnavailable:
            continue
