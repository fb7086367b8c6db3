"""Users that observe a queue by way of their client's hub, and the oracle of all who read one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

from recipes._api.observing import _Observing
from recipes._contract.contenders import Contender
from recipes._contract.deadline import Expired
from recipes._contract.operations import List
from recipes._programs.observing import Observed, look_up
from recipes._run.interpreter import Receive
from recipes.errors import ClientClosed
from tests.simulation.clients import Cancelled, Client
from tests.simulation.history import History
from tests.simulation.moving import Task
from tests.simulation.oracles import Oracle
from tests.simulation.world import Violation

__all__ = ["ObservedOracle", "looks", "observes"]

FOREVER = 0.5  # of those that wait: without a deadline
PATIENCE_S = (0.01, 1.0, 6.0)
LEAVES = 0.1
BUSY = 0.2


@dataclass(frozen=True, slots=True)
class Seen:
    """What an observer saw last.

    Attributes:
        call: In which it waits for more.
        most: How many contenders it is shown.
        shown: What it saw.
        at: Which state of the queue justifies that.
    """

    call: Any
    most: int
    shown: tuple[Contender, ...]
    at: int


class ObservedOracle(Oracle):
    """The oracle of a recipe whose queue is read from outside, or observed.

    H1: what has gone stays gone, whatever lands late. H2: what a contender says never goes back to what it
    said before. H3: some moment between call and return justifies what was read. H4: what an observer sees
    comes in the order in which it was so. H5: when nothing is under way, it has seen the last.

    Attributes:
        saw: What each observer saw last.
        observed: How often any saw something new.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        (queue,) = self.queues
        self.history = History(self.store, queue)
        self.saw: dict[Task, Seen] = {}
        self.observed = 0

    def looked(self, client: Client, shown: Sequence[Contender], most: int, began: int) -> None:
        """A call that looked has returned."""
        if self.history.moment(shown, most, began) is None:
            raise Violation(f"H3: {client.name} was shown {shown}, which never stood there meanwhile")

    def sees(self, task: Task, most: int, shown: tuple[Contender, ...]) -> None:
        """An observer sees something new."""
        self.observed += 1
        self.world.note(task.name, "sees", [(one.token, one.data) for one in shown])
        before = self.saw.get(task)
        at = self.history.moment(shown, most, 0 if before is None else before.at)
        versions = {} if before is None else {one.token: one.version for one in before.shown}
        if at is None or any(one.version < versions.get(one.token, 0) for one in shown):
            raise Violation(f"H4: {task.name} sees {shown} after {before}")
        self.saw[task] = Seen(task.call, most, shown, at)

    def leaves(self, task: Task) -> None:
        """One observes no more."""
        self.saw.pop(task, None)

    def quiet(self) -> None:
        """Nothing is under way: what an observer saw last is what there is."""
        super().quiet()
        if not self.calm:
            return
        for task, seen in self.saw.items():
            if task.receiving and task.call is seen.call and _watched(task) and not self._is_last(seen):
                raise Violation(f"H5: {task.name} saw {seen.shown}, and no event will come")

    def _is_last(self, seen: Seen) -> bool:
        return self.history.moment(seen.shown, seen.most, self.history.now) is not None

    def up_to_date(self) -> bool:
        """Whether all observers have seen the last that there is to see."""
        return all(task.client.dead or self._is_last(seen) for task, seen in self.saw.items())

    def shown_last(self) -> None:
        """They had their time."""
        for task, seen in self.saw.items():
            if not task.client.dead and not self._is_last(seen):
                raise Violation(f"H5: {task.name} ends with {seen.shown}")


def _watched(task: Task) -> bool:
    """Whether the watch of an observer's client is armed, on a session that lasts, and it waits for an event."""
    client = task.client
    if client.dead or client.paused:
        return False
    for _, call in client.runtime.hub._watched.values():
        behind, session = call.mailbox.task, call.session
        waits = behind is not None and behind.receiving and behind.patient and not behind.done
        if not waits or session is None or session.ended is not None:
            return False
    return True


def observes(client: Client, task: Task, observed: Observed) -> Generator[Any, Any, None]:
    """Observe until the client is closed: wait, or come back later, leave and begin anew."""
    random, oracle = client.world.random, client.oracle
    while True:
        observing: _Observing[tuple[Contender, ...]] = _Observing(client.runtime, observed, tuple)
        while random() > LEAVES or client.world.unfinished == 0:
            if random() < BUSY:
                client.runtime.begin(task, None)
                try:
                    yield Receive(random())
                except Cancelled:
                    continue
            timeout = None if random() < FOREVER else PATIENCE_S[int(random() * len(PATIENCE_S))]
            program, call = observing._next(timeout)
            call.mailbox.task = task
            try:
                oracle.sees(task, observed.most, (yield from client.run(task, call, program)))
            except (Expired, Cancelled):
                continue
            except ClientClosed:
                return
        observing._leave()
        oracle.leaves(task)


def looks(client: Client, task: Task, queue: str, most: int) -> Generator[Any, Any, None]:
    """Look once from outside."""
    began = client.oracle.history.now
    call = client.runtime.begin(task, 1.0, fail_fast=True)
    listing = yield from client.run(task, call, look_up(List(queue, most)))
    client.oracle.looked(client, listing.contenders, most, began)
