"""What the clients of a schedule do with a value, a counter and a latch: read, write, guard writes, watch."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from recipes._api.shared import Shared, versioned
from recipes._contract.deadline import Deadline
from recipes._contract.operations import Stored
from recipes._contract.rule import Rule
from recipes._programs.queueing import Attempt
from recipes._rules.exclusive import EXCLUSIVE
from recipes._run.effects import Receive
from recipes.counter import _BaseCounter
from recipes.errors import LockLost, OutcomeUnknown, SessionLost, StoreError
from recipes.grant import _BaseGrant
from recipes.latch import _BaseLatch
from recipes.value import _BaseValue
from tests.simulation.clients import Cancelled, Client
from tests.simulation.moving import Task
from tests.simulation.observers import observe
from tests.simulation.users import LABELS, Flavour, acquired, given_back, held_for_a_while
from tests.simulation.uses import Use
from tests.simulation.values_oracle import KEYS, LATCH_COUNT, Doing, ValuesOracle

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.hold import HeldState

__all__ = ["VALUES", "Asking"]

NAME = "q"
WITHIN_S = (0.005, 0.05, 1.0, 1.0, 1.0)
"""After how long a caller gives up."""
GUARDS = 0.15
CROWDS = 0.4
"""How often one client makes several calls at once."""
ALL_AT_ONCE = 3
WRITES_HELD = (1, 1, 2, 3)
WAITS_S = (0.05, 1.0, 6.0)
Steps = Generator[Any, Any, None]
Call = Callable[..., Steps]


class _Numbered(Shared):
    """A noun of one call, which knows afterwards which write that was, and what it added."""

    number = adds = 0

    def _writing(self, what: str) -> Any:
        writing = super()._writing(what)
        self.number = writing.number
        return writing


class SimValue(_Numbered, _BaseValue):
    """What a value is in both runtimes."""

    looks = staticmethod(versioned)


class SimCounter(_Numbered, _BaseCounter):
    """What a counter is in both runtimes."""

    def looks(self, stored: Stored) -> int:
        """Return the number that is stored."""
        return self._number(stored)


class SimLatch(_Numbered, _BaseLatch):
    """What a latch is in both runtimes."""

    def looks(self, stored: Stored) -> int:
        """Return how many are left."""
        return self._left(stored)


class SimGrant(_BaseGrant):
    """What a grant is in both runtimes, as far as it guards writes."""

    def __init__(self, runtime: Any, hold: HeldState) -> None:
        self._runtime = runtime
        self._hold = hold


class Asking:
    """One that calls: its client, its task, and the grant that guards what it writes, if any."""

    def __init__(self, client: Client, task: Task, grant: SimGrant | None = None) -> None:
        self.client = client
        self.task = task
        self.grant = grant
        self.oracle: ValuesOracle = client.oracle

    def guarded(self, noun: Any) -> Any:
        """Return a noun whose writes the grant guards."""
        return noun if self.grant is None else self.grant.guarding(noun)

    def draw(self, among: tuple[Any, ...]) -> Any:
        """Return one of these."""
        return among[int(self.client.world.random() * len(among))]

    def asks(
        self, noun: Any, what: str, asked: Any, program: Program[Any], told: Callable[[Doing, Any], None]
    ) -> Steps:
        """Make one call, and tell the oracle what it came to."""
        client, oracle = self.client, self.oracle
        call = noun._asking()
        call.mailbox.task = self.task
        call.deadline = Deadline.after(self.draw(WITHIN_S), client.local)
        doing = oracle.begins(client, noun, what, asked)
        try:
            result = yield from client.run(self.task, call, program)
        except (OutcomeUnknown, Cancelled):
            oracle.given_up(doing)
            raise
        except (StoreError, SessionLost, LockLost) as error:
            oracle.refused(doing, error)
            raise
        told(doing, result)

    # A value.

    def _get(self) -> Steps:
        noun, oracle = SimValue(self.client.runtime, NAME), self.oracle

        def told(doing: Doing, shown: Any) -> None:
            said = None if shown is None else (shown.data, shown.version)
            oracle.reads(doing, said, noun.looks, shown)
            self.client.known = 0 if shown is None else shown.version

        yield from self.asks(noun, "get", None, noun._get(), told)

    def put(self) -> Steps:
        """Set the value to data that no other call sets."""
        noun, data = self.guarded(SimValue(self.client.runtime, NAME)), self._data()
        wrote = self.oracle.wrote
        yield from self.asks(noun, "set", data, noun._set(data), lambda doing, _: wrote(doing, data, data))

    def _set_if(self) -> Steps:
        noun, data = self.guarded(SimValue(self.client.runtime, NAME)), self._data()
        version = self.client.known
        program = noun._set_if(data, version)
        yield from self.asks(
            noun, "set_if", (data, version, True), program, self._if_done((data, version), data)
        )

    def _delete(self) -> Steps:
        noun = self.guarded(SimValue(self.client.runtime, NAME))
        version = self.client.known if self.client.world.random() < 0.5 else None
        program = noun._delete(version)
        yield from self.asks(noun, "delete", (version, True), program, self._if_done((version,), None))

    def _if_done(self, asked: tuple[Any, ...], data: bytes | None) -> Callable[[Doing, bool], None]:
        def told(doing: Doing, done: bool) -> None:
            if done:
                self.oracle.wrote(doing, (*asked, True), data)
            else:
                self.oracle.was_left(doing, (*asked, False))

        return told

    def _data(self) -> bytes:
        return self.client.new_id().encode()

    # A counter.

    def _sum(self) -> Steps:
        noun = SimCounter(self.client.runtime, NAME, 0)
        reads = self.oracle.reads

        def told(doing: Doing, shown: int) -> None:
            reads(doing, shown, noun.looks, shown)
            self.client.sum = shown

        yield from self.asks(noun, "get", None, noun._get(), told)

    def add(self) -> Steps:
        """Add a number that no other call adds."""
        noun = self.guarded(SimCounter(self.client.runtime, NAME, 0))
        adds = noun.adds = self.oracle.bit()
        wrote = self.oracle.wrote
        yield from self.asks(
            noun,
            "add",
            (adds, None),
            noun._add(adds),
            lambda doing, sum_: wrote(doing, (adds, sum_), b"%d" % sum_),
        )

    def _replace(self) -> Steps:
        noun = self.guarded(SimCounter(self.client.runtime, NAME, 0))
        noun.adds = self.oracle.bit()
        old, new = self.client.sum, self.client.sum + noun.adds
        program = noun._set_if(new, old)
        yield from self.asks(
            noun, "set_if", (new, old, True), program, self._if_done((new, old), b"%d" % new)
        )

    # A latch.

    def _left(self) -> Steps:
        noun = SimLatch(self.client.runtime, NAME, LATCH_COUNT)
        reads = self.oracle.reads
        yield from self.asks(
            noun, "left", None, noun._read(), lambda doing, left: reads(doing, left, noun.looks, left)
        )

    def count_down(self) -> Steps:
        """Count the latch down by one."""
        noun, oracle = self.guarded(SimLatch(self.client.runtime, NAME, LATCH_COUNT)), self.oracle

        def told(doing: Doing, left: int) -> None:
            if left or doing.ident in oracle.lands:
                oracle.wrote(doing, left, b"%d %d" % (LATCH_COUNT, left))
            else:  # it was open
                oracle.was_left(doing, left)

        yield from self.asks(noun, "count_down", None, noun._count_down(1), told)

    def wait(self, timeout_s: float | None) -> Steps:
        """Wait until the latch is open."""
        noun, client = SimLatch(self.client.runtime, NAME, LATCH_COUNT), self.client
        runtime = client.runtime
        call = runtime.call(None, timeout_s)
        mailbox: Any = call.mailbox
        mailbox.task = self.task
        observer = runtime.hub.join(noun._observed, call.mailbox)
        try:
            opened = yield from client.run(self.task, call, noun._until_open(observer))
        finally:
            runtime.hub.leave(noun._observed, observer)
        self.oracle.waited(client, noun, opened=opened, for_ever=timeout_s is None)

    def _wait(self) -> Steps:
        yield from self.wait(self.draw(WAITS_S))

    OF_A_VALUE = (put, put, _set_if, _delete)
    OF_A_COUNTER = (add, add, add, _replace)
    OF_ONE = ((*OF_A_VALUE, _get), (*OF_A_VALUE, _get), (*OF_A_COUNTER, _sum), (count_down, _left))
    WRITES = (*OF_A_VALUE, *OF_A_COUNTER)
    ALL = (*WRITES, *3 * (_get, _sum), _left, count_down, _wait)

    def one_of(self, among: tuple[Call, ...]) -> Steps:
        """Make one of these calls."""
        call: Call = self.draw(among)
        yield from call(self)


FAILURES = (StoreError, SessionLost, LockLost, Cancelled)


def use(client: Client, task: Task, kind: Flavour, rules: tuple[Rule, ...]) -> Steps:
    """Read or write; now and then several at once, or under a grant."""
    del rules  # a lock has one
    random = client.world.random
    if random() < GUARDS:
        yield from _guarded(client, task, kind)
        return
    if random() < CROWDS:
        among = Asking.OF_ONE[int(random() * len(Asking.OF_ONE))]
        for number in range(ALL_AT_ONCE - 1):
            beside = Task(client, f"{task.name}.{number}", _nothing())
            beside.steps = _beside(client, beside, among)
            client.world.start(beside)
        yield from Asking(client, task).one_of(among)
        return
    yield from Asking(client, task).one_of(Asking.ALL)


def _beside(client: Client, task: Task, among: tuple[Call, ...]) -> Steps:
    with suppress(*FAILURES):
        yield from Asking(client, task).one_of(among)


def _nothing() -> Steps:
    yield from ()


def _guarded(client: Client, task: Task, kind: Flavour) -> Steps:
    """Acquire a lock, and write what it guards: also after a while, and when it was lost, or given back."""
    oracle, random = client.oracle, client.world.random
    began = oracle.asking(client)
    hold = yield from acquired(
        client, task, kind, Attempt(NAME, EXCLUSIVE, client.new_id, LABELS["exclusive"])
    )
    if hold is None:
        return
    oracle.granted(client, hold, began)
    asking = Asking(client, task, SimGrant(client.runtime, hold))
    with suppress(*FAILURES):  # the with statement gives it back all the same
        for _ in range(asking.draw(WRITES_HELD)):
            yield from asking.one_of(Asking.WRITES)
            seconds = asking.draw(kind.holds)
            if seconds and random() < 0.5:
                yield from held_for_a_while(client, task, hold, hold, seconds)
    yield from given_back(client, task, hold)
    if random() < 0.2:
        with suppress(*FAILURES):
            yield from asking.one_of(Asking.WRITES)


def watch(client: Client, task: Task) -> Steps:
    """Watch the value or the counter, as long as the client lasts."""
    runtime = client.runtime
    noun = SimValue(runtime, NAME) if task.number % 2 else SimCounter(runtime, NAME, 0)
    client.oracle.watches(task, noun)
    yield from observe(client, task, runtime, noun._observed, noun.looks)


def open_the_latch(client: Client, task: Task) -> Steps:
    """Have the first of all clients count the latch down; the others wait until it is open."""
    asking, first = Asking(client, task), next(one for one in client.world.clients if not one.dead)
    if client is first:
        latch = SimLatch(client.runtime, NAME, LATCH_COUNT)
        while latch.looks(client.store.value(KEYS[-1])):
            with suppress(StoreError, SessionLost):
                yield from asking.count_down()
    else:
        yield from asking.wait(None)
    client.runtime.begin(task, None)
    yield Receive(0.01)


VALUES = Use(
    use,
    ValuesOracle,
    observer=watch,
    finale=open_the_latch,
    writes=True,
    times=2,
)
