"""After fork: the child holds nothing and touches nothing, and the parent notices nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import recipes
from recipes.client import AsyncClient, Client
from recipes.errors import LockLost
from tests.run.doubles import SETTINGS, FaultyBackend
from tests.run.test_tasks import in_loop, until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def in_child(look: Callable[[], Any]) -> Any:
    """Return what ``look`` returns in a forked child."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads are what this is about
        child = os.fork()
    if child == 0:
        try:
            found: Any = look()
        except BaseException as error:
            found = repr(error)
        os.write(write, json.dumps(found).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found = json.loads(pipe.read())
    os.waitpid(child, 0)
    return found


def test_the_child_holds_nothing_and_the_parent_everything() -> None:
    backend = FaultyBackend()
    with Client(backend, SETTINGS) as client:
        grant = client.lock("x").acquire()
        called: list[Any] = []
        grant.lost.add_callback(called.append)
        asked = len(backend.asked)

        def look() -> list[Any]:
            seen = [grant.held, grant.remaining, grant.lost.is_set(), grant.lost.wait(), grant.lost_reason]
            seen += [grant.release(), grant.verify(), len(client.grants), client.session.state]
            try:
                grant.check()
            except LockLost as lost:
                seen.append(lost.reason)
            return [*seen, len(backend.asked) - asked, called, client.pending_cleanups]

        assert in_child(look) == [
            *(False, 0.0, True, True, "forked"),
            *(False, False, 0, "none"),
            "forked",
            *(0, [], 0),
        ]
        assert grant.held
        assert grant.lost_reason is None
        assert grant.verify()
        assert called == []
        assert client.grants == [grant]


def test_the_child_starts_a_session_of_its_own_on_first_use() -> None:
    backend = FaultyBackend()
    with Client(backend, SETTINGS) as client:
        client.lock("x").acquire()
        session = client.session.id

        def use() -> list[Any]:
            with client.lock("y").acquire(timeout=5) as grant:
                found = [grant.held, client.session.id != session, len(backend.on_ends)]
            held_by_the_parent = client.lock("x").try_acquire()
            client.close()
            return [*found, held_by_the_parent]

        assert in_child(use) == [True, True, 2, None]
        assert client.session.id == session


def test_the_childs_with_statement_says_that_it_is_lost() -> None:
    with recipes.connect("memory://") as client, client.lock("x") as grant:

        def leave() -> list[Any]:
            try:
                grant.__exit__(None, None, None)
            except LockLost as lost:
                return [lost.reason]
            return []

        assert in_child(leave) == ["forked"]
        assert grant.held


def test_the_child_is_not_inside_what_the_parent_entered() -> None:
    with recipes.connect("memory://") as client, client.rlock("x") as outer, client.rlock("x") as inner:

        def look() -> list[Any]:
            found = [outer.held, inner.lost_reason, inner.release(), client.rlock("x").try_acquire()]
            try:
                outer.__exit__(None, None, None)
            except LockLost as lost:
                return [*found, lost.reason]
            return found

        with outer_guard_held(outer):
            assert in_child(look) == [False, "forked", False, None, "forked"]
        assert inner.release()
        assert outer.held


@contextmanager
def outer_guard_held(grant: Any) -> Iterator[None]:
    """Have another thread be in the middle of leaving it while the process forks."""
    guard, inside, leave = grant._hold._among._guard, threading.Event(), threading.Event()

    def hold() -> None:
        with guard:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def test_a_child_of_a_closed_client_is_closed() -> None:
    client = recipes.connect("memory://").open()
    client.close()
    assert in_child(lambda: client.session.state) == "closed"
    unused = recipes.connect("memory://")
    assert in_child(lambda: unused.open().session.state) == "held"


def test_the_child_may_proclaim_nothing_where_the_parent_is_at_it() -> None:
    """It waited for ever for a thread that it does not have."""
    backend = FaultyBackend()
    with Client(backend, SETTINGS) as client:
        leadership = client.election("x").campaign("a")
        asked, answer = threading.Event(), threading.Event()

        def slowly(request: Any) -> None:
            if type(request.op).__name__ == "Rewrite":
                asked.set()
                answer.wait()

        backend.before = slowly
        proclaiming = threading.Thread(target=leadership.proclaim, args=("b",))
        proclaiming.start()
        asked.wait()

        def look() -> str | None:
            signal.alarm(10)  # else it hangs
            try:
                leadership.proclaim("c")
            except LockLost as lost:
                return lost.reason
            return None

        assert in_child(look) == "forked"
        answer.set()
        proclaiming.join()


@in_loop
async def test_the_asyncio_client_too() -> None:
    backend = FaultyBackend()
    async with AsyncClient(backend, SETTINGS) as client:
        grant = await client.lock("x").acquire()

        def look() -> list[Any]:
            asyncio.events._set_running_loop(None)  # the child leaves the parent's loop alone
            found = [grant.held, grant.lost_reason, len(client.grants), client.session.state]

            async def use() -> list[Any]:
                async with client.lock("y") as other:
                    return [other.held, await grant.release()]

            return [*found, *asyncio.run(use())]

        assert in_child(look) == [False, "forked", 0, "none", True, False]
        assert grant.held
        assert await grant.verify()
        await until(lambda: client.pending_cleanups == 0)


def test_the_child_has_no_share_and_the_parent_keeps_its_own() -> None:
    with recipes.connect("memory://") as client:
        partitions = client.group("workers").join().partitions(["a", "b"])
        assignment = next(partitions)

        def look() -> list[Any]:
            seen: list[Any] = [grant.held for grant in assignment.values()]
            try:
                next(partitions)
            except LockLost as lost:
                seen.append(lost.reason)
            partitions.close()
            return seen

        assert in_child(look) == [False, False, "forked"]
        assert [*assignment] == ["a", "b"]
        assert all(grant.verify() for grant in assignment.values())
        assert partitions.next(timeout=0.05) is None
