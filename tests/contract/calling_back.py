"""Users' callbacks: whatever they do, every other one is called, and in time (fault 44)."""

from __future__ import annotations

import io
import logging
import queue
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from recipes import events
from tests.contract.world import LONG, Party, World

WITHIN_S = 10.0
REQUEST: ContextVar[str] = ContextVar("request", default="none")


def lose_all(world: World, party: Party) -> None:
    """Have the party's session end, and the party hear of it."""
    grant = party.client.grants[0]
    world.store.end_session(party.client)
    party.api.start(grant.verify).error()  # which asks the store


class CallingBack:
    """What is called when a grant is lost, and while one waits."""

    @pytest.mark.parametrize("error", [RuntimeError, SystemExit], ids=lambda kind: kind.__name__)
    def test_fault_44_a_callback_that_raises_keeps_no_other_from_being_called(
        self, world: World, error: type[BaseException]
    ) -> None:
        client = world.client(**LONG)
        grants = [client.acquire(name) for name in ("x", "y", "z")]
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def fail(_lost: Any) -> None:
            raise error("mine")

        for grant in grants:
            grant.lost.add_callback(fail)
            grant.lost.add_callback(lambda lost: told.put(lost.name))
        lose_all(world, client)
        assert {told.get(timeout=WITHIN_S) for _ in grants} == {"x", "y", "z"}
        again = client.acquire("x")  # and the client goes on
        again.lost.add_callback(lambda lost: told.put(lost.token))
        lose_all(world, client)
        assert told.get(timeout=WITHIN_S) == again.token

    def test_fault_44_a_callback_that_sleeps_holds_up_no_other(self, world: World) -> None:
        """In asyncio one that blocks does block the loop; one there hands it on to a thread, or a task."""
        client = world.client(**LONG)
        grants = [client.acquire(name) for name in ("x", "y", "z")]
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        go = threading.Event()

        def sleep(_lost: Any) -> None:
            if client.api.is_async:
                threading.Thread(target=go.wait, args=(3 * WITHIN_S,), daemon=True).start()
            else:
                go.wait(3 * WITHIN_S)

        for grant in grants:
            grant.lost.add_callback(sleep)
            grant.lost.add_callback(lambda lost: told.put(lost.name))
        lose_all(world, client)
        assert {told.get(timeout=WITHIN_S) for _ in grants} == {"x", "y", "z"}
        assert not go.is_set()
        go.set()

    def test_fault_44_a_callback_may_call_the_client(self, world: World) -> None:
        client = world.client(**LONG)
        grant = client.acquire("x")
        found: queue.SimpleQueue[Any] = queue.SimpleQueue()
        lock = client.lock("y")

        def call(lost: Any) -> None:
            lost.lost.add_callback(lambda again: found.put(again.token))  # it is lost already: at once
            found.put(client.client.session.state)
            running = client.api.start(lambda: lock.acquire(timeout=WITHIN_S))
            if not client.api.is_async:  # in the loop's own thread it would wait for itself
                found.put(running.result(WITHIN_S).held)

        grant.lost.add_callback(call)
        lose_all(world, client)
        seen = [found.get(timeout=WITHIN_S) for _ in range(2 if client.api.is_async else 3)]
        assert grant.token in seen
        if not client.api.is_async:
            assert True in seen

    def test_a_callback_sees_the_context_of_what_added_it(self, world: World) -> None:
        client = world.client(**LONG)
        grant = client.acquire("x")
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def add() -> None:
            REQUEST.set("mine")
            grant.lost.add_callback(lambda lost: told.put((lost, REQUEST.get())))

        client.api.start(add).result()
        lose_all(world, client)
        assert told.get(timeout=WITHIN_S) == (grant, "mine")

    def test_fault_44_those_of_a_grant_lost_before_the_client_closed_are_called(self, world: World) -> None:
        client = world.client(**LONG)
        grant, told = client.acquire("x"), threading.Event()
        go: queue.SimpleQueue[None] = queue.SimpleQueue()
        if not client.api.is_async:
            grant.lost.add_callback(lambda lost: go.get(timeout=WITHIN_S))
        grant.lost.add_callback(lambda lost: told.set())
        lose_all(world, client)
        client.close()
        go.put(None)
        assert told.wait(WITHIN_S)
        late = threading.Event()
        grant.lost.add_callback(lambda lost: late.set())
        assert late.wait(WITHIN_S), "one that is added after that, too"

    @pytest.mark.needs("has_queue")
    def test_fault_44_waiting_is_told_whatever_other_callbacks_do(self, world: World) -> None:
        a, b, c = (world.client(**LONG) for _ in range(3))
        grant = a.acquire("x")
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        go = threading.Event()

        def hang(_position: int) -> None:
            told.put("hangs")
            if b.api.is_async:
                raise SystemExit("mine")
            go.wait(3 * WITHIN_S)

        lock, other = b.lock("x"), c.lock("x")
        first = b.api.start(lambda: lock.acquire(timeout=20, on_queued=hang))
        assert told.get(timeout=WITHIN_S) == "hangs"
        second = b.api.start(lambda: b.lock("x").acquire(timeout=20, on_queued=told.put))
        assert told.get(timeout=WITHIN_S) == 2
        third = c.api.start(lambda: other.acquire(timeout=20, on_queued=told.put))
        assert told.get(timeout=WITHIN_S) == 3
        a.release(grant)
        for running, party in ((first, b), (second, b), (third, c)):
            party.release(running.result(WITHIN_S))
        go.set()

    def test_fault_44_a_subscriber_that_raises_ends_no_renewing(self, world: World) -> None:
        client = world.client(**LONG)
        grant, told = client.acquire("x"), threading.Event()
        grant.lost.add_callback(lambda lost: told.set())

        def leave(_transition: Any) -> None:
            raise SystemExit("mine")

        unsubscribe = events.subscribe(leave)
        try:
            lose_all(world, client)
            assert told.wait(WITHIN_S)
            assert client.acquire("x", timeout=WITHIN_S).held
        finally:
            unsubscribe()

    def test_fault_44_a_log_that_raises_ends_no_renewing(self, world: World) -> None:
        client = world.client(**LONG)
        grant, told = client.acquire("x"), threading.Event()

        def fail(_lost: Any) -> None:
            raise RuntimeError("mine")

        grant.lost.add_callback(fail)
        grant.lost.add_callback(lambda lost: told.set())
        logger, broken = logging.getLogger("recipes"), logging.StreamHandler(io.StringIO())
        mine = threading.current_thread()
        broken.addFilter(lambda record: threading.current_thread() is mine or bool(1 // 0))
        logger.addHandler(broken)
        try:
            lose_all(world, client)
            assert told.wait(WITHIN_S)
            assert client.acquire("x", timeout=WITHIN_S).held
        finally:
            logger.removeHandler(broken)
