"""One session with a store whose library blocks: what its connections for threads and for asyncio share."""

from __future__ import annotations

import random
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from recipes._contract.connection import Mailbox, OnEnd
from recipes._contract.operations import Op, Open
from recipes._contract.wakeups import Changed, Event, Gone
from recipes._record import record
from recipes._run.clock import boot_time
from recipes.errors import SessionLost, StoreError, StoreUnavailable
from recipes.stores._kit.queue import Command, is_queue
from recipes.stores._kit.subscriptions import Subscriptions

__all__ = ["NOBODY", "Busy", "Observe", "Observed", "Session"]

EAGER_TRIES = 4
SHORTEST_PAUSE_S = 0.0001
LONGEST_PAUSE_S = 0.01
TICK_WITHIN_S = 1.0


class Busy(Exception):
    """Another process is writing, and nothing was done: ask again soon."""


class _Nobody(Mailbox):
    """Where events go that were not asked for."""

    def post(self, event: Event) -> None:
        """Drop it."""

    def clear(self) -> None:
        """Forget nothing: nothing is kept."""


NOBODY = _Nobody()


@record
class Observed:
    """What has become of contenders and queues.

    Attributes:
        standing: The references of the contenders that stand.
        marks: The marks of those of them that have one.
        changed: The queues that are not as this session saw them.
        owners: The sessions that are there, where a store sees by itself that their processes have died.
        due: The time of some session is over.
    """

    standing: frozenset[str]
    marks: dict[str, str]
    changed: tuple[str, ...]
    owners: frozenset[str] = frozenset()
    due: bool = False


@record
class Observe(Op[Observed]):
    """Say what has become of these contenders and queues."""

    contenders: tuple[str, ...]
    queues: tuple[str, ...]


class Session(ABC):
    """Carries out commands in the thread that asks, and looks after what is watched.

    A store that can notify other processes has a `socket`, and says in `hear` what arrived there. As such a
    hint may be lost, and some stores have none, it looks by itself every `pause_s` while a call waits.

    Args:
        label: Where the store is, for errors.
        on_end: Notified once if the session turns out to have ended.

    Attributes:
        id: The session's, from `Open` on.
        parallel: Whether the commands of several threads are carried out side by side, and do not wait for
            each other.
        subscriptions: What the client's calls watch.
        on_listen: Called when a call waits and none did before; never blocks.
    """

    parallel: ClassVar[bool] = False

    def __init__(self, label: str, on_end: OnEnd) -> None:
        self.label = label
        self.id = ""
        self.subscriptions = Subscriptions()
        self.on_listen: Callable[[], None] = lambda: None
        self._on_end: OnEnd | None = on_end
        self._next_tick = 0.0
        self._idle = True
        self._marks: dict[str, str] = {}  # as the last tick saw them

    # What a store says.

    @abstractmethod
    def try_once(self, command: Command, until: float) -> Any:
        """Carry out a command before a moment of the boot clock, `post` what came of it; or raise.

        Raises:
            Busy: Nothing was done; it is tried again.
        """

    @property
    @abstractmethod
    def pause_s(self) -> float:
        """After how many seconds to look by itself."""

    @abstractmethod
    def close(self, within_s: float) -> None:
        """Let go of everything, also once more; never raises. What is under way in parallel goes on."""

    @property
    def socket(self) -> socket.socket | None:
        """What is to be read, by `hear`, when something arrives; None: nothing will."""
        return None

    @property
    def taken(self) -> bool:
        """Whether other code of this process closed what shows that this session lives, or its `socket`."""
        return False

    def hear(self) -> bool:
        """`post` what arrived at the socket; whether it is better to look as well."""
        return False

    def look_after(self, found: Observed) -> None:  # noqa: B027 - some stores have nothing to do
        """Do what a look shows to be due: end the sessions of those that have died."""

    # What its connections ask.

    def carry_out(self, command: Command, timeout_s: float) -> Any:
        """Carry out a command within so many seconds, or raise; waits while others write."""
        if isinstance(command.op, Open):
            self.id = command.session
        until = boot_time() + timeout_s
        for pause_s in _pauses():
            try:
                return self.try_once(command, until)
            except Busy:
                pass
            if boot_time() + pause_s >= until:
                raise StoreUnavailable(self.label, "others were writing all the time", unsent=True)
            time.sleep(pause_s)
        raise AssertionError("pauses should not end")

    def listen(self, mailbox: Mailbox, ref: str) -> bool:
        """Have a mailbox notified of a contender or a queue, and `tick` look after it.

        Returns whether another is notified of it already.
        """
        before = ref in self.subscriptions
        self.subscriptions.add(mailbox, ref)  # first: `tick_s` says that it is idle before it looks
        if self._idle:
            self._plan_tick()
            self.on_listen()
        return before

    def post(self, news: Iterable[Gone | Changed]) -> None:
        """Notify the calls that watch what these events are about."""
        for event in news:
            self.subscriptions.post(event)

    @property
    def tick_s(self) -> float | None:
        """After how many seconds to call `tick`; None: no call waits."""
        self._idle = True
        if not self.subscriptions:
            return None
        self._idle = False
        return max(0.0, self._next_tick - boot_time())

    def tick(self) -> None:
        """Look after what is watched, and notify of what did not arrive; never raises."""
        self._plan_tick()
        refs = self.subscriptions.refs()
        if not refs:
            return
        queues = tuple(ref for ref in refs if is_queue(ref))
        contenders = tuple(ref for ref in refs if not is_queue(ref))
        try:
            found: Observed = self.ask(Observe(contenders, queues))
            self.look_after(found)
        except SessionLost as lost:
            self.end(lost.reason)
        except StoreError:  # the next tick will do, and so will the waiter's own look
            return
        else:
            before, self._marks = self._marks, found.marks  # of a mark once: some go on waiting behind it
            self.post(Gone(ref) for ref in contenders if ref not in found.standing)
            self.post(Changed(ref) for ref, mark in found.marks.items() if mark != before.get(ref))
            self.post(Changed(queue) for queue in found.changed)

    def ask(self, op: Op[Any]) -> Any:
        """Carry out what no call has asked for."""
        return self.carry_out(Command(op, self.id, NOBODY), TICK_WITHIN_S)

    def end(self, reason: str) -> None:
        """Say that the session has ended; never raises, never waits."""
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(reason)

    def _plan_tick(self) -> None:
        self._next_tick = boot_time() + self.pause_s


def _pauses() -> Iterator[float]:
    """Yield how long to wait before each next try, with jitter: others write for some ten microseconds."""
    yield from (0.0,) * EAGER_TRIES
    longest = SHORTEST_PAUSE_S
    while True:
        yield random.uniform(longest / 2, longest)  # noqa: S311 - spreads load only
        longest = min(longest * 1.5, LONGEST_PAUSE_S)
