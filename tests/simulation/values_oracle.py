"""What values, counters and latches promise, checked at every write that lands, and at every answer."""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from recipes._contract.names import queue_of
from recipes._contract.operations import Stored, Write
from tests.histories.linear import UNKNOWN, Model, Operation, Undecided, linearizable
from tests.histories.models import Counter, Value
from tests.simulation.clients import Client
from tests.simulation.observers import watched
from tests.simulation.oracles import Oracle, given
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from recipes._programs.cleaner import Job
    from tests.simulation.moving import Task

__all__ = ["COUNTER", "KEYS", "LATCH", "LATCH_COUNT", "VALUE", "Doing", "ValuesOracle"]

VALUE, COUNTER, LATCH = KEYS = tuple(queue_of(recipe, "q") for recipe in ("value", "counter", "latch"))
LATCH_COUNT = 6
WRITES = ("set", "set_if", "delete", "add", "count_down")
MOST_SITUATIONS = 20_000
Ident = tuple[str, int]
"""A write: of which client, and its number."""


class Latch:
    """Operations of a latch: ``count_down`` by one, and ``left``, each with how many are left then."""

    start: Hashable = LATCH_COUNT

    def step(self, state: Hashable, operation: Operation) -> Hashable | None:
        """Return how many are left afterwards; None if this cannot happen now."""
        assert isinstance(state, int)
        after = max(state - 1, 0) if operation.what == "count_down" else state
        return after if operation.value in (None, after) else None


MODELS: dict[str, Model] = {VALUE: Value(), COUNTER: Counter(), LATCH: Latch()}


@dataclass(slots=True, eq=False)
class Doing:
    """One call of a user.

    Attributes:
        client: Which client's.
        noun: What was called; it knows the number of the write, and what it adds.
        what: Which operation, as the models name it.
        asked: What it was asked, as the models show it if it was done.
        called: When.
    """

    client: Client
    noun: Any
    what: str
    asked: Any
    called: int

    @property
    def key(self) -> str:
        key: str = self.noun._key
        return key

    @property
    def ident(self) -> Ident:
        return self.client.name, self.noun.number


@dataclass(slots=True)
class Seen:
    """What an observer saw last: in which call, and at which place of the history it was so."""

    call: Any
    shown: Any = None
    place: int = 0


@dataclass(slots=True)
class History:
    """The states that a value went through, and from when on each was so; and what was done to it."""

    states: list[tuple[int, Stored]] = field(default_factory=lambda: [(0, Stored())])
    newest: int = 0
    operations: list[Operation] = field(default_factory=list)

    def first(
        self, looks: Callable[[Stored], Any], shown: Any, since: int, upto: float = math.inf
    ) -> int | None:
        """Return the first place from ``since`` on at which it looked so, and which began by ``upto``."""
        for place in range(since, len(self.states)):
            at, stored = self.states[place]
            if at > upto:
                return None
            if looks(stored) == shown:
                return place
        return None

    def place(self, tick: int) -> int:
        """Return the place of the state that it had at this moment."""
        return max(place for place, (at, _) in enumerate(self.states) if at <= tick)


