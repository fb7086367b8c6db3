"""One schedule, from its seed to its verdict; and many."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog  # noqa: F401 - its first import may draw random numbers, and a first run would miss them

from recipes._contract.rule import Rule
from recipes._programs.cleaner import Job, clean
from recipes._programs.session import SessionEvent
from recipes._rules.exclusive import EXCLUSIVE
from tests.simulation.barrier import BARRIER
from tests.simulation.cell_store import CellStore
from tests.simulation.clients import Client
from tests.simulation.election import ELECTION
from tests.simulation.etcd_store import EtcdStore
from tests.simulation.group import GROUP
from tests.simulation.injector import Injector
from tests.simulation.moving import Task
from tests.simulation.multilock import MULTILOCK
from tests.simulation.partitions import PARTITIONS
from tests.simulation.redis_store import RedisStore
from tests.simulation.sql_store import SqlStore
from tests.simulation.users import FLAVOURS, flavour, user
from tests.simulation.uses import LOCKS, MIXED_LOCKS, SEMAPHORES
from tests.simulation.values import VALUES
from tests.simulation.world import Violation, World
from tests.simulation.zookeeper_model import LAST, ZooKeeperStore
from tests.simulation.zookeeper_server import TICK_S

__all__ = ["USES", "Schedule", "Verdict", "run"]

TTL_S = 4.0
RATES = (0.9535, 1.0487)
"""How fast clocks run: at most 10 % apart (A3)."""
ENDS_WITHIN_S = TTL_S * 1.1 + 2 * TICK_S
RECOVERS_WITHIN_S = 3 * TTL_S
"""When whatever became of a session, or a watch, an observer sees what there is."""
OBSERVERS = (0, 1, 1, 2)
"""How many observe by one client."""
MOST_STEPS = 20_000
USES = {
    "locks": LOCKS,
    "mixed": MIXED_LOCKS,
    "permits": SEMAPHORES,
    "election": ELECTION,
    "group": GROUP,
    "multilock": MULTILOCK,
    "partitions": PARTITIONS,
    "values": VALUES,
    "barrier": BARRIER,
}
"""What users do, by the name that ``--of`` has for it."""


@dataclass(slots=True)
class Schedule:
    """What decides a run, beside the code.

    Attributes:
        rounds: How often each user at least asks for the lock.
        enough: With how many requests the users come to their end.
        pct: Choose by priorities; None: the seed decides.
        flavour: How the users behave; empty: the seed decides.
        of: What the users do, and what judges it (`USES`).
        rules: Of which each user draws one each time; empty: as ``of`` says.
        rates: How fast the clients' clocks go, and the store's; None: the seed decides, for each.
        fault_at: This one fault, at the request with this number, and no other ("": none at all).
    """

    store: str
    seed: int
    clients: int = 3
    rounds: int = 2
    enough: int = 102
    pct: bool | None = None
    flavour: str = ""
    rates: tuple[float, float] | None = None
    fault_at: tuple[int, str] | None = None
    trace: bool = False
    of: str = "locks"
    rules: tuple[Rule, ...] = ()


@dataclass(slots=True)
class Verdict:
    """What came of it."""

    schedule: Schedule
    violation: str | None
    requests: int
    steps: int
    grants: int
    handed_on: int
    observed: int
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
        scene.oracle.handed_on,
        scene.oracle.observed,
        scene.injector.done,
        world.hash,
        world.trace or [],
    )


class Scene:
    """The clients, the store, the faults and the oracle of one schedule."""

    def __init__(self, world: World, schedule: Schedule) -> None:
        self.world = world
        self.schedule = schedule
        self.flavour = FLAVOURS[schedule.flavour or flavour(schedule.seed)]
        rng = world.rng
        self.store = _store(schedule, world, rng)
        self.use = USES[schedule.of]
        self.enough = schedule.enough * self.use.times
        self.oracle = self.use.oracle(world, self.store, ttl_s=TTL_S, queues=self.use.queues)
        self.clients = [
            Client(
                world,
                number,
                self.store,
                offset=1e6 * rng.random(),
                rate=_rate(schedule, rng),
                ttl_s=TTL_S,
            )
            for number in range(schedule.clients)
        ]
        for client in self.clients:
            client.oracle = self.oracle
        self.oracle.clients = self.clients
        self.injector = Injector(self)
        self.users: list[Task] = []
        self.observers: list[Task] = []

    def play(self) -> None:
        """Start the users, let the scheduler choose until they are done, and look at what is left."""
        world, schedule = self.world, self.schedule
        use = self.use
        rules = schedule.rules or (use.rules(schedule.seed) if self.store.guarantees.shared else (EXCLUSIVE,))
        for client in self.clients:
            for number in range(1 if world.random() < 0.4 else 2):
                task = Task(client, f"{client.name}{number}", _nothing())
                task.steps = user(
                    client,
                    task,
                    self.flavour,
                    rules,
                    use.once,
                    rounds=schedule.rounds,
                    enough=self.enough,
                )
                self.users.append(task)
            if use.observer is not None:
                for number in range(world.rng.choice(OBSERVERS)):
                    task = Task(client, f"{client.name}.observer{number}", _nothing(), daemon=True)
                    task.steps = use.observer(client, task)
                    self.observers.append(task)
        for task in (*self.users, *self.observers):
            world.start(task)
        self._until_done()
        self.injector.heal()
        self._until_done(hurry=0.0)
        self.oracle.stuck([task for task in self.users if not task.done and not task.client.dead])
        if self.use.finale is not None:
            self._finale(self.use.finale)
        self._pass(5.0, self._is_clean)
        self.oracle.settled()
        self._pass(ENDS_WITHIN_S - 5.0 + self.store.ends_s, self._is_clean)
        self.oracle.settled(former=True)
        if (late := getattr(self.store, "all_has_come_by", 0.0)) > self.world.now:
            self._pass(late + 1.0 - self.world.now, lambda: False)
            self.oracle.settled()
        self._pass(RECOVERS_WITHIN_S, self.oracle.up_to_date)
        self.oracle.shown_last()
        self._close()

    def _finale(self, act: Callable[[Client, Task], Any]) -> None:
        """Have each client do one more thing, with nothing in the way; and see what it came to."""
        clients = [client for client in self.clients if not client.dead]
        tasks = [Task(client, f"{client.name}.last", _nothing()) for client in clients]
        for task in tasks:
            task.steps = act(task.client, task)
            self.world.start(task)
        self._until_done(hurry=0.0)
        self.oracle.stuck([task for task in tasks if not task.done])
        self.oracle.rested()

    def _until_done(self, hurry: float = 0.04) -> None:
        """Step by step; time hurries on now and then though something else could happen."""
        world, injector = self.world, self.injector
        end = world.steps + MOST_STEPS
        until = world.now + 60 * TTL_S
        while world.unfinished and world.steps < end and world.now < until:
            if world.requests >= injector.next_at:
                injector.now()
            if (hurry and world.random() < hurry) or not world.step():
                self._time()

    def _time(self) -> None:
        world = self.world
        if not world.moving and not getattr(self.store, "late", None):
            self.oracle.quiet()
        if not world.advance():
            world.move_to(world.now + 0.5)
        self.oracle.observe()

    def _close(self) -> None:
        """Close every client that lives, as its runtime does, and wait until all sessions have ended."""
        for client in self.clients:
            if client.dead:
                continue
            state = client.runtime.state
            state.closed = "closed"
            session = state.session
            if session is not None:
                state.ended(session, "the client was closed")
                task = Task(client, f"{client.name}.close", _nothing(), daemon=True)
                call = client.runtime.begin(task, 2.0)
                call.session = session
                task.steps = _close(client, task, call, session)
                self.world.start(task)
            state.tell(SessionEvent())
            state.wake_keepalive()
        self._pass(4 * TTL_S, self._is_empty)
        if self.use.writes and (late := getattr(self.store, "last_comes_at", 0.0)) > self.world.now:
            self._pass(late + 1.0 - self.world.now, lambda: False)
        if self.store.leftovers():  # a session that a late request has opened lasts for its time
            last = max(self.world.now, getattr(self.store, "last_comes_at", 0.0))
            self._pass(last + 2 * TTL_S - self.world.now, lambda: False)
        self.oracle.finish()

    def _pass(self, seconds: float, done: Callable[[], bool]) -> None:
        """Let so many seconds pass, or fewer if nothing more can come of it."""
        world = self.world
        until = world.now + seconds
        while world.now < until:
            if not world.step():
                if done():
                    break
                if not world.advance(until):
                    world.move_to(until)

    def _is_clean(self) -> bool:
        """Whether no cleaner has anything to do, and nothing is under way that could come to stand."""
        busy = any(client.runtime.cleaning for client in self.clients if not client.dead)
        return not (busy or self.oracle.leavings())

    def _is_empty(self) -> bool:
        return not (self.world.tasks or self.store.leftovers() or self.store.watch_count())


def _close(client: Client, task: Task, call: Any, session: Any) -> Any:
    yield from client.run(task, call, clean(Job(session, None)))
    session.connection.close()


def _nothing() -> Any:
    yield from ()


def _rate(schedule: Schedule, rng: random.Random) -> float:
    """Draw how fast a client's clock goes."""
    drawn = rng.uniform(*RATES)
    return drawn if schedule.rates is None else schedule.rates[0]


def _store(schedule: Schedule, world: World, rng: random.Random) -> Any:
    drawn = rng.uniform(*RATES)
    rate = drawn if schedule.rates is None else schedule.rates[1]
    if schedule.store == "etcd":
        return EtcdStore(world, rate=rate)
    if schedule.store == "cell":
        return CellStore(world, rate=rate)
    if schedule.store == "redis":
        return RedisStore(world, rate=rate)
    if schedule.store in {"sql", "sql-polling"}:
        return SqlStore(world, rate=rate, notifies=schedule.store == "sql")
    counter = LAST - 3 if rng.random() < 0.1 else 0
    return ZooKeeperStore(world, rate=rate, counter=counter, wraps=rng.random() < 0.5)
