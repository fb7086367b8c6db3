"""What is measured, and how a transition becomes measures; pure, and the same for every exporter."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

from recipes.events import EVENTS, HELD, SHARED, Transition, event_of

__all__ = ["BUCKETS_S", "INSTRUMENTS", "PENDING", "Instrument", "Measure", "Meter", "NameLabel", "held_as"]

NameLabel: TypeAlias = "Callable[[str], str] | None"
"""What to call a lock, or whatever is held, in labels; None leaves its name out."""

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Upper ends of the histograms' buckets: from a hand-over on one machine to a nightly job."""

MOST = 10_000
"""Of how many grants and locks something is remembered at most."""

Key = tuple[str | None, str, str | None]


@dataclass(frozen=True, slots=True)
class Instrument:
    """Something that is measured.

    Attributes:
        name: Dotted, without the prefix ``recipes``.
        kind: What kind of instrument it is.
        unit: "s", or in braces what is counted.
        labels: What distinguishes it; besides these ``name``, where that is asked for.
        help: What it says.
    """

    name: str
    kind: Literal["counter", "histogram", "gauge"]
    unit: str
    labels: tuple[str, ...]
    help: str

    @property
    def has_name(self) -> bool:
        """Whether it can be split by the names of locks, or whatever is held."""
        return "recipe" in self.labels


# Those of whatever is held; each noun has its own, with the noun before the name.
_RECIPE = ("recipe", "mode", "store")
ACQUIRE = Instrument(
    "acquire.duration",
    "histogram",
    "s",
    (*_RECIPE, "outcome"),
    "Seconds from the call to its end: acquired, timeout or cancelled",
)
HOLD = Instrument(
    "hold.duration",
    "histogram",
    "s",
    (*_RECIPE, "outcome"),
    "Seconds from the grant to its end: released or lost",
)
HAND_OVER = Instrument(
    "handover.duration",
    "histogram",
    "s",
    _RECIPE,
    "Seconds from a confirmed release to the next grant, where both are in this process",
)
CONTENDED = Instrument("contended", "counter", "{wait}", _RECIPE, "Times that somebody was ahead")
REQUEUED = Instrument(
    "requeued", "counter", "{wait}", _RECIPE, "Times that a waiter lost its place and queued again"
)
LOST = Instrument("lost", "counter", "{grant}", _RECIPE, "Grants that were lost")
# That of whatever is shared; each noun has its own, too.
WRITES = Instrument(
    "writes",
    "counter",
    "{write}",
    ("recipe", "store", "outcome"),
    "Writes by what came of them, as the event calls it (written, added); unknown: no answer came",
)
_OF = {
    (noun, one): replace(one, name=f"{noun}.{one.name}")
    for noun, instruments in (
        *((noun, (ACQUIRE, HOLD, HAND_OVER, CONTENDED, REQUEUED, LOST)) for noun in HELD),
        *((noun, (WRITES,)) for noun in SHARED),
    )
    for one in instruments
}

MEETING = Instrument(
    "barrier.wait.duration",
    "histogram",
    "s",
    ("recipe", "store", "outcome"),
    "Seconds from the call to its end: passed or broken",
)
LATE = Instrument(
    "session.late_renewals", "counter", "{session}", ("store",), "Times that two renewals went by unanswered"
)
SESSIONS_LOST = Instrument("session.lost", "counter", "{session}", ("store",), "Sessions that were given up")
RETRIES = Instrument(
    "store.retries",
    "counter",
    "{request}",
    ("store",),
    "Requests that were asked again for want of an answer",
)
PENDING = Instrument(
    "cleanups.pending", "gauge", "{contender}", ("store",), "Clean-ups behind interrupted calls, not done yet"
)

INSTRUMENTS = (*_OF.values(), MEETING, LATE, SESSIONS_LOST, RETRIES, PENDING)
"""All of them (reference documentation; the page about metrics lists them)."""

