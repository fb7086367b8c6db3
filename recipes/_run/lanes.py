"""Runs the programs of a crew beside each other, each in a lane: a call within the call.

A lane has a mailbox of its own, whose events wake the call. What several lanes ask at a time is sent as one
batch, where the store takes batches. Pure, as the interpreter is.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from recipes._contract.connection import Batch, Mailbox, Request, parts_of
from recipes._contract.deadline import NEVER, Expired
from recipes._contract.wakeups import Event
from recipes._programs.crew import Ended
from recipes._record import record
from recipes._run.effects import Effects, Receive
from recipes.errors import SessionLost

if TYPE_CHECKING:
    from recipes._contract.operations import Program
    from recipes._programs.crew import Beside, Crew, Started
    from recipes._run.runtime import Call

__all__ = ["MOST_TOGETHER", "Lane", "run_beside"]

MOST_TOGETHER = 100
"""Requests in one batch: others of the client wait for no more than these."""


@record
class Stirred(Event):
    """A lane of the call has an event in its mailbox."""


class Inbox:
    """The mailbox of a lane; wakes the call that it belongs to.

    Attributes:
        shared: The mailbox of that call.
    """

    __slots__ = ("_key", "_woken", "events", "shared")

    def __init__(self, key: Hashable, shared: Mailbox, woken: deque[Hashable]) -> None:
        self.events: deque[Event] = deque()
        self._key, self.shared, self._woken = key, shared, woken

    def post(self, event: Event) -> None:
        """Deliver ``event``; from any thread."""
        self.events.append(event)
        self._woken.append(self._key)
        self.shared.post(Stirred())

    def clear(self) -> None:
        """Forget what has come so far."""
        self.events.clear()


class Lane:
    """One program of a crew on its way.

    Attributes:
        call: What it runs as.
        asks: The request that it waits for; None: it waits for an event.
        until: Until when it waits for that.
    """

    __slots__ = ("_crew", "_effects", "_inbox", "_key", "_now", "_running", "asks", "call", "until")

    def __init__(self, key: Hashable, crew: Crew, parent: Call, started: Started) -> None:
        self._key, self._crew = key, crew
        if parent.beside is None:
            parent.beside = []
        self._running = parent.beside
        self._now = parent.runtime.now
        self._inbox = Inbox(key, parent.mailbox, crew.woken)
        self.call = _lane_call(parent, self._inbox, started)
        self.asks: Request[Any] | None = None
        self.until = math.inf

    def begin(self, effects: Effects[Any]) -> None:
        """Run it until it first waits."""
        self._effects = effects
        self._crew.lanes[self._key] = self
        self._running.append(self.call)
        self.go_on()

    def go_on(self, result: Any = None, error: BaseException | None = None) -> None:
        """Give it what it waited for, or an error, and run it until it waits again, or ends."""
        self.asks, self.until = None, math.inf
        try:
            while True:
                effect = self._effects.send(result) if error is None else self._effects.throw(error)
                result, error = None, None
                if not isinstance(effect, Receive):
                    self.asks = effect
                    return
                if not self._inbox.events:
                    if effect.at_most_s is not None:
                        self.until = self._now() + effect.at_most_s
                    return
                result = self._inbox.events.popleft()
        except StopIteration as stop:
            self._end(Ended(self._key, stop.value))
        except Exception as raised:
            self.call.unwind()
            self._end(Ended(self._key, error=raised))

    def wake(self, now: float) -> None:
        """Give it what came for it, or nothing if its time is over."""
        if self.asks is not None:
            return
        if self._inbox.events:
            self.go_on(self._inbox.events.popleft())
        elif now >= self.until:
            self.go_on()

    def _end(self, ended: Ended) -> None:
        del self._crew.lanes[self._key]
        self._running.remove(self.call)
        self.call.finish()
        self._crew.ended.append(ended)


def run_beside(
    op: Beside, call: Call, interpret: Callable[[Program[Any], Call], Effects[Any]]
) -> Effects[Event | None]:
    """Carry out a `Beside`."""
    crew, now = op.crew, call.runtime.now
    until = math.inf if op.at_most_s is None else now() + op.at_most_s
    _begin(crew, call, interpret)
    while True:
        _wake(crew, now())
        asking = [lane for lane in crew.lanes.values() if lane.asks is not None]
        if asking:
            yield from _ask_together(asking, call)
        elif crew.ended:
            return None
        else:
            due = min((lane.until for lane in crew.lanes.values()), default=math.inf)
            left = min(due, until) - now()
            event: Event | None = yield Receive(max(left, 0.0) if left < math.inf else None)
            if not isinstance(event, Stirred | None):
                return event
            if event is None and now() >= until:
                return None


def _begin(crew: Crew, call: Call, interpret: Callable[[Program[Any], Call], Effects[Any]]) -> None:
    """Start those that are to begin, and end those that are to go."""
    while crew.started:
        key = next(iter(crew.started))
        started = crew.started.pop(key)
        lane = Lane(key, crew, call, started)
        lane.begin(interpret(started.program, lane.call))
    while crew.stopped:
        key, error = crew.stopped.popitem()
        if (stopped := crew.lanes.get(key)) is not None:
            stopped.go_on(error=error)


def _wake(crew: Crew, now: float) -> None:
    """Have those go on for which something came, or whose time is over."""
    while crew.woken:
        lane = crew.lanes.get(crew.woken.popleft())
        if lane is not None:
            lane.wake(now)
    for lane in list(crew.lanes.values()):
        if now >= lane.until:
            lane.wake(now)


def _ask_together(asking: list[Lane], call: Call) -> Effects[None]:
    """Ask what the first of them wants, with as much of what the others do as one batch holds."""
    together = _together(asking)
    first, mine = together[0], call.session
    asks_of = first.call.session
    if asks_of is not None and asks_of.ended is not None:  # while others were asked: this would wait in vain
        first.go_on(error=SessionLost(asks_of.ended))
        return
    request = first.asks
    assert request is not None, "those that ask were chosen"
    if len(together) > 1:
        request = Batch(tuple(part for lane in together for part in _parts(lane)))
    call.session = asks_of
    try:
        reply = yield request
    except (Expired, GeneratorExit):
        raise
    except Exception as error:
        for lane in together:
            lane.go_on(error=error)
    else:
        _hand_out(together, reply)
    finally:
        call.session = mine


def _together(asking: list[Lane]) -> list[Lane]:
    """Return the first, and those whose requests fit into one batch with its own."""
    first = asking[0]
    together, room = [first], MOST_TOGETHER - len(_parts(first))
    for lane in asking[1:] if _parts(first) else ():
        parts = _parts(lane)
        if parts and lane.call.session is first.call.session:
            room -= len(parts)
            if room < 0:
                break
            together.append(lane)
    return together


def _parts(lane: Lane) -> tuple[Request[Any], ...]:
    return () if lane.asks is None else parts_of(lane.asks)


def _hand_out(together: list[Lane], reply: Any) -> None:
    """Give each of those who asked what is its own of the reply."""
    if len(together) == 1:
        together[0].go_on(reply)
        return
    replies = iter(reply)
    for lane, asked in [(lane, lane.asks) for lane in together]:
        own = tuple(next(replies) for _ in _parts(lane))
        if isinstance(asked, Batch):
            lane.go_on(own)
        elif isinstance(own[0], Exception):
            lane.go_on(error=own[0])
        else:
            lane.go_on(own[0])


def _lane_call(parent: Call, inbox: Inbox, started: Started) -> Call:
    """Return a call for a program of a crew; it has no deadline of its own."""
    call = type(parent)(parent.runtime, inbox, parent.owner, NEVER)
    call.lasting = parent.lasting
    if started.hold is not None:
        entry = started.hold.entry
        call.session, call.ticket, call.entry = started.hold.session, entry.ticket, entry
    return call
