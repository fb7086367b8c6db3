"""The store for tests: what a test looks at, and what it breaks."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from recipes import guarantees
from recipes._contract.names import queue_of
from recipes._rules.holding import granted
from recipes._run.manual import ManualTime
from recipes.client import AsyncClient, Client, connect, connect_async
from recipes.errors import StoreError, StoreUnavailable
from recipes.stores.memory import MemoryBackend, MemoryServer
from recipes.stores.memory_cell import CellServer
from recipes.testing.clock import Clock, refuse_in_loop
from recipes.testing.faults import Fault, Operation, Way

if TYPE_CHECKING:
    from types import TracebackType

    from recipes._run.blocking import BlockingRuntime
    from recipes._run.tasks import AsyncRuntime
    from recipes.grant import AsyncGrant, Grant

__all__ = ["Contender", "Store"]

QUEUES = "lock", "semaphore", "election", "group"
"""The recipes that have a queue for each name."""

AnyClient = Client | AsyncClient


@dataclass(frozen=True, slots=True)
class Contender:
    """Somebody in the queue of a lock, as the store sees it.

    Attributes:
        token: Its fencing token.
        client: Whose it is.
    """

    token: int
    client: AnyClient


class Store:
    """A store in memory of its own, with a clock and with faults.

    Its ``url`` may be given to code that calls `recipes.connect` (or ``connect_async``)
    itself, from when the store is made until it is closed. Leaving ``with`` (or ``async
    with``, which asyncio clients need) closes every client.

    Faults concern one client, and its later requests: make it, then break it. They may be
    set from any thread or task, and wait for nothing.

    Args:
        like: Which store to be, by a scheme of its URLs, any that `recipes.connect` takes ("redis", "etcds",
            "mariadb"): what that promises is `Client.guarantees`, and what it cannot have is refused with
            `TooWeak`, here as there. A store without a queue keeps one holder of each lock, and whichever
            client comes first after that gets it. "cell" is such a store of no particular make.

    Raises:
        ValueError: There is no such store.

    Attributes:
        url: What ``connect`` takes.
        guarantees: What the store promises.
        clock: The time of the store and of its clients.
    """

    def __init__(self, like: str = "memory") -> None:
        self.guarantees = guarantees.like(like)
        self._time = ManualTime()
        kind = MemoryServer if self.guarantees.order == "arrival" else CellServer
        self._server: MemoryServer | CellServer = kind(self._time.now, _lock=self._time.lock)
        self._made: list[Way] = []
        self._ways: dict[str, Way] = {}
        self._closed = False
        self._name = f"test-{uuid.uuid4().hex}"
        self.url = f"memory://{self._name}"
        self.clock = Clock(self._time, self._server)
        MemoryBackend.register(self._name, self._make_way)

    def _make_way(self) -> Way:
        way = Way(self, self._time, self._server, self.url, self._ways, self.guarantees)
        self._made.append(way)
        return way

    def connect(self, *, session_timeout: float = 15, request_timeout: float = 5) -> Client:
        """Return a client of this store, not opened; see `recipes.connect`, also for the options.

        That takes the options that are missing here, with the `url` of this store.

        Raises:
            RuntimeError: The store is closed.
        """
        self._refuse_closed()
        return connect(self.url, session_timeout=session_timeout, request_timeout=request_timeout)

    def connect_async(self, *, session_timeout: float = 15, request_timeout: float = 5) -> AsyncClient:
        """Same as `connect`, but for asyncio."""
        self._refuse_closed()
        return connect_async(self.url, session_timeout=session_timeout, request_timeout=request_timeout)

    def _refuse_closed(self) -> None:
        if self._closed:  # its URL would be that of an ordinary store, with neither this clock nor faults
            raise RuntimeError("this store is closed; make another testing.Store()")

    @property
    def clients(self) -> list[AnyClient]:
        """The clients that were made and not closed, in order; also those that other code made."""
        return [way.runtime.client for way in list(self._made) if way.runtime is not None and not way.closed]

    # Looking.

    def holders(self, name: str, *, recipe: str = "lock") -> list[Contender]:
        """Return who holds this lock: nobody or one, or several readers and a writer that downgraded.

        The store's view, as `Lock.holders` has it: a holder may not know yet that the lock was granted,
        or that it was lost.

        Args:
            name: The lock's name.
            recipe: What has this name: "lock" (of any kind), "semaphore", "election" or "group".

        Raises:
            ValueError: It is none of these.
        """
        return self._contenders(name, recipe)[0]

    def waiters(self, name: str, *, recipe: str = "lock") -> list[Contender]:
        """Return who queues behind the holders of this lock, in order; see `holders`.

        Raises:
            TooWeak: The store has no queue.
        """
        guarantees.require("fair", self.guarantees, self.url)
        return self._contenders(name, recipe)[1]

    def wait_for_waiters(
        self, name: str, n: int = 1, *, recipe: str = "lock", timeout: float = 5
    ) -> list[Contender]:
        """Wait until ``n`` contenders or more queue behind the holders, and all calls wait.

        Args:
            name: The lock's name.
            n: How many.
            recipe: As for `holders`.
            timeout: Seconds of real time.

        Returns:
            The waiters.

        Raises:
            TimeoutError: There were fewer all the time.
            TooWeak: The store has no queue.
            RuntimeError: An event loop runs in this thread (use `wait_for_waiters_async`).
        """
        refuse_in_loop("await store.wait_for_waiters_async()")
        with self._time.changed:
            if not self._time.changed.wait_for(lambda: self._queue_up(name, n, recipe), timeout):
                raise TimeoutError(self._fewer(name, n, recipe))
            return self.waiters(name, recipe=recipe)

    async def wait_for_waiters_async(
        self, name: str, n: int = 1, *, recipe: str = "lock", timeout: float = 5
    ) -> list[Contender]:
        """Same as `wait_for_waiters`, but awaits."""
        try:
            async with asyncio.timeout(timeout):
                while not self._queue_up(name, n, recipe):  # noqa: ASYNC110 - the tasks of this loop bring it about
                    await asyncio.sleep(0)
        except TimeoutError:
            raise TimeoutError(self._fewer(name, n, recipe)) from None
        return self.waiters(name, recipe=recipe)

    def _queue_up(self, name: str, n: int, recipe: str) -> bool:
        return len(self.waiters(name, recipe=recipe)) >= n and self._time.settled()

    def _fewer(self, name: str, n: int, recipe: str) -> str:
        return (
            f"{n} should wait for {recipe} {name!r}, and there are {len(self.waiters(name, recipe=recipe))}"
        )

    def _contenders(self, name: str, recipe: str) -> tuple[list[Contender], list[Contender]]:
        if recipe not in QUEUES:
            raise ValueError(f"recipe={recipe!r} is none of {', '.join(QUEUES)}")
        queue = queue_of(recipe, name)
        found: tuple[list[Contender], list[Contender]] = ([], [])
        with self._time.lock:
            queue_up = self._server.queue(queue)
            for contender, holds in zip(queue_up, granted(queue_up), strict=True):
                runtime = self._ways[contender.session].runtime
                assert runtime is not None, "a contender should have a client"
                found[0 if holds else 1].append(Contender(contender.token, runtime.client))
        return found

    # Breaking.

    def expire(self, client: AnyClient) -> None:
        """End this client's session on the store, behind its back.

        Its contenders go at once, and the next in line are granted. (A store without a queue knows of no
        sessions: there what the client holds is freed.) The client finds out
        as it would from a real store: by its next request or renewal.
        (After a session that lasted less than a second it waits a second for the next.)

        Args:
            client: Whose.

        Raises:
            ValueError: It has no session, or is none of this store.
        """
        self._way_of(client)
        session = client.session.id
        if session is None:
            raise ValueError("this client has no session yet: open it first")
        self._server.end(session)

    @contextmanager
    def pause(self, client: AnyClient) -> Generator[None]:
        """Leave this client's requests unanswered, and not carried out, until the ``with`` ends.

        Nothing is renewed: move the clock, and ``held`` turns false, the grants are lost, and
        in the end the store gives them to the next. A request under way ends by its timeout
        on the clock, or is lost at the end of the pause and asked again. A client that is
        closed meanwhile leaves its session to expire.

        Args:
            client: Whose.

        Raises:
            ValueError: The client is none of this store.
        """
        way = self._way_of(client)
        with self._time.lock:
            way.pauses += 1
        try:
            yield
        finally:
            with self._time.lock:
                way.pauses -= 1
                way.stir()

    def drop_reply(self, client: AnyClient, operation: Operation, n: int = 1) -> None:
        """Carry out the next ``n`` such requests of this client, and lose their answers.

        Args:
            client: Whose.
            operation: Which requests; see `Operation`.
            n: How many.

        Raises:
            ValueError: An unknown operation, one that such a store is never asked, or the client is none of
                this store.
        """
        lost = StoreUnavailable(self.url, "the test has lost the answer")
        self._add(client, Fault(operation, lost, carried_out=True, left=n))

    def drop_request(self, client: AnyClient, operation: Operation, n: int = 1) -> None:
        """Lose the next ``n`` such requests of this client on their way; see `drop_reply`."""
        lost = StoreUnavailable(self.url, "the test has lost the request")
        self._add(client, Fault(operation, lost, carried_out=False, left=n))

    def fail(
        self, client: AnyClient, error: StoreError, operation: Operation | None = None, n: int = 1
    ) -> None:
        """Answer the next ``n`` requests of this client with an error, and do not carry them out.

        Args:
            client: Whose.
            error: The answer: `StoreRefused`, `StoreFull`, or `StoreUnavailable`, after
                which the client asks again.
            operation: Which requests; None: any.
            n: How many.

        Raises:
            TypeError: The error is no `StoreError`.
            ValueError: An unknown operation, one that such a store is never asked, or the client is none of
                this store.
        """
        if not isinstance(error, StoreError):
            raise TypeError(f"a store answers with a StoreError, not {type(error).__name__}")
        self._add(client, Fault(operation, error, carried_out=False, left=n))

    def remove(self, grant: Grant | AsyncGrant) -> None:
        """Delete the contender of this grant from the store, as an operator would.

        The next in line is granted at once; this client finds out by `Grant.verify` or its
        next renewal. Of a multi-lock all contenders go. One that is gone already is left alone, and so is
        any that came after it.

        Args:
            grant: Of a client of this store.

        Raises:
            ValueError: It is of another client.
        """
        self._way(grant._runtime, f"{grant!r} is no grant of a client of this store")  # noqa: SLF001 - as below
        entries = [part.entry for part in grant._hold.parts]  # noqa: SLF001 - the two are one
        with self._time.lock:
            for entry in entries:
                there = self._server.queue(entry.ticket.queue)
                if any(one.ref == entry.ref and one.token == entry.token for one in there):
                    self._server.remove(entry.ref)

    def _add(self, client: AnyClient, fault: Fault) -> None:
        if isinstance(fault.left, bool) or not isinstance(fault.left, int):
            raise TypeError(f"n is a number of requests, not {fault.left!r}")
        if fault.left < 1:
            raise ValueError(f"n is at least 1, not {fault.left}")
        way = self._way_of(client)
        way.refuse(fault.operation)
        with self._time.lock:
            way.faults.append(fault)

    def _way_of(self, client: AnyClient) -> Way:
        return self._way(client._runtime, f"{client!r} is no client of this store")  # noqa: SLF001 - the two are one

    def _way(self, runtime: BlockingRuntime | AsyncRuntime, otherwise: str) -> Way:
        """Return the way of a client, by what its calls run on; it is refused if it is none of this store."""
        way = runtime.backend
        if not isinstance(way, Way) or way.store is not self:
            raise ValueError(otherwise)
        return way

    # Opening and closing.

    def close(self) -> None:
        """Close every blocking client, and take the ``url`` back; calls in progress raise `ClientClosed`."""
        self._shut()
        for client in self.clients:
            if isinstance(client, Client):
                client.close()

    def _shut(self) -> None:
        """Answer nobody any more: nobody is granted what another lets go of while the store is closed."""
        self._closed = True
        MemoryBackend.register(self._name, None)
        with self._time.lock:
            for way in self._made:
                way.pauses += 1

    async def close_async(self) -> None:
        """Same as `close`, but closes the asyncio clients too."""
        self._shut()
        for client in self.clients:
            if isinstance(client, AsyncClient):
                await client.close()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close_async()

    def __repr__(self) -> str:
        return f"<Store {self.url}: {len(self.clients)} clients>"
