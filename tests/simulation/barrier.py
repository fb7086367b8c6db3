"""What the clients of a schedule do with a barrier: wait, or enter and leave, and what they may be told."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recipes._api.barrier import BaseBarrier
from recipes._contract.contenders import Contender
from recipes._contract.rule import Rule
from recipes._rules import barrier as rules
from recipes._run.effects import Receive
from recipes.errors import BarrierBroken
from tests.simulation.clients import Cancelled, Client
from tests.simulation.oracles import Oracle, _asks
from tests.simulation.standing import Stands
from tests.simulation.users import Flavour
from tests.simulation.uses import Use
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from recipes._programs.barrier import Party, Place
    from recipes._run.runtime import Call
    from tests.simulation.moving import Task

__all__ = ["BARRIER"]

NAME = "q"
KEY = "~barrier/q"
DECIDE, INSIDE = rules.decide, rules.inside
ENTERS = 0.4
TIMEOUTS = (0.1, 0.5, 1.0, 4.0, 12.0)
INSIDE_S = (0.0, 0.0, 0.1, 1.0)
Steps = Generator[Any, Any, None]


class SimBarrier(BaseBarrier):
    """What a barrier is in both runtimes; its parties are tasks, and their ids are in order."""

    def __init__(self, client: Client, parties: int) -> None:
        super().__init__(client.runtime, NAME, parties)
        self._client = client

    def _party(self, owner: Any, timeout: float | None) -> tuple[Party, Call]:
        party, call = super()._party(owner, timeout)
        mailbox: Any = call.mailbox
        mailbox.task = owner

        def new_id() -> str:
            made = self._client.new_id()
            self._client.oracle.came(made, owner)
            return made

        party.new_id = new_id
        return party, call


@dataclass(slots=True)
class Inside:
    """One that entered, and does not leave yet."""

    task: Task
    place: Place


class BarrierOracle(Oracle):
    """B1: generations follow on each other, each decided once. B2: as many as the parties pass together.

    B3: what a call returns or raises is what was decided for it. B4: those that leave leave none of their
    own inside. B5: what is decided, or could be, is found out by an event.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.parties = (2, 3, 3)[int(self.world.random() * 3)]
        self.inside: dict[Task, Inside] = {}
        self._tasks: dict[str, Task] = {}
        self._last: dict[Task, str] = {}
        self._saw: dict[str, tuple[int, frozenset[str]]] = {}
        self._decided: dict[int, rules.Outcome] = {}
        self._version = self._generation = 0
        self.store.written.append(self._look)

    def came(self, contender: str, task: Task) -> None:
        """A task makes a contender."""
        self._tasks[contender] = task
        self._last[task] = contender

    def _look(self) -> None:
        stored = self.store.value(KEY)
        if stored.data is None or stored.version == self._version:
            return
        self._version = stored.version
        record = rules.unpack(stored.data)
        if record.generation != self._generation + 1:
            raise Violation(f"B1: generation {record.generation} follows on {self._generation}")
        self._generation = record.generation
        for outcome in record.outcomes:
            self._judge(outcome)

    def _judge(self, outcome: rules.Outcome) -> None:
        before = self._decided.get(outcome.generation)
        if before is not None:
            if before.word != outcome.word or {*outcome.ids} - {*before.ids, ""}:
                raise Violation(f"B1: {before} is {outcome} now")
            return
        if outcome.word == rules.PASSED:
            tasks = {self._tasks[one] for one in outcome.ids}
            if not len(tasks) == len(outcome.ids) == self.parties:
                raise Violation(f"B2: not {self.parties} came to {outcome}")
            self.grants += 1
        for earlier in self._decided.values():
            twice = {*earlier.ids} & {*outcome.ids} - {""}
            # One that an operator removed may be made again, by a repeated request, and is named twice then.
            if any(self.given_to.get(one) not in self.removed for one in twice):
                raise Violation(f"B2: one is of two generations: {earlier} and {outcome}")
        self._decided[outcome.generation] = outcome

    def passed(self, task: Task, place: Place) -> None:
        """A call has passed."""
        outcome = self._decided.get(place.generation)
        named = None if outcome is None or outcome.word != rules.PASSED else outcome.ids[place.index]
        if named != self._last[task]:
            raise Violation(f"B3: {task.name} passed as {place}, and it is {outcome}")
        if place.entry is not None:
            self.inside[task] = Inside(task, place)

    def broken(self, task: Task, error: BarrierBroken) -> None:
        """A call was told that its generation is broken."""
        outcome = self._decided.get(error.generation)
        unknown = "not known" in error.reason or "inside" in error.reason
        if outcome is None or outcome.word != rules.PASSED or unknown:
            return
        # One that an operator removed may be made again by a request that is repeated.
        if self._last[task] in outcome.ids and self.given_to.get(self._last[task]) not in self.removed:
            raise Violation(f"B3: {task.name} was told {error}, and it is {outcome}")

    def has_left(self, task: Task, place: Place) -> None:
        """A call to leave has returned."""
        standing = {one.contender for _, one in self.standing()}
        for other in self.inside.values():
            entry = other.place.entry
            if other.place.generation == place.generation and entry and entry.ticket.id in standing:
                raise Violation(f"B4: {task.name} has left, and {other.task.name} is inside")

    # What only queues for locks have.

    def heard(self, event: Any, mailbox: Any) -> None:
        """All are notified of all that changes."""

    def free(self, standing: list[Stands]) -> list[Stands]:
        """Nobody is first in a barrier's queue."""
        return []

    def quiet(self) -> None:
        """Nothing is under way: what waits must have nothing to find out."""
        if not self.calm:
            return
        if any((one.paused and not one.dead) or one.runtime.cleaning for one in self.clients):
            return
        tasks = [task for task in self.world.tasks if not task.client.dead]
        if any(map(_asks, tasks)):
            return
        contenders = tuple(
            Contender(one.contender, one.contender, one.kind, mark=one.mark, data=one.data)
            for _, one in self.standing()
        )
        by_id = {one.id: one for one in contenders}
        for task in tasks:
            ticket = task.call.ticket if task.patient and task.receiving and not task.daemon else None
            mine = None if ticket is None else by_id.get(ticket.id)
            if mine is not None and task.call.session.ended is None:
                self._knows(task, mine, contenders)

    def _knows(self, task: Task, mine: Contender, contenders: tuple[Contender, ...]) -> None:
        if mine.mark == rules.LEAVING:
            outcome = next(one for one in self._decided.values() if mine.id in one.ids)
            if not INSIDE(outcome.ids, contenders):
                raise Violation(f"B5: {task.name} waits to leave, and all others have left")
            return
        record = rules.unpack(self.store.value(KEY).data)
        generation, seen = self._saw.get(mine.id, (0, frozenset()))
        seen = seen if generation == record.generation else frozenset()
        step = DECIDE(record, contenders, mine.id, seen, over=False)
        if not isinstance(step, rules.Waits):
            raise Violation(f"B5: {task.name} waits, and no event will tell it: {step}")
        self._saw[mine.id] = record.generation, step.ids  # what waits has listed all that stands


