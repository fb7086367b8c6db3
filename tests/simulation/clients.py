"""Simulated clients: the package's own runtime, without threads, sockets or a clock of its own."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from recipes._contract.deadline import Deadline
from recipes._programs.cleaner import Job, clean, rest
from recipes._programs.hold import HeldState
from recipes._programs.session import keep
from recipes._run.interpreter import interpret
from recipes._run.runtime import Call, Runtime, Settings
from recipes.events import Transition
from tests.simulation.moving import Gate, Task
from tests.simulation.world import World

__all__ = ["Cancelled", "Client", "SimRuntime"]


class Cancelled(BaseException):
    """A cancellation or an interrupt that strikes a call."""


class Mailbox:
    """Where a call receives events; the oracle listens.

    Attributes:
        task: What waits for them; None: nothing does yet.
    """

    __slots__ = ("events", "heard", "task")

    def __init__(self, task: Task | None, heard: Any) -> None:
        self.task = task
        self.heard = heard
        self.events: deque[Any] = deque()

    def post(self, event: Any) -> None:
        self.heard(event, self)
        self.events.append(event)
        if self.task is not None:
            self.task.wake()

    def clear(self) -> None:
        self.events.clear()


class SimRuntime(Runtime):
    """The runtime of one simulated client: everything of the real one that does not wait."""

    on_a_beat = False  # that of this process is another each time

    def __init__(self, client: Client, settings: Settings) -> None:
        super().__init__(client, settings)  # type: ignore[arg-type]
        self.client = client
        self.jobs: deque[Job] = deque()
        self.keepalive: Task | None = None
        self.cleaner: Task | None = None

    def now(self) -> float:  # type: ignore[override]
        return self.client.local

    def emit(self, transition: Transition) -> None:
        client = self.client
        if client.world.trace is not None:
            client.world.note(client.name, transition.event, str(transition.fields()))

    def admit(self, call: Call, op: Any) -> HeldState:
        hold = super().admit(call, op)
        self.client.oracle.admitted(self.client, hold)
        return hold

    def abandon(self, call: Call, ticket: Any, entry: Any = None) -> None:
        self.client.oracle.left += 1
        super().abandon(call, ticket, entry)

    def make_connection(self, on_end: Any) -> Any:
        return self.client.make_connection(on_end)

    def new_session(self) -> Any:
        session = super().new_session()
        self.client.sessions.append(session)
        return session

    def run_behind(self, program: Any, call: Any) -> None:
        client = self.client
        task = Task(client, f"{client.name}.hub", program, daemon=True)
        task.steps = client.run(task, call, program)
        call.mailbox.task = task
        client.world.start(task)

    def call(self, owner: object, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        """Begin a call that some task will run later."""
        client = self.client
        deadline = Deadline.after(timeout_s, client.local)
        return Call(self, Mailbox(None, client.oracle.heard), owner, deadline, fail_fast)

    def begin(self, task: Task, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        client = self.client
        deadline = Deadline.after(timeout_s, client.local)
        call = Call(self, Mailbox(task, client.oracle.heard), task, deadline, fail_fast)
        task.call = call
        return call

    def want_session(self) -> None:
        if self.keepalive is None:
            client = self.client
            self.keepalive = Task(client, f"{client.name}.keepalive", self._keep(), daemon=True)
            client.world.start(self.keepalive)
        if self.state.refused is not None:
            self.state.refused = None
            self.state.wake_keepalive()

    def _keep(self) -> Generator[Any, Any, None]:
        task = self.keepalive
        assert task is not None
        call = self.begin(task, None)
        self.state.keepalive = call.mailbox
        yield from interpret(keep(self.state, self.settings.session_timeout_s, lambda: call.session), call)

    def leave(self) -> None:
        """Nothing to leave: it lives in one thread."""

    def in_turn(self) -> Callable[[Callable[[], object]], None]:
        return lambda callback: None  # users of the simulation have none

    def clean_up(self, job: Job) -> None:
        """Have the cleaner do a job, or a task of its own if it ends a session, as in both real runtimes."""
        if job.ends_session:
            self.client.world.start(self._cleaning("closer", deque((job,))))
            return
        self.jobs.append(job)
        if self.cleaner is None or self.cleaner.done:
            self.cleaner = self._cleaning("cleaner", self.jobs)
            self.client.world.start(self.cleaner)

    def _cleaning(self, name: str, jobs: deque[Job]) -> Task:
        task = Task(self.client, f"{self.client.name}.{name}", _nothing(), daemon=True)
        task.steps = self._clean(task, jobs)
        return task

    def _clean(self, task: Task, jobs: deque[Job]) -> Generator[Any, Any, None]:
        while jobs:
            job = jobs.popleft()
            call = self.begin(task, self.settles_within(job))
            call.session = job.session
            self.state.join(call.mailbox)
            try:
                done = yield from interpret(clean(job), call)
            finally:
                call.finish()
                if job.ends_session:
                    job.session.connection.close()
            if done:
                self.client.oracle.settles(self.client, job)
                self.cleaned(job)
            else:
                yield from interpret(rest(self.now()), self.begin(task, None))
                jobs.append(job)


def _nothing() -> Generator[Any, Any, None]:
    yield from ()


class Client:
    """One process: a runtime, and a clock of its own.

    Attributes:
        waiters: What its clock says.
        known: The version of the value that it read last.
        sum: The number of the counter that it read last.
        wrote: The session on which a write with this number was sent last.
        gate: Closed while the process is stopped.
    """

    label = "model"
    servers = 1

    def __init__(
        self, world: World, number: int, store: Any, *, offset: float, rate: float, ttl_s: float
    ) -> None:
        self.world = world
        self.oracle: Any = None
        self.number = number
        self.name = chr(ord("A") + number)
        self.store = store
        self.guarantees = store.guarantees
        self.offset = offset
        self.rate = rate
        self.pace = 1.0 / rate
        self.local = world.now * rate + offset
        self.gate = Gate()
        self.paused = False
        self.dead = False
        self.healthy_since = world.now
        self.sessions: list[Any] = []
        self.connections: list[Any] = []
        self.ids = itertools.count(1)
        self.known = self.sum = 0
        self.wrote: dict[int, Any] = {}
        self.numbers = itertools.count(100 * number)
        self.runtime = SimRuntime(self, Settings(ttl_s, 1.0))
        world.clients.append(self)

    def next_number(self) -> int:
        """Number the tasks of all clients."""
        return next(self.numbers)

    def protocol(self) -> Any:
        return self.store.protocol(self)

    def check_name(self, queue: str) -> None:
        """Take any, as most stores do."""

    def make_connection(self, on_end: Any) -> Any:
        connection = self.store.connection(self, on_end)
        self.connections.append(connection)
        return connection

    def new_id(self) -> str:
        return f"{ord(self.name):08x}-0000-4000-8000-{next(self.ids):012x}"

    def stop(self, *, paused: bool = True) -> None:
        """Stop the process, or let it go on."""
        self.paused = paused
        self.gate.open = not paused
        for connection in self.connections:
            connection.set_gates()

    def die(self) -> None:
        """End without a word; what was under way is still delivered."""
        if not self.dead:
            self.dead = True
            mine = [task for task in self.world.tasks if task.client is self and not task.daemon]
            self.world.unfinished -= len(mine)
        self.stop()

    def run(self, task: Task, call: Call, program: Any) -> Generator[Any, Any, Any]:
        """As the real drivers run a program."""
        task.call = call
        try:
            return (yield from interpret(program, call))
        except BaseException:
            call.unwind()
            raise
        finally:
            call.finish()
