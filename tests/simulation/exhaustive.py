"""The bounded exhaustive search: every order of messages, every place for a fault, within a bound.

A run is decided by its choices (see `tests.simulation.exploring`). The search is stateless: it runs
a scene from its start with a prefix of choices, takes the default from there on, and puts
every other option on its stack. A run ends early where it comes to a state that was explored before.

A *deviation* is a choice of something other than what came first; faults are counted apart. A
search may be bounded by the number of deviations, or not at all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any
from unittest import mock

from recipes._contract.rule import Rule
from recipes._programs.queueing import Attempt, acquire, open_session
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.readwrite import SHARED
from recipes._run.effects import Receive
from recipes.errors import SessionLost, StoreError
from tests.simulation import users
from tests.simulation.explored import STORES
from tests.simulation.exploring import (
    ExploredClient,
    ExploredOracle,
    ExploredValues,
    ExploredWorld,
    Leaving,
    Option,
    state,
)
from tests.simulation.moving import Task
from tests.simulation.quick import hurried
from tests.simulation.users import LABELS
from tests.simulation.values import Asking
from tests.simulation.world import Violation

__all__ = ["ALL", "QUICK", "Bound", "Found", "explore", "replay", "search"]

TTL_S = 4.0
LONG_S = 1e5
ROLES: dict[str, Rule] = {"L": EXCLUSIVE, "R": SHARED, "W": WRITER, "D": WRITER}
CALLS = {"A": Asking.add, "S": Asking.put}
UNBOUNDED = 10**6
Node = Any  # None, or (the node before, the place of the option): what was chosen up to here


@dataclass(frozen=True, slots=True)
class Bound:
    """What is searched.

    Attributes:
        recipe: "lock", "rwlock", "counter" or "value", for the tables.
        clients: What each client does, once: L locks, R reads, W writes, D writes and downgrades, A adds to
            a counter, S sets a value.
        losses: How many messages may be lost, at most.
        expiries: How many sessions may end, at most.
        deviations: How often something else than what came first may go first; None: always.
        lates: How many writes may arrive after their caller was told that they are lost, at most.
        together: They are calls of one client.
    """

    recipe: str
    clients: str
    losses: int = 0
    expiries: int = 0
    deviations: int | None = None
    lates: int = 0
    together: bool = False


@dataclass(slots=True)
class Found:
    """What a search came to; ``violation`` ended it early."""

    store: str
    bound: Bound
    schedules: int = 0
    states: int = 0
    longest: int = 0
    seconds: float = 0.0
    exhausted: bool = False
    violation: str | None = None
    path: tuple[int, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """Return what another program wants to know."""
        counts = {"schedules": self.schedules, "states": self.states, "longest": self.longest}
        end = {"exhausted": self.exhausted, "violation": self.violation}
        return {"store": self.store, **asdict(self.bound), **counts, **end, "seconds": round(self.seconds, 1)}

    def line(self) -> str:
        """Return it in one line."""
        bound = self.bound
        most = "any number of" if bound.deviations is None else f"at most {bound.deviations}"
        end = "exhausted" if self.exhausted else "NOT exhausted"
        return (
            f"{self.store:9}  {bound.recipe:7}  {bound.clients:3}{' of one' if bound.together else ''}  "
            f"{bound.losses} lost, {bound.lates} late, {bound.expiries} expired, {most} deviations: "
            f"{self.schedules} schedules, {self.states} states, "
            f"up to {self.longest} choices: {end}, {self.violation or '0 violations'} ({self.seconds:.0f} s)"
        )


QUICK = (
    Bound("lock", "LL"),
    Bound("lock", "LL", 1, 0, 2),
    Bound("lock", "LL", 0, 1, 2),
    Bound("lock", "LLL", 0, 0, 2),
    Bound("lock", "LLL", 1, 1, 0),
    Bound("rwlock", "DR", 1, 0, 1),
    Bound("rwlock", "DR", 0, 1, 1),
    Bound("rwlock", "DRW", 0, 0, 2),
    Bound("counter", "AA"),
    Bound("counter", "AA", 1, 0, 2),
    Bound("counter", "AA", 1, 0, 1, lates=1),
    Bound("value", "SS", 1, 0, 1, lates=1, together=True),
)
ALL = (
    *QUICK,
    Bound("lock", "LLL"),
    Bound("lock", "LL", 1, 1),
    Bound("lock", "LLL", 1, 1, 1),
    Bound("rwlock", "DR", 1, 1),
    Bound("rwlock", "WR", 1, 1),
    Bound("rwlock", "DRW", 1, 1, 1),
    Bound("rwlock", "DRR", 1, 1, 1),
    Bound("counter", "AA", 1, 0, 2, lates=1, together=True),
)


class Explored(Exception):
    """The run has come to a state that was explored before."""


class Scene:
    """Clients with live sessions, each about to queue up once."""

    def __init__(self, store: str, bound: Bound, *, trace: bool = False) -> None:
        self.world = world = ExploredWorld()
        world.trace = [] if trace else None
        self.store = world.store = STORES[store](world)
        made = ExploredValues if bound.clients[0] in CALLS else ExploredOracle
        self.oracle: Any = made(world, self.store, ttl_s=TTL_S)
        oracle = self.oracle
        roles = bound.clients
        count = 1 if bound.together else len(roles)
        self.clients = [ExploredClient(world, at, self.store, ttl_s=TTL_S) for at in range(count)]
        oracle.clients = self.clients
        ready: list[Task] = []
        self.users = []
        for number, role in enumerate(roles):
            client = self.clients[number % count]
            client.oracle = oracle
            task = Task(client, f"{client.name}{number // count}", _nothing())
            task.steps = _visit(client, task, role, ready)
            self.users.append(task)
            world.start(task)
        while len(ready) < len(roles) or world.moving:
            assert world.step() or world.advance(), "a session should start"
        world.losses, world.lates, world.expiries = bound.losses, bound.lates, bound.expiries
        world.choosing = True
        for task in self.users:
            world.resume(task, None, None)

    def play(self) -> None:
        """Go on until every call has returned, then look at what is left."""
        world, oracle = self.world, self.oracle
        self.store.vary(world.choose)
        end = world.now + 60 * TTL_S
        while world.unfinished and world.now < end:
            if not world.step():
                oracle.quiet()
                world.advance()
                oracle.observe()
        world.choosing = False
        oracle.stuck([task for task in self.users if not task.done])
        self._pass(5.0)
        oracle.settled()

    def _pass(self, seconds: float) -> None:
        world = self.world
        until = world.now + seconds
        while world.now < until:
            if world.step():
                continue
            if not (any(client.runtime.cleaning for client in self.clients) or self.oracle.leavings()):
                return
            if not world.advance(until):
                world.move_to(until)


def _nothing() -> Generator[Any, Any, None]:
    yield from ()


def _visit(client: ExploredClient, task: Task, role: str, ready: list[Task]) -> Generator[Any, Any, None]:
    """Queue up, hold until it is chosen to leave, release."""
    runtime, oracle = client.runtime, client.oracle
    yield from client.run(task, runtime.begin(task, None), open_session())
    runtime.begin(task, None)
    ready.append(task)
    yield Receive(LONG_S)
    if role in CALLS:
        with suppress(StoreError, SessionLost):
            yield from CALLS[role](Asking(client, task))
        return
    rule = ROLES[role]
    began = oracle.asking(client)
    attempt = Attempt("q", rule, client.new_id, LABELS[rule.mode], None)
    try:
        hold = yield from client.run(task, runtime.begin(task, None), acquire(attempt))
    except (StoreError, SessionLost):
        return
    oracle.granted(client, hold, began)
    oracle.write(client, hold)
    if role == "D":
        yield from users._downgrade(client, task, hold)
    runtime.begin(task, None)
    client.world.moving.append(Leaving(task))
    yield Receive(LONG_S)
    oracle.write(client, hold)
    if oracle.releasing(client, hold, hold.release(runtime.now())):
        call = runtime.begin(task, 1.0)
        call.session, call.ticket, call.entry = hold.session, hold.entry.ticket, hold.entry
        yield from client.run(task, call, users.release(hold))


class _Search:
    """What was explored, and what is left to."""

    def __init__(self, store: str, bound: Bound) -> None:
        self.bound = bound
        self.found = Found(store, bound)
        self.seen: dict[int, int] = {}
        left = UNBOUNDED if bound.deviations is None else bound.deviations
        self.stack: list[tuple[Node, int]] = [(None, left)]

    def go(self, most: int) -> Found:
        """Search until nothing is left, or for so many runs."""
        found = self.found
        while self.stack and found.violation is None and found.schedules < most:
            self._run(*self.stack.pop())
        found.exhausted = not self.stack and found.violation is None
        found.states = len(self.seen)
        return found

    def _run(self, node: Node, left: int) -> None:
        found = self.found
        found.schedules += 1
        scene = Scene(found.store, self.bound)
        walk = _Walk(self, scene, node, left)
        scene.world.choose = walk.choose
        try:
            scene.play()
        except Explored:
            pass
        except Violation as broken:
            found.violation = str(broken)
        except Exception as error:
            found.violation = f"{type(error).__name__}: {error}"
        if found.violation is not None:
            found.path = tuple(_path(walk.node))
        scene.world.over = True


class _Walk:
    """One run: along its prefix first, then by the default, noting every other option."""

    def __init__(self, search: _Search, scene: Scene, node: Node, left: int) -> None:
        self.search, self.scene, self.node, self.left = search, scene, node, left
        self.prefix = iter(_path(node))
        self.length = 0

    def choose(self, options: list[Option]) -> int:
        self.length += 1
        entry = next(self.prefix, None)
        if entry is not None:
            return entry
        search, left = self.search, self.left
        found = search.found
        found.longest = max(found.longest, self.length)
        key = state(self.scene.world, self.scene.oracle)
        if search.seen.get(key, -1) >= left:
            raise Explored
        search.seen[key] = left
        for other in range(len(options) - 1, 0, -1):
            cost = int(options[other][0] in ("go", "again"))
            if cost <= left:
                search.stack.append(((self.node, other), left - cost))
        self.node = (self.node, 0)
        return 0


def _path(node: Node) -> list[int]:
    path = []
    while node is not None:
        node, entry = node
        path.append(entry)
    return path[::-1]


@contextmanager
def _no_chance() -> Iterator[None]:
    """Have the package's own jitter be none."""
    uniform = mock.patch.object(random, "uniform", lambda least, most: (least + most) / 2)
    with uniform, mock.patch.object(random, "random", return_value=0.5):
        yield


def explore(store: str, bound: Bound, most: int = 10**9) -> Found:
    """Search one bound on one model; after so many schedules, or at a violation, it ends early."""
    began = time.process_time()
    with _no_chance():
        found = _Search(store, bound).go(most)
    found.seconds = time.process_time() - began
    return found


def replay(found: Found) -> list[str]:
    """Return the trace of the run that broke a promise."""
    with _no_chance():
        scene = Scene(found.store, found.bound, trace=True)
        entries = iter(found.path)
        scene.world.choose = lambda options: next(entries, 0)
        try:
            scene.play()
        except Violation as broken:
            scene.world.note(broken)
        scene.world.over = True
        return scene.world.trace or []


def _one(task: tuple[str, Bound, int]) -> Found:
    return explore(*task)


def search(stores: tuple[str, ...], bounds: tuple[Bound, ...], jobs: int, most: int) -> Iterator[Found]:
    """Search several bounds on several models, on several cores, each to its end or for so many schedules."""
    tasks = [(store, bound, most) for bound in bounds for store in stores]
    if jobs == 1:
        yield from map(_one, tasks)
        return
    with hurried(jobs) as pool:
        yield from pool.map(_one, tasks)
