"""A store that leases each contender, says itself who holds, and frees what is over only when asked.

As a server does that expires keys: nobody is notified of the end of a dead holder, so those that wait have
to look when that is due. On a clock that is moved by hand, in both runtimes.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from recipes import events, testing
from recipes._contract.connection import Mailbox
from recipes._contract.operations import Enqueue, Entry, Renew, Renewal, Snapshot
from recipes._contract.rule import Rule
from recipes._contract.wakeups import Granted
from recipes._run.runtime import LONGEST_REREAD_S
from recipes.stores.memory import Command, MemoryServer

TTL_S = 15.0


class LeasingServer(MemoryServer):
    """Such a server, in memory.

    Attributes:
        look_every_s: How often those that wait have to look, if not only when somebody is over.
    """

    look_every_s = float("inf")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.until: dict[str, float] = {}
        self.waits_at: dict[str, Mailbox] = {}
        self.asked: dict[str, list[str]] = defaultdict(list)

    def handle(self, command: Command) -> Any:
        self.asked[command.session].append(type(command.op).__name__)
        return super().handle(command)

    def expire(self) -> None:
        """End nothing: time alone frees nothing here."""

    def next_expiry(self) -> float:
        return float("inf")

    def forget_all(self) -> None:
        """Lose every contender, and notify nobody: a restart without data."""
        with self._lock:
            for queue in self.queues.values():
                queue.clear()

    def _enqueue(self, op: Enqueue, command: Command) -> Snapshot:
        ref = f"{op.ticket.queue}/{op.ticket.kind}-{op.ticket.id}"
        self.until[ref] = self.now() + TTL_S
        self.waits_at[ref] = command.mailbox
        return super()._enqueue(op, command)

    def _renew(self, op: Renew, command: Command) -> Renewal:
        there = [entry for entry in (*op.entries, *op.waiting) if self._stands(entry)]
        self.until.update({entry.ref: self.now() + TTL_S for entry in there})
        missing = (entry for entry in (*op.entries, *op.waiting) if entry not in there)
        return Renewal(TTL_S, tuple(missing))

    def _snapshot(self, mine: Entry, rule: Rule) -> Snapshot:
        queue = self.queues[mine.ticket.queue]
        for ref in [ref for ref in queue if self.until[ref] <= self.now()]:
            del queue[ref]
        snapshot = super()._snapshot(mine, rule)
        if not snapshot.ahead:
            return snapshot
        over_s = self.until[snapshot.ahead[0].ref] - self.now()
        return replace(snapshot, due_s=min(over_s, self.look_every_s), by_time=self.look_every_s < TTL_S)

    def _remove(self, queue: dict[str, Any], ref: str) -> bool:
        was_head = ref == next(iter(queue), None)
        self.watches._waiting.pop(ref, None)  # what says who holds needs no other notification
        removed = super()._remove(queue, ref)
        if removed and was_head and queue:
            head = next(iter(queue))
            self.waits_at[head].post(Granted(head))
        return removed


class LeasingStore(testing.Store):
    """The test kit's store on such a server."""

    def __init__(self) -> None:
        super().__init__()
        self.server = LeasingServer(self._time.now, _lock=self._time.lock)
        self._server = self.server
        self.clock = testing.Clock(self._time, self.server)


@pytest.fixture
def store() -> Iterator[LeasingStore]:
    with LeasingStore() as made:
        yield made


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any]]]:
    seen: list[tuple[str, Any]] = []
    leave = events.subscribe(lambda one: seen.append((one.event, one.attempt)))
    yield seen
    leave()


class Waiting:
    """An acquire in a thread of its own, and when it came to its grant."""

    def __init__(self, store: LeasingStore, client: Any, *, waiters: int = 1) -> None:
        self.grant: Any = None
        self.at: float | None = None
        self._clock, self._client = store.clock, client
        self._thread = threading.Thread(target=self._acquire, daemon=True)
        self._thread.start()
        store.wait_for_waiters("x", waiters)

    def _acquire(self) -> None:
        self.grant = self._client.lock("x").acquire()
        self.at = self._clock.now

    def over(self) -> Any:
        self._thread.join(10)
        assert self.grant is not None, "it should be granted"
        return self.grant


def test_the_end_of_a_dead_holder_is_looked_for_when_it_is_due(store: LeasingStore) -> None:
    dead, client = store.connect(), store.connect()
    dead.lock("x").acquire()
    began = store.clock.now
    with store.pause(dead):
        store.clock.advance(1)
        waiting = Waiting(store, client)
        store.clock.advance(TTL_S - 2)
        assert waiting.grant is None
        store.clock.advance(1)
        assert waiting.over().held
    assert waiting.at == pytest.approx(began + TTL_S)