class ValuesOracle(Oracle):
    """Values, counters and latches, and the lock whose grants guard some of the writes.

    V1: a write lands once, as it was asked, and on the state that it compares. V2: what was said to be done
    was done during the call, and what was said not to be done never is. V3: what was settled never lands, nor
    does what a session sent that has ended. V4: versions rise, also over deletions. V5: some moment of the
    call justifies what was read, and what a write returned. V6: a guarded write lands only while its grant is
    the one that the store shows. V7: an observer never goes back, and sees the last. V8: there is one receipt
    at most for a session and value, and none after the session. V9: the counter comes to the sum of what was
    added. V10: the history of each is linearizable. V11: what a client gave up does not land any more once it
    has read the value since, be it in its next session.

    Attributes:
        landed: How many writes were done.
        unknown: Of how many calls it is not known whether they wrote.
        undecided: How many histories had too many ways to be put in order.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tick = 0
        self.bits = 0
        self.histories = {key: History() for key in KEYS}
        self.lands: dict[Ident, int] = {}
        self.never: dict[Ident, str] = {}
        self.done: list[int] = []
        self.open: list[Doing] = []
        self.observing: dict[Task, Any] = {}
        self.saw: dict[Task, Seen] = {}
        self.unknown = self.undecided = 0
        self.doubted: list[tuple[int, Doing]] = []
        self.store.written.append(self._look)

    @property
    def landed(self) -> int:
        return len(self.lands)

    # What lands.

    def _look(self) -> None:
        for key in KEYS:
            now, before = self.store.value(key), self.histories[key].states[-1][1]
            if now != before:
                self._lands(key, before, now)

    def _lands(self, key: str, before: Stored, now: Stored) -> None:
        self.tick += 1
        asked, history = self.store.by, self.histories[key]
        write: Write | None = None if asked is None else asked.write
        if asked is None or write is None or write.key != key:
            raise Violation(f"V1: {key} became {now}, which no call has asked for")
        ident = asked.task.client.name, write.number
        self.world.note(asked.task.name, "wrote", key, write.number, now)
        if ident in self.lands:
            raise Violation(f"V1: write {ident} of {key} landed twice")
        if ident in self.never:
            raise Violation(f"{self.never[ident]}, and write {ident} of {key} lands")
        if write.data != now.data or write.if_version not in (None, before.version):
            raise Violation(f"V1: {write} made {now} of {before}")
        if not self.store.has_session(int(asked.session, 16)):
            raise Violation(f"V3: write {ident} of {key} lands, and its session has ended")
        if now.data is not None and now.version <= history.newest:
            raise Violation(f"V4: version {now.version} of {key} follows {history.newest}")
        history.newest = max(history.newest, now.version)
        self._guarded(ident)
        self.lands[ident] = self.tick
        history.states.append((self.tick, now))
        if any(count > 1 for count in Tally(self.store.receipts(key)).values()):
            raise Violation(f"V8: a session has two receipts of {key}")

    def _guarded(self, ident: Ident) -> None:
        holds = {(queue, one.token) for queue in self.queues for one in self.free(self.store.standing(queue))}
        noun = next(one.noun for one in self.open if one.ident == ident)
        for guard, _ in noun._guards:
            late = self.store.removes_late and given(guard) in self.removed
            if given(guard) not in holds and not late:
                raise Violation(f"V6: a write guarded by token {guard.entry.token} lands, and {holds} hold")

    def settles(self, client: Client, job: Job) -> None:
        """The cleaner has done a job; unless the session has ended meanwhile, the write is settled."""
        if job.write is None or job.session.ended is not None:
            return
        ident = client.name, job.write.number
        if ident not in self.lands:
            self.never[ident] = "V3: it was settled"

    def settled(self, *, former: bool = False) -> None:
        """All calls have returned, and the cleaners had their time: what was given up lands no more."""
        super().settled(former=former)
        for doing in self.open if former else ():
            session = doing.client.wrote.get(doing.noun.number)
            over = doing.client.dead or session is None or session.ended is not None
            if not (over or doing.ident in self.lands or doing.ident in self.never):
                raise Violation(f"V3: {doing.what} {doing.ident} of {doing.key} was given up, and may land")

    # What users are told.

    def begins(self, client: Client, noun: Any, what: str, asked: Any) -> Doing:
        """A call begins."""
        self.tick += 1
        doing = Doing(client, noun, what, asked, self.tick)
        self.open.append(doing)
        return doing

    def bit(self) -> int:
        """Return a number to add that no other call adds: the sum tells which were added, and how often."""
        self.bits += 1
        return 1 << 2 * self.bits

    def reads(self, doing: Doing, said: Any, looks: Callable[[Stored], Any], shown: Any) -> None:
        """A call returned what it read; ``looks`` makes the same of a state, ``said`` is for the models."""
        self._returns(doing, said)
        for since, one in self.doubted:
            same = one.client is doing.client and one.key == doing.key
            if same and since <= doing.called and one.noun.number and one.ident not in self.lands:
                self.never.setdefault(one.ident, "V11: its client has read the value since")
        history = self.histories[doing.key]
        if history.first(looks, shown, history.place(doing.called), self.tick) is None:
            raise Violation(f"V5: {doing.client.name} read {shown} of {doing.key}, as it never was meanwhile")

    def wrote(self, doing: Doing, said: Any, data: bytes | None) -> None:
        """A call returned with the word that this was written."""
        self._returns(doing, said)
        if doing.noun.adds:
            self.done.append(doing.noun.adds)
        at = self.lands.get(doing.ident, 0)
        if at < doing.called:
            raise Violation(f"V2: {doing.what} {doing.ident} of {doing.key} returned, and was not done")
        history = self.histories[doing.key]
        if history.states[history.place(at)][1].data != data:
            raise Violation(f"V5: {doing.what} {doing.ident} of {doing.key} returned {said}")

    def was_left(self, doing: Doing, said: Any) -> None:
        """A call returned with the word that nothing was written, as something else was there."""
        self._returns(doing, said)
        self._is_not_done(doing)

    def refused(self, doing: Doing, error: Exception) -> None:
        """A call raised what says that nothing was written, nor ever will be."""
        self.tick += 1
        self.open.remove(doing)
        self.world.note(doing.client.name, doing.what, doing.ident, repr(error))
        self._is_not_done(doing)

    def _is_not_done(self, doing: Doing) -> None:
        if doing.ident in self.lands:
            raise Violation(
                f"V2: {doing.what} {doing.ident} of {doing.key} was done, and said that it was not"
            )
        if doing.noun.number:  # else it came to no write
            self.never[doing.ident] = "V2: it was said not to be done"

    def given_up(self, doing: Doing) -> None:
        """A call ended with the word that it is not known whether it wrote, or by an interrupt."""
        self.tick += 1
        self.unknown += 1
        self.doubted.append((self.tick, doing))
        self.world.note(doing.client.name, doing.what, doing.ident, "is not known")

    def _returns(self, doing: Doing, said: Any) -> None:
        self.tick += 1
        self.open.remove(doing)
        self.world.note(doing.client.name, doing.what, doing.key, doing.noun.number, said)
        operation = Operation(doing.what, said, doing.called, self.tick)
        self.histories[doing.key].operations.append(operation)

    def waited(self, client: Client, latch: Any, *, opened: bool, for_ever: bool) -> None:
        """A wait for the latch returned."""
        left = latch.looks(self.histories[LATCH].states[-1][1])
        if opened and left:
            raise Violation(f"V5: {client.name} waited until the latch is open, and {left} are left")
        if for_ever and not opened:
            raise Violation(f"V5: {client.name} waited without an end, and the latch is not open")

    # What observers see.

    def watches(self, task: Task, noun: Any) -> None:
        """One begins to observe a value or a counter."""
        self.observing[task] = noun

    def sees(self, task: Task, shown: Any) -> None:
        """An observer sees something new."""
        self.observed += 1
        self.world.note(task.name, "sees", shown)
        noun = self.observing[task]
        seen = self.saw.get(task) or Seen(task.call)
        place = self.histories[noun._key].first(noun.looks, shown, seen.place)
        if place is None:
            raise Violation(f"V7: {task.name} sees {shown} after {seen.shown}")
        self.saw[task] = Seen(task.call, shown, place)

    def leaves(self, task: Task) -> None:
        """One observes no more."""
        self.saw.pop(task, None)

    def _is_last(self, task: Task) -> bool:
        noun = self.observing[task]
        shown: bool = noun.looks(self.histories[noun._key].states[-1][1]) == self.saw[task].shown
        return shown

    def quiet(self) -> None:
        """Nothing is under way: what an observer saw last is what there is."""
        super().quiet()
        if not self.calm:
            return
        for task, seen in self.saw.items():
            waits = task.receiving and task.call is seen.call
            if waits and watched(task.client) and not self._is_last(task):
                raise Violation(f"V7: {task.name} saw {seen.shown}, and no event will come")

    def up_to_date(self) -> bool:
        """Whether all observers have seen the last that there is to see."""
        return all(task.client.dead or self._is_last(task) for task in self.saw)

    def shown_last(self) -> None:
        """They had their time."""
        for task, seen in self.saw.items():
            if not task.client.dead and not self._is_last(task):
                raise Violation(f"V7: {task.name} ends with {seen.shown}")

    # The end.

    def finish(self) -> None:
        """All sessions have ended, and all that was late has arrived."""
        super().finish()
        self.world.move_to(self.world.now + self.store.receipts_last_s)
        left = {key: self.store.receipts(key) for key in KEYS if self.store.receipts(key)}
        if left:
            raise Violation(f"V8: receipts are left: {left}")
        self.added_up()

    def added_up(self) -> None:
        """Look at the sum of the counter, and at the whole of each history."""
        self._sum()
        for key in KEYS:
            self._linear(key)

    def _sum(self) -> None:
        """The counter is the sum of what was said to be added, and of some that is not known."""
        missing = int(self.store.value(COUNTER).data or b"0") - sum(self.done)
        for unknown in sorted((one.noun.adds for one in self.open if one.key == COUNTER), reverse=True):
            missing -= unknown if missing >= unknown else 0
        if missing:
            raise Violation(f"V9: the counter is {missing} off the sum of what was added")

    def _linear(self, key: str) -> None:
        """Put the history in order, with what is not known as it may have been, or never."""
        unknown = [Operation(one.what, one.asked, one.called, UNKNOWN) for one in self.open if one.key == key]
        operations = [*self.histories[key].operations, *(one for one in unknown if one.what in WRITES)]
        try:
            if not linearizable(MODELS[key], operations, limit=MOST_SITUATIONS):
                raise Violation(f"V10: the history of {key} is not linearizable")
        except Undecided:
            self.undecided += 1
