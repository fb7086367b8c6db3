"""A client's parts with the time in the test's hand: a clock, a link that does as it is told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from recipes._contract.backend import Engine
from recipes._contract.connection import Request
from recipes._contract.deadline import NEVER, Deadline
from recipes._contract.wakeups import Event
from recipes._programs.cleaner import Job
from recipes._programs.hold import Epoch
from recipes._run.runtime import Call, Runtime, Settings
from recipes.events import Transition
from recipes.stores.memory import AsyncMemoryLink, MemoryEngine, MemoryLink, MemoryServer

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


class HandRuntime(Runtime):
    """The runtime without a driver: keeps what it is asked for."""

    def __init__(self, engine: Engine | None = None, settings: Settings = SETTINGS) -> None:
        super().__init__(engine or MemoryEngine(MemoryServer()), settings)
        self.clock = ManualClock()
        self.wanted = 0
        self.on_want: Callable[[], None] = lambda: None
        self.jobs: list[Job] = []
        self.told: list[Transition] = []

    def now(self) -> float:  # type: ignore[override]
        return self.clock()

    def emit(self, transition: Transition) -> None:
        self.told.append(transition)

    def make_link(self, on_end: Any) -> Any:
        return self.engine.link(on_end)

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
        self, *, epoch: Epoch | None = None, deadline: Deadline = NEVER, fail_fast: bool = False
    ) -> Call:
        return Call(self, Box(), "owner", deadline, fail_fast, epoch)

    def live(self, ttl_s: float = 15.0) -> Epoch:
        """A session that is live on the board, without having been asked for."""
        epoch = self.new_epoch()
        epoch.begin("s1", ttl_s, self.now())
        self.board.started(epoch)
        return epoch


Fault = Callable[[Request[Any]], Any]


class FaultyEngine(MemoryEngine):
    """A store in memory of which each request goes through ``fault`` first.

    ``before`` is called with each request, and ``after`` with its reply made: what they raise
    is the outcome, so ``after`` is a lost reply.
    """

    def __init__(self, server: MemoryServer | None = None) -> None:
        super().__init__(server or MemoryServer())
        self.before: Fault = lambda request: None
        self.after: Fault = lambda request: None
        self.asked: list[str] = []
        self.closed_links = 0
        self.on_ends: list[Any] = []

    def pass_on(self, request: Any, ask: Callable[[], Any]) -> Any:
        self.asked.append(type(request.op).__name__)
        self.before(request)
        reply = ask()
        self.after(request)
        return reply

    def link(self, on_end: Any) -> Any:
        self.on_ends.append(on_end)
        return _FaultyLink(self)

    def async_link(self, on_end: Any) -> Any:
        self.on_ends.append(on_end)
        return _AsyncFaultyLink(self)


class _FaultyLink(MemoryLink):
    def __init__(self, engine: FaultyEngine) -> None:
        super().__init__(engine.server)
        self._engine = engine

    def ask(self, request: Any, timeout_s: float) -> Any:
        return self._engine.pass_on(request, lambda: super(_FaultyLink, self).ask(request, timeout_s))

    def close(self) -> None:
        self._engine.closed_links += 1


class _AsyncFaultyLink(AsyncMemoryLink):
    def __init__(self, engine: FaultyEngine) -> None:
        super().__init__(engine.server)
        self._engine = engine

    async def ask(self, request: Any, timeout_s: float) -> Any:
        return self._engine.pass_on(request, lambda: self._blocking.ask(request, timeout_s))

    async def close(self) -> None:
        self._engine.closed_links += 1
