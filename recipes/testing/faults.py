"""One client's way to a store for tests, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from recipes._contract.operations import (
    Check,
    Confirm,
    End,
    Enqueue,
    Evict,
    List,
    Look,
    Open,
    Probe,
    Queues,
    Read,
    Renew,
    Rewrite,
    Settle,
    StoreOp,
    Watch,
    Withdraw,
    Write,
)
from recipes._run.manual import AsyncManualRuntime, ManualRuntime, ManualTime
from recipes.errors import SessionLost, StoreError, StoreUnavailable
from recipes.stores.memory import AsyncMemoryConnection, MemoryBackend, MemoryConnection, MemoryServer

if TYPE_CHECKING:
    from recipes._contract.backend import Backend
    from recipes._contract.connection import OnEnd, Request
    from recipes._run.runtime import Settings
    from recipes.guarantees import Guarantees
    from recipes.stores.memory_cell import CellServer

__all__ = ["Fault", "Operation", "Way"]

Operation = Literal[
    "acquire",
    "try_acquire",
    "wait",
    "release",
    "downgrade",
    "verify",
    "look",
    "read",
    "write",
    "renew",
    "open",
    "close",
]
"""What a client asks of the store: "acquire" joins the queue, "wait" looks at it while queueing, "release"
also withdraws an interrupted acquire, "look" is asked by who inspects a queue from outside or
evicts somebody, "read" and "write" concern values, counters, latches and barriers, "open", "renew"
and "close" the session. ("open" by ``Client.open`` or ``with`` fails fast; by any other call it is
asked again.)"""

_OPERATIONS: dict[type[StoreOp[Any]], Operation] = {
    Enqueue: "acquire",
    Probe: "try_acquire",
    Watch: "wait",
    Look: "wait",
    Check: "wait",
    Confirm: "acquire",
    Withdraw: "release",
    Rewrite: "downgrade",
    List: "look",
    Evict: "look",
    Queues: "look",
    Read: "read",
    Write: "write",
    Settle: "write",
    Renew: "renew",
    Open: "open",
    End: "close",
}


@dataclass(slots=True)
class Fault:
    """What befalls the next ``left`` requests of one kind."""

    operation: Operation | None
    error: StoreError
    carried_out: bool
    left: int


class Way(MemoryBackend):
    """One client's way to the store, and what is wrong with it.

    Args:
        store: Whose it is.
        time: The store's.
        server: The store itself.
        url: Its URL.
        sessions: Where to note which session is of which way.
        guarantees: What it promises.
    """

    def __init__(  # noqa: PLR0917 - all of them, once
        self,
        store: object,
        time: ManualTime,
        server: MemoryServer | CellServer,
        url: str,
        sessions: dict[str, Way],
        guarantees: Guarantees,
    ) -> None:
        super().__init__(server, url)
        self.guarantees = guarantees
        self.store = store
        self.time = time
        self.runtime: ManualRuntime | AsyncManualRuntime | None = None
        self.faults: list[Fault] = []
        self._sessions = sessions
        self.pauses = 0
        self._unanswered: set[Any] = set()
        self.blocking_driver = self._drive
        self.asyncio_driver = self._drive_async

    def _drive(self, backend: Backend, settings: Settings) -> ManualRuntime:
        self.runtime = ManualRuntime(self.time, backend, settings)
        return self.runtime

    def _drive_async(self, backend: Backend, settings: Settings) -> AsyncManualRuntime:
        self.runtime = AsyncManualRuntime(self.time, backend, settings)
        return self.runtime

    @property
    def closed(self) -> bool:
        """Whether the client was closed, or never came to be."""
        return self.runtime is None or self.runtime.state.closed is not None

    def connection(self, on_end: OnEnd) -> _Connection:
        """Return a new blocking connection."""
        return _Connection(self)

    def async_connection(self, on_end: OnEnd) -> _AsyncConnection:
        """Return a new asyncio connection."""
        return _AsyncConnection(self)

    def answers(self) -> bool:
        """Whether requests are answered; those under way when a pause or the client ends are lost."""
        return self.pauses == 0 or self.closed

    def stir(self) -> None:
        """Have the requests that wait for an answer look whether any will come."""
        with self.time.lock:
            for mailbox in self._unanswered:
                self.time.wake(mailbox)

    @contextmanager
    def unanswered(self, request: Any) -> Generator[None]:
        """Wait in here; there will be no answer."""
        with self.time.lock:
            self._unanswered.add(request.mailbox)
        try:
            yield
        finally:
            with self.time.lock:
                self._unanswered.discard(request.mailbox)
        if self.closed:  # so that it ends at once: there is nobody left to ask again
            raise SessionLost("the client was closed while it was paused; its session ends by itself")
        raise StoreUnavailable(self.label, "the test has paused this client")

    def carry_out(self, request: Any) -> Any:
        """Carry a request out, unless a fault says otherwise."""
        with self.time.lock:
            fault = self._strikes(request.op)
            if fault is not None and not fault.carried_out:
                raise fault.error
            reply = self.server.handle(request)
            if isinstance(request.op, Open):
                self._sessions[reply.id] = self
            if fault is not None:
                raise fault.error
            return reply

    def _strikes(self, op: StoreOp[Any]) -> Fault | None:
        """Return the first fault that concerns this operation, and count it."""
        asked = _OPERATIONS.get(type(op), "write")  # with its receipt it is an operation of the store's own
        if isinstance(op, Check) and not op.targets:
            asked = "verify"
        for fault in self.faults:
            if fault.operation in (None, asked):
                fault.left -= 1
                self.faults = [fault for fault in self.faults if fault.left > 0]
                return fault
        return None


class _Connection(MemoryConnection):
    """The blocking way of one session."""

    def __init__(self, way: Way) -> None:
        super().__init__(way.server)
        self._way = way

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Carry the command out, or wait in vain."""
        way, mailbox = self._way, request.mailbox  # type: ignore[attr-defined]
        if way.pauses:
            with way.unanswered(request):
                mailbox.wait(way.time.after(timeout_s), way.answers)
        return way.carry_out(request)

    def close(self) -> None:
        """Let go of the requests that wait."""
        self._way.stir()


class _AsyncConnection(AsyncMemoryConnection):
    """The asyncio way of one session."""

    def __init__(self, way: Way) -> None:
        super().__init__(way.server)
        self._way = way

    async def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Carry the command out, or wait in vain."""
        way, mailbox = self._way, request.mailbox  # type: ignore[attr-defined]
        if way.pauses:
            with way.unanswered(request):
                await mailbox.wait(way.time.after(timeout_s), way.answers)
        return way.carry_out(request)

    async def close(self) -> None:
        """Let go of the requests that wait."""
        self._way.stir()