_OF_HELD = {"queued": CONTENDED, "requeued": REQUEUED, "lost": LOST}
_COUNTED = {
    **{
        event: of
        for noun in HELD
        for what, of in _OF_HELD.items()
        if (event := event_of(noun, what)) in EVENTS
    },
    "session.suspect": LATE,
    "session.lost": SESSIONS_LOST,
    "store.retry": RETRIES,
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One value for one instrument."""

    instrument: Instrument
    value: float
    labels: dict[str, str]


@dataclass(slots=True)
class _Line:
    """One lock, as far as this process has seen it.

    Attributes:
        holds: When each grant was given, by `held_as`.
        overtaken: Those whose end was not reported when that of a later holder was.
        freed_at: When it was last given back, until it is held exclusively again.
    """

    holds: dict[int | None, float] = field(default_factory=dict)
    overtaken: deque[int | None] = field(default_factory=partial(deque, maxlen=8))
    freed_at: float | None = None

    def overtake(self, began: float) -> None:
        """Count as ended, reported or not, what came before an exclusive holder."""
        self.overtaken.extend(token for token, at in self.holds.items() if at < began)
        self.holds = {token: at for token, at in self.holds.items() if at >= began}


def held_as(transition: Transition) -> int | None:
    """Return what distinguishes a grant from others of its name: its token, or its number."""
    return transition.grant if transition.token is None else transition.token


class Meter:
    """Turns transitions, in the order in which they were emitted, into measures.

    Args:
        name_label: What to call a lock, or whatever is held, in labels; None leaves it out.
    """

    def __init__(self, name_label: NameLabel = None) -> None:
        self._name_label = name_label
        self._lines: OrderedDict[Key, _Line] = OrderedDict()

    def forget(self) -> None:
        """Forget the grants that it has seen, and the locks."""
        self._lines.clear()

    def label_names(self, instrument: Instrument) -> tuple[str, ...]:
        """Return the labels of an instrument."""
        by_name = instrument.has_name and self._name_label is not None
        return (*instrument.labels, "name") if by_name else instrument.labels

    def measures(self, transition: Transition, now: float) -> Iterator[Measure]:
        """Yield what a transition at ``now`` seconds of any steady clock amounts to."""
        if transition.event in _COUNTED:
            yield self._measure(_COUNTED[transition.event], 1, transition)
        if transition.noun in SHARED:
            yield self._measure(WRITES, 1, transition, outcome=transition.what)
        if transition.noun == "barrier":
            yield self._lasted(MEETING, transition.waited_s, transition, transition.what)
        match transition.what if transition.noun in HELD else "":
            case "acquired":
                yield self._lasted(ACQUIRE, transition.waited_s, transition, "acquired")
                yield from self._acquired(transition, now)
            case "timeout" | "cancelled" as outcome:
                yield self._lasted(ACQUIRE, transition.waited_s, transition, outcome)
            case "released" | "lost":
                yield from self._ended(transition, now)
            case _:
                pass

    def _acquired(self, transition: Transition, now: float) -> Iterator[Measure]:
        line = self._line(transition)
        freed_at = line.freed_at
        if freed_at is not None and now - (transition.waited_s or 0) < freed_at:
            yield self._measure(HAND_OVER, max(0.0, now - freed_at), transition)
        if not transition.together:
            line.freed_at = None
        line.holds[held_as(transition)] = now
        while len(line.holds) > MOST:
            line.holds.pop(next(iter(line.holds)))

    def _ended(self, transition: Transition, now: float) -> Iterator[Measure]:
        line = self._line(transition)
        held = held_as(transition)
        began = line.holds.pop(held, None)
        if began is not None and not transition.together:
            line.overtake(began)
        if transition.what == "lost":
            if began is not None:
                yield self._lasted(HOLD, now - began, transition, "lost")
            return
        yield self._lasted(HOLD, transition.held_s, transition, "released")
        if not transition.together and (line.holds or held in line.overtaken):
            yield self._measure(HAND_OVER, 0.0, transition)  # the next had it before this was confirmed
        elif not line.holds:
            line.freed_at = now

    def _line(self, transition: Transition) -> _Line:
        key = (transition.store, transition.noun, transition.name)
        line = self._lines.setdefault(key, _Line())
        self._lines.move_to_end(key)
        if len(self._lines) > MOST:
            self._lines.popitem(last=False)
        return line

    def _lasted(
        self, instrument: Instrument, seconds: float | None, transition: Transition, outcome: str
    ) -> Measure:
        return self._measure(instrument, seconds or 0.0, transition, outcome=outcome)

    def _measure(self, instrument: Instrument, value: float, transition: Transition, **more: str) -> Measure:
        instrument = _OF.get((transition.noun, instrument), instrument)
        labels = {
            name: more[name] if name in more else str(getattr(transition, name)) for name in instrument.labels
        }
        if instrument.has_name and self._name_label is not None:
            labels["name"] = self._name_label(transition.name or "")
        return Measure(instrument, value, labels)