def test_one_behind_its_own_client_does_not_look_by_itself(store: LeasingStore) -> None:
    """Its client is told what becomes of the other, and renews the leases of both."""
    store.server.look_every_s = 1.0
    client = store.connect()
    grant = client.lock("x").acquire()
    waiting = Waiting(store, client)
    asked = store.server.asked[client.session.id or ""]
    looks = asked.count("Look")
    store.clock.advance(3 * TTL_S)
    assert asked.count("Renew") >= 8
    assert asked.count("Look") - looks <= 3 * TTL_S / LONGEST_REREAD_S
    grant.release()
    assert waiting.over().held


def test_nor_does_one_with_strangers_between_it_and_its_own(store: LeasingStore) -> None:
    store.server.look_every_s = 1.0
    client, other = store.connect(), store.connect()
    first = client.lock("x").acquire()
    between = [Waiting(store, other, waiters=n) for n in (1, 2)]
    second = Waiting(store, client, waiters=3)
    asked, looks_of_other = (store.server.asked[one.session.id or ""] for one in (client, other))
    before = asked.count("Look")
    store.clock.advance(3 * TTL_S)
    assert looks_of_other.count("Look") >= 30
    assert asked.count("Look") - before <= 3 * TTL_S / LONGEST_REREAD_S
    first.release()
    grant = between[0].over()
    before = asked.count("Look")
    store.clock.advance(TTL_S)
    assert asked.count("Look") - before >= TTL_S - 2, "none of its own is ahead"
    grant.release()
    between[1].over().release()
    assert second.over().held


def test_the_end_of_a_dead_holder_is_looked_for_when_it_is_due_in_asyncio() -> None:
    async def main() -> None:
        async with LeasingStore() as store:
            dead, client = store.connect_async(), store.connect_async()
            await dead.lock("x").acquire()
            with store.pause(dead):
                waiting = asyncio.create_task(client.lock("x").acquire())
                await store.wait_for_waiters_async("x")
                await store.clock.advance_async(TTL_S - 1)
                assert not waiting.done()
                await store.clock.advance_async(1)
                assert waiting.done()
                assert (await waiting).held

    asyncio.run(main())


def test_who_waits_long_keeps_its_lease_by_the_renewals_of_its_client(store: LeasingStore) -> None:
    holder, client = store.connect(), store.connect()
    grant = holder.lock("x").acquire()
    waiting = Waiting(store, client)
    (entry,) = client._runtime.state.session.waiters.waiting  # type: ignore[union-attr]
    store.clock.advance(4 * TTL_S)
    assert store.server.until[entry.ref] > store.clock.now
    assert grant.release()
    assert waiting.over().token == entry.token, "it has not queued again"


def test_the_stores_own_word_of_the_grant_costs_no_request(store: LeasingStore) -> None:
    holder, client = store.connect(), store.connect()
    grant = holder.lock("x").acquire()
    waiting = Waiting(store, client)
    before = list(store.server.asked[client.session.id or ""])
    grant.release()
    assert waiting.over().held
    assert store.server.asked[client.session.id or ""] == before


def test_a_waiter_that_a_renewal_misses_queues_again_at_once(
    store: LeasingStore, told: list[tuple[str, Any]]
) -> None:
    holder, client = store.connect(), store.connect()
    holder.lock("x").acquire()
    waiting = Waiting(store, client)
    store.server.forget_all()
    store.clock.advance(TTL_S / 3 + 0.1)  # the next renewal, and before the next re-read
    assert waiting.over().held
    assert ("lock.requeued", 1) in told
    assert ("lock.acquired", 2) in told


def test_a_late_word_of_the_grant_does_not_count(store: LeasingStore, told: list[tuple[str, Any]]) -> None:
    """It came before the restart, and is read after a renewal has said that the contender is gone."""
    holder, client = store.connect(), store.connect()
    holder.lock("x").acquire()
    waiting = Waiting(store, client)
    waiters = client._runtime.state.session.waiters  # type: ignore[union-attr]
    (entry,) = waiters.waiting
    with store._time.lock:  # nothing is read meanwhile
        store.server.forget_all()
        store.server.waits_at[entry.ref].post(Granted(entry.ref))
        waiters.missed(entry.ticket.id)
    assert waiting.over().token > entry.token
    assert ("lock.acquired", 1) not in told[told.index(("lock.queued", 1)) :]
