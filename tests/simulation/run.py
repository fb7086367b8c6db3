"""One schedule, from its seed to its verdict; and many."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from recipes._core.cleaner import Job, clean
from recipes._core.order import EXCLUSIVE, Order
from tests.simulation.clients import Client
from tests.simulation.etcd_model import EtcdStore
from tests.simulation.faults import Injector
from tests.simulation.oracles import Oracle
from tests.simulation.world import Task, Violation, World
from tests.simulation.zookeeper_model import LAST, ZooKeeperStore

__all__ = ["Schedule", "Verdict", "run"]

TTL_S = 4.0
MOST_STEPS = 20_000


@dataclass(slots=True)
class Schedule:
    """What decides a run, beside the code."""

    store: str
    seed: int
    clients: int = 3
    rounds: int = 2
    pct: bool | None = None
    fault_at: tuple[int, str] | None = None
    trace: bool = False
    order: Order = EXCLUSIVE


@dataclass(slots=True)
class Verdict:
    """What came of it."""

    schedule: Schedule
    violation: str | None
    requests: int
    steps: int
    grants: int
    faults: list[str]
    fingerprint: int
    trace: list[str] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        """Whether it was long and hard enough to count."""
        return self.requests >= 100 and bool(self.faults)


def run(schedule: Schedule) -> Verdict:
    """Run one schedule to its end."""
    random.seed(schedule.seed)  # the package's own jitter
    pct = schedule.seed % 4 == 3 if schedule.pct is None else schedule.pct
    world = World(schedule.seed, pct=pct)
    if schedule.trace:
        world.trace = []
    scene = Scene(world, schedule)
    violation = None
    try:
        scene.play()
    except Violation as broken:
        violation = str(broken)
    except Exception as error:
        if schedule.trace:
            raise
        violation = f"{type(error).__name__}: {error}"
    world.over = True
    return Verdict(
        schedule,
        violation,
        world.requests,
        world.steps,
        scene.oracle.grants,
        scene.injector.done,
        world.hash,
        world.trace or [],
    )


class Scene:
    """The clients, the store, the faults and the oracle of one schedule."""

    def __init__(self, world: World, schedule: Schedule) -> None:
        self.world = world
        self.schedule = schedule
        rng = world.rng
        self.store = _store(schedule.store, world, rng)
        self.oracle = Oracle(world, self.store, ttl_s=TTL_S)
        world.oracle = self.oracle  # type: ignore[attr-defined]
        self.clients = [
            Client(
                world,
                "ABCDEFGH"[number],
                self.store,
                offset=rng.uniform(0, 1e6),
                rate=rng.uniform(0.96, 1.04),
                ttl_s=TTL_S,
            )
            for number in range(schedule.clients)
        ]
        self.oracle.clients = self.clients
        self.injector = Injector(self)
        self.users: list[Task] = []

    def play(self) -> None:
        """Start the users, let the scheduler choose until they are done, and look at what is left."""
        rng, world = self.world.rng, self.world
        for client in self.clients:
            for number in range(1 if rng.random() < 0.4 else 2):
                task = Task(client, f"{client.name}{number}", _nothing())
                task.steps = client.user(task, self.schedule.rounds, "q", self.schedule.order)
                self.users.append(task)
        for task in self.users:
            world.start(task)
        self._until_done(self._choose)
        self.injector.heal()
        self._until_done(self._choose_calmly)
        self.oracle.stuck(self._waiting())
        self._pass(5.0)
        self.oracle.settled()
        self._close()

    def _waiting(self) -> list[Task]:
        return [task for task in self.users if not task.done and not task.client.dead]

    def _until_done(self, choose: Callable[[], None]) -> None:
        end = self.world.steps + MOST_STEPS
        until = self.world.now + 60 * TTL_S
        while self._waiting() and self.world.steps < end and self.world.now < until:
            choose()

    def _choose(self) -> None:
        world = self.world
        self.injector.maybe()
        if world.random() < 0.04 or not world.step():
            self._time()
        self.injector.step()

    def _choose_calmly(self) -> None:
        if not self.world.step():
            self._time()

    def _time(self) -> None:
        if not self.world.pipes and not self.world.ready and not getattr(self.store, "late", None):
            self.oracle.quiet()
        if not self.world.advance():
            self.world.now += 0.5
            for tick in self.world.ticks:
                tick()
        self.oracle.observe()

    def _close(self) -> None:
        """Close every client that lives, as its runtime does, and wait until all sessions have ended."""
        for client in self.clients:
            if client.dead:
                continue
            board = client.runtime.board
            board.closed = "closed"
            epoch = board.epoch
            if epoch is not None:
                board.ended(epoch, "the client was closed")
                task = Task(client, f"{client.name}.close", _nothing(), daemon=True)
                call = client.runtime.begin(task, 2.0)
                call.epoch = epoch
                task.steps = _close(client, task, call, epoch)
                self.world.start(task)
            board.tell_keeper()
        self._pass(4 * TTL_S)
        self.oracle.finish()

    def _pass(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            if not self.world.step() and not self.world.advance(until):
                self.world.now = until
                for tick in self.world.ticks:
                    tick()


def _close(client: Client, task: Task, call: Any, epoch: Any) -> Any:
    yield from client.run(task, call, clean(Job(epoch, None)))
    epoch.link.close()


def _nothing() -> Any:
    yield from ()


def _store(name: str, world: World, rng: random.Random) -> Any:
    rate = rng.uniform(0.96, 1.04)
    if name == "etcd":
        return EtcdStore(world, rate=rate)
    counter = LAST - 3 if rng.random() < 0.1 else 0
    return ZooKeeperStore(world, rate=rate, counter=counter, wraps=rng.random() < 0.5)
