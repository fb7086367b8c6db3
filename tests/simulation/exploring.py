"""A world in which every choice is somebody else's: what the exhaustive search runs.

Nothing is random. Wherever more than one thing could happen next is a choice point, and what
it offers has a fixed order: who came first is first, and the faults come last. Time passes only
when nothing else can happen; a pause before asking again ends when it is chosen to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.simulation.clients import Client
from tests.simulation.etcd_store import Unary, Watching
from tests.simulation.moving import Asked, Pipe, Task
from tests.simulation.oracles import Oracle
from tests.simulation.values_oracle import ValuesOracle
from tests.simulation.world import NEVER, World
from tests.simulation.zookeeper_connection import Part, ZooKeeperConnection
from tests.simulation.zookeeper_server import Server

__all__ = [
    "ExploredClient",
    "ExploredOracle",
    "ExploredValues",
    "ExploredWorld",
    "Leaving",
    "Option",
    "label",
    "pausing",
    "state",
]

Option = tuple[str, Any]
"""What to do, and with what: ("go", what moves), ("again", task), ("lose", message),
("delay", write), ("expire", client)."""


class Arrivals(list[Any]):
    """What is on its way, and in which order it came."""

    def __init__(self) -> None:
        super().__init__()
        self.came: dict[int, int] = {}
        self.count = 0

    def append(self, one: Any) -> None:
        self.count += 1
        self.came[id(one)] = self.count
        super().append(one)


class ExploredWorld(World):
    """A world whose steps are chosen.

    Attributes:
        choose: Takes the options of a choice point, returns the place of one.
        losses: How many messages may yet be lost.
        lates: How many writes may yet be taken for lost, and arrive later.
        expiries: How many sessions may yet end.
        choosing: Whether choices are asked for; else whatever came first goes first.
        store: The model, which knows what cannot be told apart (see `tests.simulation.explored`).
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.moving: Any = Arrivals()
        self.random: Any = lambda: 0.5
        self.choose: Callable[[list[Option]], int] = lambda options: 0
        self.losses = self.lates = self.expiries = 0
        self.choosing = False
        self.store: Any = None

    def resume(self, task: Task, value: Any, error: BaseException | None) -> None:
        task.client.remember(task.number, value, error)
        super().resume(task, value, error)

    def step(self) -> bool:
        came = self.moving.came
        free = sorted((one for one in self.moving if one.gate.open), key=lambda one: came[id(one)])
        first = next(filter(self.store.at_once, free), None)
        if first is not None or not self.choosing:
            if not free:
                return False
            self.do(("go", first or free[0]))
            return True
        options = self._options(free)
        if not options:
            return False
        self.do(options[self.choose(options) if len(options) > 1 else 0])
        return True

    def _options(self, free: list[Any]) -> list[Option]:
        """Return what could happen next; of what nobody else can tell when it happens, only that."""
        alone = None if self.lates else next(filter(self.store.is_alone, free), None)
        if alone is not None:
            lost = self.losses and self.store.is_message(alone)
            return [("go", alone), ("lose", alone)] if lost else [("go", alone)]
        options: list[Option] = [("go", one) for one in free]
        options += [("again", task) for task in self.tasks if pausing(task)]
        return [*options, *self._faults(free)] if options else []

    def _faults(self, free: list[Any]) -> Iterator[Option]:
        if self.losses:
            yield from (("lose", one) for one in free if self.store.is_message(one))
        if self.lates:
            yield from (("delay", one) for one in free if self.store.may_be_late(one))
        if self.expiries:
            yield from (("expire", client) for client in self.clients if self.store.lives(client))

    def do(self, option: Option) -> None:
        """Do what was chosen."""
        what, one = option
        self.steps += 1
        if what == "go":
            one.go(self.moving.index(one))
        elif what == "again":
            self.resume(one, None, None)
        elif what == "lose":
            self.losses -= 1
            self.note("LOST", label(one))
            self.store.lose(one)
        elif what == "delay":
            self.lates -= 1
            self.note("LATE", label(one))
            self.store.delay(one)
        else:
            self.expiries -= 1
            self.note("EXPIRED", one.name)
            one.oracle.exempt[one.runtime.state.session] = self.now
            one.oracle.left += 2
            self.store.expire_session(one)


def pausing(task: Task) -> bool:
    """Whether a task waits for a moment before it asks again."""
    waits = task.receiving and not task.patient and not task.woken and task.wake_at < NEVER
    return waits and task is not task.client.runtime.keepalive


