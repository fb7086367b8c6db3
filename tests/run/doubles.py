"""A client's parts with the time in the test's hand: a clock, a connection that does as it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from recipes._contract.backend import Backend
from recipes._contract.connection import Request
from recipes._contract.deadline import NEVER, Deadline
from recipes._contract.wakeups import Event
from recipes._programs.cleaner import Job
from recipes._programs.hold import StoreSession
from recipes._run.runtime import Call, Runtime, Settings
from recipes.events import Transition
from recipes.stores.memory import AsyncMemoryConnection, MemoryBackend, MemoryConnection, MemoryServer

SETTINGS = Settings(session_timeout_s=15.0, request_timeout_s=5.0)
FAST = Settings(session_timeout_s=15.0, request_timeout_s=0.1)


class ManualClock:
    def __init__(self, time: float = 1000.0) -> None:
        self.time = time

    def __call__(self) -> float:
        return self.time


class Box:
    """A mailbox that only keeps."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque()

    def post(self, event: Event) -> None:
        self.events.append(event)

    def clear(self) -> None:
        self.events.clear()


class HandRuntime(Runtime):
    """The runtime without a driver: keeps what it is asked for."""

    on_a_beat = False

    def __init__(self, backend: Backend | None = None, settings: Settings = SETTINGS) -> None:
        super().__init__(backend or MemoryBackend(MemoryServer()), settings)
        self.clock = ManualClock()
        self.wanted = 0
        self.on_want: Callable[[], None] = lambda: None
        self.jobs: list[Job] = []
        self.told: list[Transition] = []

    def now(self) -> float:  # type: ignore[override]
        return self.clock()

    def emit(self, transition: Transition) -> None:
        self.told.append(transition)

    def make_connection(self, on_end: Any) -> Any:
        return self.backend.connection(on_end)

    def want_session(self) -> None:
        self.wanted += 1
        self.on_want()

    def run_behind(self, program: Any, call: Any) -> None:
        raise AssertionError("nothing is observed here")

    def clean_up(self, job: Job) -> None:
        self.jobs.append(job)

    def leave(self) -> None:
        """Nothing to leave: it lives in one thread."""

    def in_turn(self) -> Callable[[Callable[[], object]], None]:
        return lambda callback: None

    def call(
        self, *, session: StoreSession | None = None, deadline: Deadline = NEVER, fail_fast: bool = False
    ) -> Call:
        return Call(self, Box(), "owner", deadline, fail_fast, session)

    def live(self, ttl_s: float = 15.0) -> StoreSession:
        """A session that is live on the board, without having been asked for."""
        session = self.new_session()
        session.begin("s1", ttl_s, self.now())
        self.state.started(session)
        return session


Fault = Callable[[Request[Any]], Any]


class FaultyBackend(MemoryBackend):
    """A store in memory of which each request goes through ``fault`` first.

    ``before`` is called with each request, and ``after`` with its reply made: what they raise
    is the outcome, so ``after`` is a lost reply.
    """

    def __init__(self, server: MemoryServer | None = None) -> None:
        super().__init__(server or MemoryServer())
        self.before: Fault = lambda request: None
        self.after: Fault = lambda request: None
        self.asked: list[str] = []
        self.closed_connections = 0
        self.on_ends: list[Any] = []

    def pass_on(self, request: Any, ask: Callable[[], Any]) -> Any:
        self.asked.append(type(request.op).__name__)
        self.before(request)
        reply = ask()
        self.after(request)
        return reply

    def connection(self, on_end: Any) -> Any:
        self.on_ends.append(on_end)
        return _FaultyConnection(self)

    def async_connection(self, on_end: Any) -> Any:
        self.on_ends.append(on_end)
        return _AsyncFaultyConnection(self)


class _FaultyConnection(MemoryConnection):
    def __init__(self, backend: FaultyBackend) -> None:
        super().__init__(backend.server)
        self._backend = backend

    def ask(self, request: Any, timeout_s: float) -> Any:
        return self._backend.pass_on(request, lambda: super(_FaultyConnection, self).ask(request, timeout_s))

    def close(self) -> None:
        self._backend.closed_connections += 1


class _AsyncFaultyConnection(AsyncMemoryConnection):
    def __init__(self, backend: FaultyBackend) -> None:
        super().__init__(backend.server)
        self._backend = backend

    async def ask(self, request: Any, timeout_s: float) -> Any:
        return self._backend.pass_on(request, lambda: self._blocking.ask(request, timeout_s))

    async def close(self) -> None:
        self._backend.closed_connections += 1
