"""The programs that look at a queue from outside, or remove another's contender from it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from recipes._contract.deadline import Expired
from recipes._contract.names import decode
from recipes._contract.operations import (
    Evict,
    List,
    Listing,
    Program,
    Queues,
    Read,
    Stored,
)
from recipes._contract.wakeups import Event
from recipes._programs.queueing import _unanswered, calm, due_at
from recipes._programs.steps import Allow, Attach, Now, Wait
from recipes._record import record
from recipes.errors import SessionLost

if TYPE_CHECKING:
    from recipes._contract.connection import Mailbox

__all__ = ["Observed", "Observer", "Over", "Shown", "Topic", "evict", "look_at_all", "look_up", "observe"]

T = TypeVar("T")
MOST_VIEWS = 32
"""Of so many kinds at most what is made of one state is kept for others."""


class Over(Exception):
    """What was asked for the next was closed."""


def look_up(op: List | Queues | Read) -> Program[Any]:
    """Read something from outside of any queue; once more if the session ends meanwhile."""
    while True:
        try:
            yield from Attach()
            found = yield from op
        except SessionLost:
            continue
        except Expired as expired:
            raise _unanswered(expired) from None
        return found


def look_at_all(locks: int, heads: int, within_s: float) -> Program[dict[str, Listing]]:
    """Read which locks there are, and the queue of each, which may take so many seconds; by name.

    Of each so many contenders are read; 0: none, and the names alone.
    """
    queues: tuple[str, ...] = yield from look_up(Queues(locks))
    names = {name: queue for queue in queues if (name := decode(queue)) is not None}  # of locks, and ours
    found = dict.fromkeys(names, Listing(()))
    for name, queue in names.items() if heads else ():
        yield from Allow(within_s)
        found[name] = yield from look_up(List(queue, heads))
    return found


def evict(queue: str, named: int | str, most: int) -> Program[bool]:
    """Remove the contender with this token, or id, if it is among the first so many; False: there is none."""
    while True:
        listing: Listing = yield from look_up(List(queue, most))
        found = next((one for one in listing.contenders if named and named in (one.token, one.id)), None)
        if found is None:
            return False
        try:
            return (yield from Evict(queue, found.ref, found.token))
        except SessionLost:
            continue
        except Expired as expired:
            raise _unanswered(expired) from None


@record
class Observed:
    """What is observed, and how; those who observe the same share one watch.

    Attributes:
        queue: The encoded name of the queue.
        most: How many contenders are read, from the head on.
        every_s: The longest pause between two looks; None: as long as between any two re-reads.
        fail_fast: End if the store cannot be reached, as single looks do; else outlast that.
        reads: It is the value there that is read, and not the queue.
    """

    queue: str
    most: int
    every_s: float | None = None
    fail_fast: bool = False
    reads: bool = False


@record
class Shown(Event):
    """There is something new to see, or there will never be again."""


class Topic:
    """The last that was seen of a queue, or of whatever is shown, and those who observe it.

    Observers are referred to weakly, but while they wait: one that is dropped observes no more. Safe from any
    thread without a lock: each step is one assignment or dict operation.

    Attributes:
        shown: The number of what was seen last, and that; 0: nothing was yet.
        error: Why nothing will be shown any more.
        restart: Has it shown again, by another program than the one that has lapsed.
    """

    def __init__(self) -> None:
        self.shown: tuple[int, Any] = (0, ())
        self.restart: Callable[[Topic], object] = bool
        self._shown_before = 0
        self._lapsed: dict[str, bool] = {}
        self.error: Exception | None = None
        self.observers: dict[weakref.ref[Observer], None] = {}
        self.waiting: dict[Observer, None] = {}
        self._views: tuple[Any, dict[Any, Any]] = (), {}

    def view(self, shown: Any, make: Callable[[Any], T]) -> T:
        """Return what is made of this, which was shown; once for all observers that make the same of it."""
        known, views = self._views
        if known is not shown or len(views) >= MOST_VIEWS:  # of what stays as it is, users come and go
            views = {}
            self._views = shown, views
        if make not in views:
            views[make] = make(shown)
        seen: T = views[make]
        return seen

    def add(self, observer: Observer) -> None:
        """Notify this observer from now on."""
        self.observers[weakref.ref(observer, self._drop)] = None

    def remove(self, observer: Observer) -> None:
        """Notify it no more."""
        self._drop(weakref.ref(observer))

    def _drop(self, observer: weakref.ref[Observer]) -> None:
        self.observers.pop(observer, None)

    def show(self, seen: Any) -> None:
        """Show this to all observers, unless it is what they saw last."""
        number, before = self.shown
        if not number or seen != before:
            self.shown = (number or self._shown_before) + 1, seen
            self._notify()

    def forget(self) -> None:
        """Show what is seen next as new, whatever was shown before: it may have been another meanwhile."""
        self._shown_before = self.shown[0] or self._shown_before
        self.shown = 0, ()

    def lapse(self) -> None:
        """Note that other code has ended the program that shows it; the next to look has another begin."""
        self._lapsed["it"] = True
        self._notify()

    def go_on(self) -> None:
        """Have it shown again if that has lapsed; of several threads one does."""
        if self._lapsed:
            try:
                if self._lapsed.pop("it", False):
                    self.restart(self)
            except BaseException:  # of those that wait another is to try; it may have begun all the same
                self.lapse()
                raise

    def fail(self, error: Exception) -> None:
        """Show nothing any more."""
        self.error = error
        self._notify()

    def _notify(self) -> None:
        for reference in list(self.observers):
            observer = reference()
            if observer is not None:
                observer.notify()


class Observer:
    """One that observes a topic, and sees the last of it; it skips what came and went while it was busy.

    Args:
        topic: What it observes.
        mailbox: Where it is notified; that of the calls that wait for `next`, and for nothing else.
    """

    def __init__(self, topic: Topic, mailbox: Mailbox) -> None:
        self.topic = topic
        self._mailbox = mailbox
        self._notified = self._closed = False

    def close(self) -> None:
        """Raise `Over` in those that wait for what is next, now and later; from any thread."""
        self._closed = True
        self._mailbox.post(Shown())

    def notify(self) -> None:
        """Have it look at the topic; at most one notification is on its way."""
        if not self._notified:
            self._notified = True
            self._mailbox.post(Shown())

    def look(self) -> Any:
        """Return what is shown now; what comes later is notified."""
        self._notified = False  # first: what is shown from here on is notified
        self.topic.go_on()
        if self.topic.error is not None:
            raise self.topic.error.with_traceback(None)
        return self.topic.shown[1]

    def next(self, after: int) -> Program[tuple[int, Any]]:
        """Wait for another state than the one with this number, and return it with its number.

        Its caller keeps the number: so nothing is passed over if an interrupt strikes before that.
        """
        while True:
            self._mailbox.clear()  # one that is late has a notification there of each state that it missed
            self._notified = False  # as there
            if self._closed:
                raise Over
            self.topic.go_on()
            number, seen = self.topic.shown
            if number not in (0, after):
                return number, seen
            if self.topic.error is not None:
                raise self.topic.error.with_traceback(None)
            self.topic.waiting[self] = None  # else nobody refers to a task that waits here
            try:
                yield from Wait()
            finally:
                self.topic.waiting.pop(self, None)


def _look(observed: Observed) -> Program[tuple[Any, float | None]]:
    """Return what there is to see, and in how many seconds to look again; the next change is notified."""
    if observed.reads:
        stored: Stored = yield from Read(observed.queue, watch=True)
        return stored, stored.due_s
    listing: Listing = yield from List(observed.queue, observed.most, watch=True)
    return listing.contenders, listing.due_s


def observe(
    observed: Observed, topic: Topic, wanted: Callable[[], bool], pause_s: float = 0.0
) -> Program[None]:
    """Show what changes in a queue or a value while that is ``wanted``, through lost sessions and watches.

    However fast it changes, it is listed every ``pause_s`` at most: what comes meanwhile is seen together.
    """
    try:
        disturbed = 0
        while wanted():
            try:
                yield from Attach()
                listed_at = yield from Now()
                shown, due_s = yield from _look(observed)
                topic.show(shown)
                pauses = [pause for pause in (due_s, observed.every_s) if pause is not None]
                event = yield from Wait(due_at=(yield from due_at(min(pauses, default=None))))
                disturbed = yield from calm(event, disturbed)
                while (left := listed_at + pause_s - (yield from Now())) > 0:
                    yield from Wait(left)
            except SessionLost:
                continue
    except Expired:  # nobody observes it any more
        return
    except Exception as error:
        topic.fail(error)
    except BaseException:
        topic.lapse()
        raise
