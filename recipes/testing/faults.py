"""One client's way to a store for tests, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from recipes._contract.connection import Request
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
from recipes._record import record
from recipes._run.lanes import Inbox
from recipes._run.manual import AsyncManualRuntime, ManualRuntime, ManualTime
from recipes.errors import SessionLost, StoreError, StoreUnavailable
from recipes.stores.memory import AsyncMemoryConnection, MemoryBackend, MemoryConnection, MemoryServer

if TYPE_CHECKING:
    from recipes._contract.backend import Backend
    from recipes._contract.connection import OnEnd
    from recipes._contract.protocol import RequestContext, Steps, StoreProtocol
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
asked again.) A store without a queue is never asked "downgrade", "read" or "write". There one that waits
tries to take the lock again, which is "wait"; and a client that holds nothing sends nothing to "close"."""

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
_OF_QUEUES: tuple[Operation, ...] = ("downgrade", "read", "write")
"""What a store is never asked that keeps one holder and no queue: the recipes that would are refused."""
_CALLED = "start", "open", "renew", "watch", "write", "settle", "end"
"""The methods of a protocol that the interpreter calls."""


@record
class _Asked(Request[Any]):
    """A request, and the client's operation that it is part of: of another protocol it may be anything."""

    request: Any
    op: StoreOp[Any]

    @property
    def mailbox(self) -> Any:
        """Where the call receives events, of which this is; what runs in it beside others has none."""
        own = self.request.mailbox
        return own.shared if isinstance(own, Inbox) else own


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

    def refuse(self, operation: Operation | None) -> None:
        """Refuse a fault that would never strike.

        Raises:
            ValueError: There is no such operation, or this store is never asked it.
        """
        there_are = get_args(Operation)
        known = [one for one in there_are if self.guarantees.order == "arrival" or one not in _OF_QUEUES]
        if operation is None or operation in known:
            return
        wrong = f"this store is never asked {operation!r}" if operation in there_are else None
        raise ValueError(f"{wrong or f'unknown operation {operation!r}'}: use one of {', '.join(known)}")

    def protocol(self) -> StoreProtocol:
        """Return the protocol for one session, whose requests say what they are part of."""
        protocol = super().protocol()
        for name in _CALLED:
            setattr(protocol, name, partial(_naming, getattr(protocol, name)))
        return protocol

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
    def unanswered(self, mailbox: Any) -> Generator[None]:
        """Wait in here; there will be no answer."""
        with self.time.lock:
            self._unanswered.add(mailbox)
        try:
            yield
        finally:
            with self.time.lock:
                self._unanswered.discard(mailbox)
        if self.closed:  # so that it ends at once: there is nobody left to ask again
            raise SessionLost("the client was closed while it was paused; its session ends by itself")
        raise StoreUnavailable(self.label, "the test has paused this client")

    def carry_out(self, asked: _Asked) -> Any:
        """Carry a request out, unless a fault says otherwise."""
        with self.time.lock:
            fault = self._strikes(asked.op)
            if fault is not None and not fault.carried_out:
                raise fault.error
            reply = self.server.handle(asked.request)
            if isinstance(asked.op, Open):
                self._sessions[reply.id] = self
            if fault is not None:
                raise fault.error
            return reply

    def _strikes(self, op: StoreOp[Any]) -> Fault | None:
        """Return the first fault that concerns this operation, and count it."""
        name = _OPERATIONS[type(op)]
        if isinstance(op, Check) and not op.targets:
            name = "verify"
        for fault in self.faults:
            if fault.operation in (None, name):
                fault.left -= 1
                self.faults = [fault for fault in self.faults if fault.left > 0]
                return fault
        return None


def _naming(carry_out: Callable[..., Steps[Any]], op: StoreOp[Any], context: RequestContext) -> Steps[Any]:
    """Have each request of a protocol's method say for which operation it is."""
    steps = carry_out(op, context)
    go_on: Callable[[], Any] = partial(next, steps)
    while True:
        try:
            request = go_on()
        except StopIteration as stop:
            return stop.value
        try:
            # One of these methods may be carried out by another.
            reply = yield request if isinstance(request, _Asked) else _Asked(request, op)
        except BaseException as error:  # also that of a generator which is closed
            go_on = partial(steps.throw, error)
        else:
            go_on = partial(steps.send, reply)


class _Connection(MemoryConnection):
    """The blocking way of one session."""

    def __init__(self, way: Way) -> None:
        super().__init__(way.server)
        self._way = way

    def ask(self, request: Request[Any], timeout_s: float) -> Any:
        """Carry the command out, or wait in vain."""
        assert isinstance(request, _Asked), f"{request!r} should say what it is part of"
        way, mailbox = self._way, request.mailbox
        if way.pauses:
            with way.unanswered(mailbox):
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
        assert isinstance(request, _Asked), f"{request!r} should say what it is part of"
        way, mailbox = self._way, request.mailbox
        if way.pauses:
            with way.unanswered(mailbox):
                await mailbox.wait(way.time.after(timeout_s), way.answers)
        return way.carry_out(request)

    async def close(self) -> None:
        """Let go of the requests that wait."""
        self._way.stir()
