"""Calls that a cancellation, an interrupt or a fork cuts short leave no connection that is half used."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
import uvloop

from integration.harness.process import eventually
from recipes._contract.wakeups import Gone
from recipes.errors import StoreUnavailable
from recipes.stores.redis.blocking import RedisConnection
from recipes.stores.redis.requests import Command, Listen
from recipes.stores.redis.tasks import AsyncRedisConnection
from tests.stores.redis.fakes import BEGIN, GET, Box, Peer, Redis, settings_for, unexpected
from tests.stores.striking import struck
from tests.threads import refuse

DRIVER = str(Path(redis_py.__file__).parent)
OTHER = Command(("GET", "lock:b"), "lock:b")
pytestmark = pytest.mark.usefixtures("nothing_in_limbo")


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
@pytest.mark.parametrize("at", ["AUTH", "GET"])
def test_a_call_that_is_cancelled_closes_its_connection(new_loop: Any, at: str) -> None:
    arrived, ended = threading.Event(), threading.Event()

    def answer(peer: Peer, words: list[str]) -> Any:
        if at == "GET" and words[1] != "lock:b":
            return "own"
        arrived.set()
        assert peer.ended()
        ended.set()
        return "of the other"

    async def main(connection: AsyncRedisConnection) -> None:
        asking = asyncio.ensure_future(connection.ask(OTHER, 5.0))
        assert await asyncio.to_thread(arrived.wait, 5)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await asyncio.to_thread(ended.wait, 5)
        redis.answers.pop("AUTH", None)
        redis.answers["GET"] = lambda peer, words: words[1]
        assert await connection.ask(GET, 5.0) == b"lock:a"
        await connection.close()

    with Redis() as redis:
        redis.answers[at] = answer
        access = None
        if at == "AUTH":
            from recipes.stores.credentials import Credentials
            from recipes.stores.redis.access import Access

            access = Access(credentials=Credentials.given("redis", {"username": "me", "password": "pass"}))
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main(AsyncRedisConnection(settings_for(redis.port, access=access), unexpected)))


def test_without_a_thread_that_listens_nothing_is_sent_and_the_next_call_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Redis() as redis:
        connection = RedisConnection(settings_for(redis.port), unexpected)
        with monkeypatch.context() as patch:
            refuse(patch, "recipes-listener")
            with pytest.raises(StoreUnavailable, match="can't start new thread") as refused:
                connection.ask(BEGIN, 5.0)
            assert refused.value.unsent
        connection.ask(BEGIN, 5.0)
        assert eventually(lambda: list(connection._listeners) == ["now"], 5)
        connection.close()


@pytest.fixture
def echo() -> Iterator[Redis]:
    with Redis(GET=lambda peer, words: words[1]) as redis:
        yield redis


# What nobody got is closed as it is dropped, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fresh", [False, True], ids=["a free connection", "a new one"])
def test_a_call_that_is_interrupted_anywhere_leaves_no_reply_for_the_next(echo: Redis, fresh: bool) -> None:
    for at in range(1, 100_000):
        connection = RedisConnection(settings_for(echo.port), unexpected)
        if not fresh:
            assert connection.ask(OTHER, 5.0) == b"lock:b"
        hit = struck(lambda connection=connection: connection.ask(OTHER, 5.0), at, DRIVER)
        assert connection.ask(GET, 5.0) == b"lock:a"
        assert connection.ask(GET, 5.0) == b"lock:a"
        connection.close()
        if not hit:
            assert at > 20, "there is something to interrupt"
            break
    gc.collect()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_session_whose_beginning_is_interrupted_anywhere_can_begin(echo: Redis) -> None:
    for at in range(1, 100_000):
        connection = RedisConnection(settings_for(echo.port), unexpected)
        with contextlib.closing(connection):
            hit = struck(lambda connection=connection: connection.ask(BEGIN, 5.0), at, DRIVER)
            assert connection.ask(BEGIN, 5.0) == (b"OK",)
            box = Box()
            connection.ask(Listen(("a/1",), box), 5.0)
            while not echo.listening.empty():
                with contextlib.suppress(OSError):  # of two that listened at first only one stays
                    echo.listening.get().ring("a g1")
            assert box.events.get(timeout=5) == Gone("a/1")
        if not hit:
            break
    gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_neither_uses_nor_ends_the_connections_of_its_parent(echo: Redis) -> None:
    connection = RedisConnection(settings_for(echo.port), unexpected)
    connection.ask(BEGIN, 5.0)
    peer = echo.listening.get(timeout=5)
    connection.ask(GET, 5.0)
    made = echo.connections
    child = os.fork()
    if child == 0:
        try:
            connection.close()
            del connection
            gc.collect()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    box = Box()
    connection.ask(Listen(("a/1",), box), 5.0)
    assert connection.ask(GET, 5.0) == b"lock:a"
    peer.ring("a g1")
    assert box.events.get(timeout=5) == Gone("a/1")
    assert echo.connections == made
    connection.close()
