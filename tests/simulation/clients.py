"""Simulated clients: the package's own runtime, without threads, sockets or a clock of its own."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Generator
from typing import Any

from recipes._core.cleaner import Job, clean
from recipes._core.deadline import Deadline
from recipes._core.hold import Hold
from recipes._core.order import EXCLUSIVE, Order
from recipes._core.queueing import Attempt, acquire, release, try_acquire
from recipes._core.session import keep
from recipes._run.interpret import Receive, interpret
from recipes._run.runtime import Call, Runtime, Settings
from recipes.errors import LockTimeout, SessionLost, StoreError
from recipes.events import Transition
from tests.simulation.world import Task, World

__all__ = ["Cancelled", "Client", "SimRuntime"]

LABELS = {"lock": "q", "recipe": "lock", "mode": "exclusive", "store": "model"}


class Cancelled(BaseException):
    """A cancellation or an interrupt that strikes a call."""


class Mailbox:
    __slots__ = ("events", "task", "world")

    def __init__(self, world: World, task: Task | None) -> None:
        self.world = world
        self.task = task
        self.events: deque[Any] = deque()

    def post(self, event: Any) -> None:
        self.world.oracle.heard(event, self)  # type: ignore[attr-defined]
        self.events.append(event)
        if self.task is not None:
            self.world.wake(self.task)


class SimRuntime(Runtime):
    """The runtime of one simulated client: everything of the real one that does not wait."""

    def __init__(self, client: Client, settings: Settings) -> None:
        super().__init__(client, settings)  # type: ignore[arg-type]
        self.client = client
        self.jobs: deque[Job] = deque()
        self.keeper: Task | None = None
        self.cleaner: Task | None = None

    def now(self) -> float:  # type: ignore[override]
        client = self.client
        return client.world.now * client.rate + client.offset

    def emit(self, transition: Transition) -> None:
        self.client.emitted(transition)

    def admit(self, call: Call, op: Any) -> Hold:
        hold = super().admit(call, op)
        self.client.world.oracle.admitted(self.client, hold)  # type: ignore[attr-defined]
        return hold

    def abandon(self, call: Call, spot: Any, place: Any = None) -> None:
        self.client.world.oracle.left += 1  # type: ignore[attr-defined]
        super().abandon(call, spot, place)

    def make_link(self, on_end: Any) -> Any:
        return self.client.make_link(on_end)

    def new_epoch(self) -> Any:
        epoch = super().new_epoch()
        self.client.epochs.append(epoch)
        return epoch

    def begin(self, task: Task, timeout_s: float | None, *, fail_fast: bool = False) -> Call:
        deadline = Deadline.after(timeout_s, self.now())
        call = Call(self, Mailbox(self.client.world, task), task, deadline, fail_fast)
        task.call = call
        return call

    def want_session(self) -> None:
        if self.keeper is None:
            client = self.client
            self.keeper = Task(client, f"{client.name}.keeper", self._keep(), daemon=True)
            client.world.start(self.keeper)
        if self.board.refused is not None:
            self.board.refused = None
            self.board.tell_keeper()

    def _keep(self) -> Generator[Any, Any, None]:
        task = self.keeper
        assert task is not None
        call = self.begin(task, None)
        self.board.keeper = call.mailbox
        yield from interpret(keep(self.board, self.settings.session_timeout_s, lambda: call.epoch), call)

    def clean_up(self, job: Job) -> None:
        self.jobs.append(job)
        if self.cleaner is None or self.cleaner.done:
            client = self.client
            self.cleaner = Task(client, f"{client.name}.cleaner", self._clean(), daemon=True)
            client.world.start(self.cleaner)

    def _clean(self) -> Generator[Any, Any, None]:
        while self.jobs:
            job = self.jobs.popleft()
            task = self.cleaner
            assert task is not None
            call = self.begin(task, self.settles_within(job))
            call.epoch = job.epoch
            self.board.join(call.mailbox)
            try:
                done = yield from interpret(clean(job), call)
            finally:
                call.finish()
                if job.spot is None:
                    job.epoch.link.close()
            if done:
                self.cleaned(job)
            else:
                self.jobs.append(job)


class Client:
    """One process: a clock of its own, a runtime, and what it does."""

    offset: float
    rate: float

    def __init__(
        self, world: World, name: str, store: Any, *, offset: float, rate: float, ttl_s: float
    ) -> None:
        self.world = world
        self.name = name
        self.store = store
        self.offset = offset
        self.rate = rate
        self.paused = False
        self.dead = False
        self.healthy_since = world.now
        self.epochs: list[Any] = []
        self.ids = itertools.count(1)
        self.runtime = SimRuntime(self, Settings(ttl_s, 1.0))

    label = "model"
    servers = 1

    def protocol(self) -> Any:
        return self.store.protocol(self)

    def make_link(self, on_end: Any) -> Any:
        return self.store.link(self, on_end)

    def new_id(self) -> str:
        return f"{ord(self.name[0]):08x}-0000-4000-8000-{next(self.ids):012x}"

    def emitted(self, transition: Transition) -> None:
        world = self.world
        if world.trace is not None:
            world.note(self.name, transition.event, str(transition.fields()))

    # What users do.

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

    def attempt(self, queue: str, order: Order, timeout_s: float | None) -> Attempt:
        return Attempt(queue, order, self.new_id, LABELS, timeout_s)

    def user(
        self, task: Task, rounds: int, queue: str, order: Order = EXCLUSIVE
    ) -> Generator[Any, Any, None]:
        """Acquire in some way, hold for a while, write, release; several times."""
        world, runtime = self.world, self.runtime
        rng, oracle = world.rng, world.oracle  # type: ignore[attr-defined]
        for _ in range(rounds):
            way = rng.random()
            try:
                began = oracle.asking(self)
                if way < 0.15:
                    call = runtime.begin(task, 1.0, fail_fast=True)
                    hold = yield from self.run(task, call, try_acquire(self.attempt(queue, order, 0.0)))
                else:
                    timeout = None if way < 0.75 else rng.uniform(0.1, 8.0)
                    call = runtime.begin(task, timeout)
                    hold = yield from self.run(task, call, acquire(self.attempt(queue, order, timeout)))
                if hold is None:
                    continue
                oracle.granted(self, hold, began)
                oracle.write(self, hold)
                try:
                    yield from self.sleep(task, rng.choice((0.0, 0.0, 0.0, 0.2, 0.2, 3.0, 9.0)))
                except Cancelled:
                    pass  # the with statement releases all the same
                oracle.write(self, hold)
                if oracle.releasing(self, hold, hold.release(runtime.now())):
                    call = runtime.begin(task, 1.0)
                    call.epoch, call.spot, call.place = hold.epoch, hold.place.spot, hold.place
                    yield from self.run(task, call, release(hold))
            except (LockTimeout, StoreError, SessionLost, Cancelled):
                continue

    def sleep(self, task: Task, seconds: float) -> Generator[Any, Any, None]:
        self.runtime.begin(task, None)
        yield Receive(seconds)
