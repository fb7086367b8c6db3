"""What a test of the contract has in hand: clients of one store by one API, and what they told."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from recipes import StoreTimeout, events
from recipes.events import Transition
from tests.contract.apis import Api, Running
from tests.contract.stores import SEMAPHORES, Line, Store
from tests.contract.tap import Tap
from tests.contract.tapped import install
from tests.pace import Pace

T = TypeVar("T")

EVENT_WITHIN_S = 15.0  # a waiter whose contender was removed finds that within a short session


class Short(float):
    """A length of a session that a store may have be longer (`Store.short_s`)."""


SHORT = {"session_timeout": Short(6)}
"""Of a session whose end or renewal a test waits for; a shorter one ends where a machine stands still."""
LONG = {"session_timeout": 15}
"""Of a session that is to last, whatever a test does to the way to its store."""


def without_waiting(party: Party, call: Callable[[], T]) -> T:
    """Return what a call returns that has no time to wait; one whose answer comes too late is made again."""
    for _ in range(10):
        with suppress(StoreTimeout):
            return call()
        assert party.wait_clean()
    return call()


class Party:
    """One client, its tap, and the calls that tests make on it, in the words of either API."""

    def __init__(self, world: World, url: str, options: dict[str, Any], tap: Tap) -> None:
        self.api = world.api
        self.tap = tap
        self.line = Line(url, tap.silence, tap.silence, tap.heal)
        self.client = world.api.connect(url, **{**world.store.options, **options})
        self._side = world.side
        install(self.client, self.tap)

    def lock(self, name: str, **options: Any) -> Any:
        """Return what the tests are of: a lock of some kind, permits, or a lock and a permit together."""
        if self._side == "semaphore":
            return self.client.semaphore(name, 1, **options)
        if self._side == "multilock":
            return self.client.multilock(self.client.semaphore(name, 1), self.client.lock(name, **options))
        if self._side == "rlock":
            return self.client.rlock(name, **options)
        if self._side:
            return getattr(self.client.rwlock(name, **options), self._side)
        return self.client.lock(name, **options)

    @property
    def reader(self) -> Party:
        """The same client, whose every lock is the shared side of a read-write lock."""
        return self._as("reader")

    @property
    def writer(self) -> Party:
        """The same client, whose every lock is the exclusive side of a read-write lock."""
        return self._as("writer")

    def _as(self, side: str) -> Party:
        other = copy.copy(self)
        other._side = side
        return other

    def downgrade(self, grant: Any) -> None:
        """Downgrade as this thread."""
        self.api.do(grant.downgrade)

    def open(self) -> None:
        """Open the client."""
        self.api.do(self.client.open)

    def close(self) -> None:
        """Close the client."""
        self.api.do(self.client.close)

    def acquire(self, name: str, timeout: float | None = 10, **options: Any) -> Any:
        """Acquire as this thread."""
        lock = self.lock(name)
        return self.api.do(lambda: lock.acquire(timeout=timeout, **options))

    def acquiring(self, name: str, timeout: float | None = 20, **options: Any) -> Running:
        """Acquire beside the test."""
        lock = self.lock(name)
        return self.api.start(lambda: lock.acquire(timeout=timeout, **options))

    def queue_up(self, name: str, timeout: float | None = 20, **options: Any) -> Running:
        """Same as `acquiring`, and wait until it waits: for its turn, not for a session."""
        self.open()
        with self.tap.one_more():
            return self.acquiring(name, timeout, **options)

    def try_acquire(self, name: str, **options: Any) -> Any:
        """Try as this thread."""
        lock = self.lock(name)
        return self.api.do(lambda: lock.try_acquire(**options))

    def enter(self, name: str, body: Callable[[Any], Any], **options: Any) -> Any:
        """Run ``body(grant)`` in ``with lock``."""
        lock = self.lock(name, **options)
        return self.api.enter(lambda: lock, body)

    def release(self, grant: Any) -> bool:
        """Release as this thread."""
        released: bool = self.api.do(grant.release)
        return released

    def verify(self, grant: Any) -> bool:
        """Verify as this thread."""
        holds: bool = self.api.do(grant.verify)
        return holds

    def wait_lost(self, grant: Any, within_s: float) -> bool:
        """Wait until the grant is told to be lost."""
        lost: bool = self.api.do(lambda: grant.lost.wait(within_s))
        return lost

    def wait_clean(self, within_s: float = 5) -> bool:
        """Wait until the cleaner has nothing left to do."""
        return until(lambda: self.client.pending_cleanups == 0, within_s)


class World:
    """One store, one API, and everything a test makes of them."""

    def __init__(self, store: Store, api: Api, side: str = "") -> None:
        self.store = store
        self.side = side
        self.api = api
        self.heard = Heard(store.mark)
        self._parties: list[Party] = []

    def client(self, *, frail: bool = False, is_open: bool = True, url: str = "", **options: Any) -> Party:
        """Return a client; the way of a ``frail`` one to its store can fail (`Party.line`)."""
        if isinstance(options.get("session_timeout"), Short):
            options["session_timeout"] = self.short_s
        tap = Tap()
        line = self.store.line(tap) if frail else None
        party = Party(self, url or (line.url if line else self.store.url()), options, tap)
        if line is not None:
            party.line = line
        self._parties.append(party)
        if is_open:
            party.open()
        return party

    @property
    def short_s(self) -> float:
        """How long a session lasts that is `SHORT`."""
        return max(float(SHORT["session_timeout"]), self.store.short_s)

    def contenders(self, name: str) -> list[str]:
        """Return what really stands in the queue of what `Party.lock` makes of this name."""
        permits = f"{SEMAPHORES}{name}"
        if self.side == "multilock":
            return max(map(self.store.contenders, (name, permits)), key=len)
        return self.store.contenders(permits if self.side == "semaphore" else name)

    def stands_behind(self, name: str, party: Party) -> bool:
        """Whether one stands in the queue behind the holder; without a queue, whether this party waits."""
        return len(self.contenders(name)) == 2 if self.store.has_queue else bool(party.tap.waiting)

    def close(self) -> None:
        """Close every client."""
        for party in self._parties:
            party.line.heal()
        for party in self._parties:
            party.close()
        self.heard.close()


class Heard:
    """Every transition on one store, in order."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._seen: list[Transition] = []
        self._changed = threading.Condition()
        self.close = events.subscribe(self._hear)

    def _hear(self, transition: Transition) -> None:
        if self._mark in (transition.store or ""):
            with self._changed:
                self._seen.append(transition)
                self._changed.notify_all()

    def of(self, event: str = "", **fields: Any) -> list[Transition]:
        """Return those seen with that name and these fields."""
        with self._changed:
            return self._matching(event, fields)

    def wait(self, event: str, n: int = 1, **fields: Any) -> list[Transition]:
        """Wait until ``n`` such were seen, and return them."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self._matching(event, fields)) >= n, EVENT_WITHIN_S)
            assert enough, f"{n} {event} with {fields} should have come; there were {self._seen}"
            return self._matching(event, fields)

    def names(self, **fields: Any) -> list[str]:
        """Return the names of the events with these fields, in order."""
        return [transition.event for transition in self.of(**fields)]

    def _matching(self, event: str, fields: dict[str, Any]) -> list[Transition]:
        return [
            transition
            for transition in self._seen
            if transition.event.startswith(event)
            and all(getattr(transition, name) == value for name, value in fields.items())
        ]


def until(check: Callable[[], object], within_s: float) -> bool:
    """Ask ``check`` until it is true, at most so long, and what the machine adds: for what nobody tells."""
    pause = threading.Event()
    if check():
        return True
    with Pace() as pace:
        while not check():
            if pace.seconds >= within_s and pace.seconds >= within_s + pace.late_s():
                return False
            pause.wait(0.02)
    return True


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start