class ExploredClient(Client):
    """A client that keeps, as one number, everything it was ever told: that decides its state."""

    def __init__(self, world: World, number: int, store: Any, *, ttl_s: float) -> None:
        self.history = 0
        super().__init__(world, number, store, offset=1e6 * number, rate=1.0, ttl_s=ttl_s)

    def remember(self, *what: Any) -> None:
        """Take something into the history."""
        self.history = hash((self.history, self.world.now, repr(what)))

    def make_connection(self, on_end: Any) -> Any:
        def ended(reason: str) -> None:
            self.remember("ended", reason)
            on_end(reason)

        return super().make_connection(ended)


class Leaving:
    """A holder that goes on when it is chosen to: until then it holds."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.gate = task.gate

    def go(self, at: int) -> None:
        self.task.world.drop(at)
        self.task.world.resume(self.task, None, None)


class ExploredOracle(Oracle):
    """The oracle, with what decides what it will say; it looks at grants without asking them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.holds = _stands

    def heard(self, event: Any, mailbox: Any) -> None:
        mailbox.task.client.remember("event", event)
        super().heard(event, mailbox)

    def state(self) -> Any:
        """Return all that a later check depends on."""
        ended = [sorted(hold.entry.token for _, hold in entries) for entries in (self.lost, self.released)]
        return (
            (tuple(self.gate.values()), tuple(self.returned.items()), self.left, self.calm),
            tuple(map(tuple, self.register.values())),
            tuple(hold.entry.token for _, hold in self.live),
            tuple(map(tuple, ended)),
            tuple(self.head_since.items()),
            tuple((ref, len(told)) for ref, told in self.told.items()),
        )


class ExploredValues(ExploredOracle, ValuesOracle):
    """The same of values."""

    def state(self) -> Any:
        """Return all that a later check depends on."""
        histories = [(one.states, one.operations) for one in self.histories.values()]
        begun = [(one.ident, one.what, one.called) for one in self.open]
        ended = (sorted(self.lands.items()), sorted(self.never), self.done, self.bits, self.tick)
        return super().state(), repr((histories, begun, ended))

    def settled(self, *, former: bool = False) -> None:
        """All calls have returned: the counter is the sum of what was added."""
        super().settled(former=True)
        self.added_up()


def _stands(client: Any, hold: Any) -> bool:
    session = hold.session
    until = min(session.clock.deadline, hold.due)
    return not hold.ended and session.ended is None and client.local < until


def label(one: Any) -> Any:
    """Return what stands for something on its way, in whichever run it is seen."""
    kind = type(one)
    if kind is Unary:
        return "unary", _asked(one.asked), one.position, repr(one.post), repr(one.reply)
    if kind is Watching:
        return "watching", one.connection.client.number, one.key, one.changes, one.created, len(one.armings)
    if kind is Part:
        request = one.request
        what = type(request).__name__, getattr(request, "path", "")
        return _asked(one.asked), one.position, what, repr(one.answer), one.zxid
    if kind is Pipe:
        return "pipe", label(one.arrive), tuple(map(label, one.messages))
    parts = (one.func, *one.args) if kind is partial else one
    return tuple(map(label, parts)) if type(parts) is tuple else _name(kind, one)


def _name(kind: type, one: Any) -> Any:
    """Return the name of something that has no parts."""
    if kind is Task:
        return "task", one.number
    if kind is Leaving:
        return "leaving", one.task.number
    if kind is ZooKeeperConnection:
        return "link", one.client.number, one.session
    if kind is Server:
        return "server", one.number
    if kind is Asked:
        return _asked(one)
    owner = getattr(one, "__self__", None)
    return repr(one) if owner is None else (one.__name__, label(owner))


def _asked(asked: Asked) -> Any:
    return asked.task.number, repr(asked.replies), asked.missing, asked.abandoned


def state(world: ExploredWorld, oracle: ExploredOracle) -> int:
    """Return one number for all that decides what can still happen."""
    return hash(
        (
            (world.now, world.losses, world.lates, world.expiries),
            tuple(client.history for client in world.clients),
            tuple((task.number, task.asked and _asked(task.asked), task.woken) for task in world.tasks),
            world.store.state(),
            tuple(sorted(repr(label(one)) for one in world.moving)),
            oracle.state(),
        )
    )
