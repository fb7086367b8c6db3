"""Between a client and its store: sees every request, and makes any one of them fail.

The faults are those of a network and of a caller: a request or a reply that is lost, a
request that lands late, silence, and an interrupt (KeyboardInterrupt in a thread,
cancellation in a task) before or after a request, or while waiting for an event.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from recipes._contract.wakeups import Gone, Granted

PATIENCE_S = 30.0
LOOKS = (("List",), ("Watch", "/kv/range"), ("Sync", "Children"), ("list",), ("listing",), ("peek",))
"""The round trips that begin a look at a whole queue, on one store or another."""
GLANCES = (("glance",),)
"""The round trips by which a waiter looks by itself, again and again, where the store does not notify."""
MOST_GLANCES = 2
"""How many of them are steps of a call: how many there are in all is as long as the test lets it wait."""
RECEIVE = "receive"  # the name under which waiting for an event appears beside the requests


class Act(Enum):
    """What happens to a request."""

    LOSE_REQUEST = auto()  # the store never gets it
    LOSE_REPLY = auto()  # the store does it, and nobody hears
    LOSE_LAST_REPLY = auto()  # of a batch, only the last reply is lost
    LOSE_LAST_REQUESTS = auto()  # of a batch, only the first part arrives
    LAND_LATE = auto()  # no answer, and it is done when the test says so
    HOLD_REPLY = auto()  # it is done, and the answer arrives when the test says so
    INTERRUPT_BEFORE = auto()
    INTERRUPT_AFTER = auto()


@dataclass(frozen=True, slots=True)
class Asked:
    """One round trip: the names of its requests, and whether keepalive loop or cleaner asked it."""

    parts: tuple[str, ...]
    behind: bool


@dataclass(eq=False)
class Fault:
    """Happens once, at the ``left``-th step from now that matches; see `MOST_GLANCES`."""

    act: Act
    left: int
    matches: Callable[[Asked], bool]
    armed: bool = True
    fired: threading.Event = field(default_factory=threading.Event)
    glances: int = 0

    def strikes(self, asked: Asked) -> bool:
        """Count a step; whether this is the one."""
        if not self.armed or not self.matches(asked):
            return False
        self.glances += asked.parts in GLANCES
        if self.glances > MOST_GLANCES and asked.parts in (*GLANCES, (RECEIVE,)):
            return False
        self.left -= 1
        if self.left:
            return False
        self.armed = False
        self.fired.set()
        return True


class Tap:
    """What one client asks its store, and the faults set for it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.drops: Callable[[Any], bool] = lambda event: False
        self.before: Callable[[Asked], object] = lambda asked: None
        self._faults: list[Fault] = []
        self.struck_at = 0.0
        self._late: list[Callable[[], Any]] = []
        self._held: list[Callable[[], None]] = []
        self._let_go = threading.Event()
        self._silent = False
        self._answered: Collection[str] = ()
        self._healed = threading.Event()
        self._parked = self._have_waited = 0
        self._changed = threading.Condition()

    # What a test does.

    def fail(
        self, act: Act, n: int = 1, matches: Callable[[Asked], bool] = lambda asked: not asked.behind
    ) -> Fault:
        """Have ``act`` happen to the ``n``-th step from now that matches; the caller's own by default."""
        fault = Fault(act, n, matches)
        self._faults.append(fault)
        return fault

    def land(self) -> None:
        """Have the requests that were held up (`Act.LAND_LATE`) arrive now."""
        late, self._late = self._late, []
        for arrive in late:
            with contextlib.suppress(Exception):  # nobody hears what the store says to it
                arrive()

    def let_go(self) -> None:
        """Have the replies that were held up (`Act.HOLD_REPLY`) arrive now."""
        self._let_go.set()

    def silence(self, but: Collection[str] = ()) -> None:
        """Answer nothing but these requests, and tell of nothing, until `heal`."""
        self._answered = but
        self._healed.clear()
        self._silent = True

    def heal(self) -> None:
        """End the silence; events that came meanwhile arrive."""
        self._silent = False
        self._healed.set()
        held, self._held = self._held, []
        for deliver in held:
            deliver()

    @property
    def waiting(self) -> int:
        """How many calls of the client wait for an event."""
        return self._parked

    def wait_parked(self, n: int = 1) -> None:
        """Wait until ``n`` calls of the client wait for an event, and ask nothing."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._parked == n, PATIENCE_S), f"{self._parked} wait"

    @contextlib.contextmanager
    def one_more(self, n: int = 1) -> Iterator[None]:
        """Have ``n`` calls begun in the block wait behind it, or look again by themselves after they have."""
        before = self._have_waited
        yield
        with self._changed:
            begun = self._changed.wait_for(lambda: self._have_waited >= before + n, PATIENCE_S)
        assert begun, f"it does not wait; {self._parked} others do"

    @contextlib.contextmanager
    def counting(self) -> Iterator[list[Asked]]:
        """Yield a list that holds, after the block, what the client's callers asked during it."""
        seen: list[Asked] = []
        start = len(self.asked)
        yield seen
        seen += self.asked_by_callers(start)

    def asked_by_callers(self, since: int = 0) -> list[Asked]:
        """Return what the client's callers asked, and not its keepalive loop or cleaner."""
        return [asked for asked in self.asked[since:] if not asked.behind]

    def looks(self, since: int = 0) -> int:
        """Return how often a whole queue was read and watched; that is done behind the client's callers."""
        return sum(asked.parts in LOOKS for asked in self.asked[since:])

    # What the wrappers below ask.

    def step(self, names: tuple[str, ...], behind: bool) -> Act | None:
        """Note a step; returns what is to happen to it."""
        asked = Asked(names, behind)
        self.before(asked)
        if names != (RECEIVE,):
            self.asked.append(asked)
        for fault in self._faults:
            if fault.strikes(asked):
                return fault.act
        return None

    def silences(self, names: tuple[str, ...]) -> bool:
        """Whether these requests are not answered."""
        return self._silent and not all(name in self._answered for name in names)

    def wait_healed(self, timeout_s: float) -> None:
        """Wait out the silence."""
        self._healed.wait(timeout_s)

    def wait_let_go(self) -> None:
        """Wait until held replies may arrive."""
        self._let_go.wait(PATIENCE_S)

    def keep(self, arrive: Callable[[], Any]) -> None:
        """Keep a request that lands late."""
        self._late.append(arrive)

    def deliver(self, event: Any, post: Callable[[Any], None]) -> None:
        """Pass an event on, hold it, or drop it."""
        if self.drops(event):
            return
        if self._silent and type(event) in (Gone, Granted):
            self._held.append(lambda: post(event))
        else:
            post(event)

    @contextlib.contextmanager
    def parked(self, behind: bool, *, first: bool) -> Iterator[None]:
        """Count a caller that waits, maybe for the first time."""
        if behind:
            yield
            return
        self._count(1, first=first)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, by: int, *, first: bool = False) -> None:
        with self._changed:
            self._parked += by
            self._have_waited += first
            self._changed.notify_all()
