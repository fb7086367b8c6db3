"""Users that say something, look and observe, and the oracle of what they are shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recipes._api.observing import _Observing
from recipes._contract.deadline import Expired
from recipes._programs.rewriting import rewrite
from recipes._run.effects import Receive
from recipes.errors import ClientClosed, SessionLost, StoreError
from tests.simulation.clients import Cancelled, Client
from tests.simulation.history import History, Moment, Shown, State
from tests.simulation.oracles import Oracle
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState
    from tests.simulation.moving import Task

__all__ = ["ObservedOracle", "looked", "observe", "say", "watched"]

SAY_WITHIN_S = (0.005, 0.05, 1.0)
"""After how long one gives up what it says."""
FOREVER = 0.5  # of those that wait for something new: without a deadline
SEE_WITHIN_S = (0.01, 1.0, 6.0)
LEAVES = 0.1
IS_BUSY = 0.2


@dataclass(slots=True)
class Seen:
    """What an observer saw last: in which call, and which moment justifies it."""

    call: Any
    shown: Shown = field(default_factory=dict)
    moment: Moment = field(default_factory=Moment)


class ObservedOracle(Oracle):
    """The oracle of a recipe that shows from outside who holds, and what each says.

    H1: what has gone stays gone, whatever lands late, and what stands is of a session that lasts. H2: what
    was given up never lands behind what was said later. H3: some moment between call and return justifies
    what was read. H4: what an observer sees comes in the order in which it was so. H5: when nothing is under
    way it has seen the last, and in the end whatever happened. H6: what was said was shown when the call
    returned.

    Attributes:
        saw: What each observer saw last.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        (queue,) = self.queues
        self.history = History(self.store, queue, self.looks, self.removed)
        self.saw: dict[Task, Seen] = {}

    @abstractmethod
    def looks(self, state: State) -> Shown:
        """Return what a queue looks like to users, by the plain rule."""

    @abstractmethod
    def parts(self, shown: Any) -> Shown:
        """Return what users were shown in that form."""

    def looked(self, client: Client, shown: Any, began: int) -> None:
        """A call that looked has returned."""
        if self.history.moment(self.parts(shown), Moment(began)) is None:
            raise Violation(f"H3: {client.name} was shown {shown}, which was never so meanwhile")

    def sees(self, task: Task, shown: Any) -> None:
        """An observer sees something new."""
        self.observed += 1
        self.world.note(task.name, "sees", shown)
        before, parts = self.saw.get(task) or Seen(task.call), self.parts(shown)
        moment = self.history.moment(parts, before.moment)
        if moment is None:
            raise Violation(f"H4: {task.name} sees {shown} after {before.shown}")
        self.saw[task] = Seen(task.call, parts, moment)

    def leaves(self, task: Task) -> None:
        """One observes no more."""
        self.saw.pop(task, None)

    def begins_with(self, hold: HeldState, data: bytes) -> None:
        """An acquire returned: it says from the first moment on what it was given to say."""
        if hold.data != data:
            raise Violation(f"H6: token {hold.entry.token} says {hold.data!r} at first, and not {data!r}")
        self.confirmed(hold)

    def confirmed(self, hold: HeldState) -> None:
        """A grant is asked what it says: as the store confirmed it last."""
        if not self.history.landed(hold.entry.token, hold.data, 0):
            raise Violation(f"H6: token {hold.entry.token} claims to say {hold.data!r}")

    def said(self, client: Client, hold: HeldState, data: bytes, began: int, *, stands: bool) -> None:
        """A call that says something returned, with the word that it was done, or that the grant is lost."""
        token = hold.entry.token
        self.world.note(client.name, "said" if stands else "is lost", token, data)
        if stands:
            if hold.data != data or not self.history.landed(token, data, began):
                raise Violation(f"H6: token {token} said {data!r}, which was never shown")
            return
        if self.holds(client, hold):
            raise Violation(f"H6: token {token} could say nothing more, and is held")
        if hold.session.ended is None and any(one.token == token for one in self.history.states[-1]):
            raise Violation(f"H6: token {token} stands, and was found gone")

    def quiet(self) -> None:
        """Nothing is under way: what an observer saw last is what there is."""
        super().quiet()
        if not self.calm:
            return
        for task, seen in self.saw.items():
            waits = task.receiving and task.call is seen.call
            if waits and watched(task.client) and not self._is_last(seen):
                raise Violation(f"H5: {task.name} saw {seen.shown}, and no event will come")

    def _is_last(self, seen: Seen) -> bool:
        return self.history.moment(seen.shown, Moment(self.history.now)) is not None

    def up_to_date(self) -> bool:
        """Whether all observers have seen the last that there is to see."""
        return all(task.client.dead or self._is_last(seen) for task, seen in self.saw.items())

    def shown_last(self) -> None:
        """They had their time."""
        for task, seen in self.saw.items():
            if not task.client.dead and not self._is_last(seen):
                raise Violation(f"H5: {task.name} ends with {seen.shown}")


def watched(client: Client) -> bool:
    """Whether what a client observes is watched, on a session that lasts: all that is missing is an event."""
    if client.dead or client.paused:
        return False
    topics: dict[Any, tuple[Any, Any]] = client.runtime.hub._watched
    for _, call in topics.values():
        behind, session = call.mailbox.task, call.session
        if behind is None or not (behind.receiving and behind.patient):
            return False
        if session is None or session.ended is not None:
            return False
    return True


def observe(client: Client, task: Task, *observed: Any) -> Generator[Any, Any, None]:
    """Observe until the client is closed: wait, or come back later, leave and begin anew."""
    random, oracle = client.world.random, client.oracle
    while True:
        observing: _Observing[Any] = _Observing(*observed)
        while random() > LEAVES or client.world.unfinished == 0:
            with suppress(Expired, Cancelled):
                if random() < IS_BUSY:
                    client.runtime.begin(task, None)
                    yield Receive(random())
                timeout = None if random() < FOREVER else SEE_WITHIN_S[int(random() * len(SEE_WITHIN_S))]
                program, call = observing._next(timeout)
                mailbox: Any = call.mailbox
                mailbox.task = task
                try:
                    found = yield from client.run(task, call, program)
                except ClientClosed:
                    return
                oracle.sees(task, observing._took(found))
        observing._leave()
        oracle.leaves(task)


def looked(client: Client, task: Task, program: Program[Any]) -> Generator[Any, Any, None]:
    """Look once from outside."""
    began = client.oracle.history.now
    call = client.runtime.begin(task, 1.0, fail_fast=True)
    client.oracle.looked(client, (yield from client.run(task, call, program)), began)


def say(client: Client, task: Task, hold: HeldState, data: bytes, most: int) -> Generator[Any, Any, None]:
    """Say something, unless it is not held any more; now and then give up before there is an answer."""
    runtime, random = client.runtime, client.world.random
    if hold.remaining(runtime.now()) <= 0:
        return
    began = client.oracle.history.now
    call = runtime.begin(task, SAY_WITHIN_S[int(random() * len(SAY_WITHIN_S))], fail_fast=True)
    call.session = hold.session
    with suppress(StoreError, SessionLost, Cancelled):
        stands = yield from client.run(task, call, rewrite(hold, None, data, most))
        client.oracle.said(client, hold, data, began, stands=stands)
    client.oracle.confirmed(hold)
