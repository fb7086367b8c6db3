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
from recipes._contract.wakeups import Changed
from recipes._run import process
from recipes._run.process import present
from recipes._run.runtime import Runtime
from recipes.client import AsyncClient, Client
from recipes.errors import LockLost
from recipes.fencing import MemoryGate
from recipes.stores.memory import MemoryBackend, MemoryServer
from recipes.stores.memory_cell import CellServer
from tests.programs.test_keep import Mailbox
from tests.run.doubles import SETTINGS, FaultyBackend, HandRuntime
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


def test_a_client_that_cannot_be_told_of_a_fork_leaves_no_other_untold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others' grants passed for the child's."""

    def broken(_: Runtime) -> None:
        raise AttributeError

    with recipes.connect("memory://first") as first, recipes.connect("memory://second") as second:
        grants = [client.lock("x").acquire() for client in (first, second)]
        monkeypatch.setattr(process, "present", lambda: [HandRuntime(), *present()])
        monkeypatch.setattr(HandRuntime, "after_fork", broken)
        assert in_child(lambda: [grant.held for grant in grants]) == [False, False]
        assert all(grant.held for grant in grants)


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


def test_the_childs_with_statement_says_so_of_a_multilock() -> None:
    with (
        recipes.connect("memory://") as client,
        client.multilock(client.lock("x"), client.lock("y")) as grant,
    ):

        def leave() -> list[Any]:
            try:
                grant.__exit__(None, None, None)
            except LockLost as lost:
                return [lost.reason, grant.lost_reason, grant.held]
            return []

        assert in_child(leave) == ["lock 'x' is lost: forked", "lock 'x' is lost: forked", False]
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

        with held_by_a_thread(outer._hold._among._guard):  # it is in the middle of leaving it
            assert in_child(look) == [False, "forked", False, None, "forked"]
        assert inner.release()
        assert outer.held


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


@contextmanager
def held_by_a_thread(lock: Any) -> Iterator[None]:
    """Have another thread hold a lock; a child that is forked meanwhile does not have that thread."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert inside.wait(10)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def within_10_s(look: Callable[[], Any]) -> Callable[[], Any]:
    """Have the child die of an alarm instead of waiting for ever."""

    def looking() -> Any:
        signal.alarm(10)
        return look()

    return looking


@pytest.fixture(params=[MemoryServer, CellServer])
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A store in memory that connect("memory://forked") leads to."""
    one = request.param()
    MemoryBackend.register("forked", lambda: MemoryBackend(one))
    yield one
    MemoryBackend.register("forked", None)


def test_the_child_waits_for_no_thread_that_was_amid_a_request_of_a_store_in_memory(server: Any) -> None:
    def use() -> bool:
        with recipes.connect("memory://forked") as client:
            return client.lock("x").acquire(timeout=2).held

    with held_by_a_thread(server._lock):
        assert in_child(within_10_s(use)) is True


def test_the_child_keeps_a_lock_that_the_thread_has_that_forked(server: Any) -> None:
    def leave() -> list[bool]:
        lock = server._lock
        owned = lock._is_owned()
        lock.release()
        return [lock is held, owned, lock._is_owned()]

    with server._lock:
        held = server._lock
        assert in_child(leave) == [True, True, False]
    with server._lock:
        pass


def test_what_the_child_does_in_a_store_in_memory_wakes_no_call_of_its_parent() -> None:
    """The mailbox of a call has a lock as well, and the thread of that call may have had it."""
    server, mailbox = MemoryServer(), Mailbox()
    server.watches.add(mailbox, "x")

    def change() -> int:
        server.watches.post(Changed("x"))
        return len(mailbox.events)

    assert in_child(change) == 0
    assert change() == 1


def test_the_child_waits_for_no_thread_that_was_inside_a_gate() -> None:
    gate = MemoryGate()

    def enter() -> str:
        with gate.admit("x", 8):
            return "inside"

    with held_by_a_thread(gate.admit("x", 7)):
        assert in_child(within_10_s(enter)) == "inside"
    with gate.admit("x", 9), pytest.raises(RuntimeError, match="inside the gate"):
        enter()


def test_the_child_is_inside_the_gate_that_the_thread_was_in_that_forked() -> None:
    gate = MemoryGate()

    def again() -> str:
        try:
            with gate.admit("x", 8):
                return "inside twice"
        except RuntimeError:
            return "refused"

    with gate.admit("x", 7):
        assert in_child(again) == "refused"


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
        membership = client.group("workers").join()
        partitions = membership.partitions(["a", "b"])
        assignment = next(partitions)

        def look() -> list[Any]:
            seen: list[Any] = [grant.held for grant in assignment.values()]
            try:
                next(partitions)
            except LockLost as lost:
                seen.append(lost.reason)
            partitions.close()
            try:
                membership.partitions(["a", "b"])
            except LockLost as lost:
                seen.append(lost.reason)
            with client.group("workers").join() as anew, anew.partitions(["c"]) as share:
                while not (found := share.next(timeout=10)):
                    assert found is not None
                return [*seen, *found]

        assert in_child(look) == [False, False, "forked", "forked", "c"]
        assert [*assignment] == ["a", "b"]
        assert all(grant.verify() for grant in assignment.values())
        assert partitions.next(timeout=0.05) is None