def cross(client: Client, task: Task, kind: Flavour, own: tuple[Rule, ...]) -> Steps:
    """Wait once, or enter, be inside for a while, and leave."""
    del kind, own  # a barrier has its own
    oracle: BarrierOracle = client.oracle
    random = client.world.random
    barrier, stays = SimBarrier(client, oracle.parties), random() < ENTERS
    program, call = barrier._crossing(task, TIMEOUTS[int(random() * len(TIMEOUTS))], stays=stays)
    try:
        place = yield from client.run(task, call, program)
    except BarrierBroken as error:
        oracle.broken(task, error)
        return
    oracle.passed(task, place)
    if stays:
        barrier._entered(task, place, call)
        try:
            yield from _inside(client, task, barrier, place)
        finally:
            oracle.inside.pop(task, None)
            barrier._left(task)


def _inside(client: Client, task: Task, barrier: SimBarrier, place: Place) -> Steps:
    random = client.world.random
    try:
        seconds = INSIDE_S[int(random() * len(INSIDE_S))]
        if seconds:
            client.runtime.begin(task, None)
            yield Receive(seconds)
    except Cancelled:
        pass  # it leaves all the same
    program, call = barrier._leaving(task, TIMEOUTS[int(random() * len(TIMEOUTS))])
    client.oracle.inside.pop(task, None)
    try:
        yield from client.run(task, call, program)
    except BarrierBroken:
        return
    client.oracle.has_left(task, place)


BARRIER = Use(cross, BarrierOracle, (KEY,), writes=True, times=2)
