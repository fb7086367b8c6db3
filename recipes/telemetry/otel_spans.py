"""Spans for OpenTelemetry: one for each wait, linked to those it waited for, and one for each grant."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recipes import events
from recipes._version import __version__
from recipes.events import Transition
from recipes.telemetry.instruments import MOST, held_as
from recipes.telemetry.recording import Recorder

__all__ = ["otel_spans"]

LINKS = 8
"""How many holders a wait is linked to at most: the last ones."""
NS = 1_000_000_000
ATTRIBUTES = ("name", "recipe", "mode", "store", "attempt", "token", "version", "reason")


def otel_spans(tracer_provider: Any = None) -> Callable[[], None]:
    """Trace the locks of all clients of this process with OpenTelemetry, and whatever else is held.

    A span ``lock.acquire`` is the time of a call, whatever came of it; a span ``lock.hold``
    that of a grant, and linked to its acquisition; of an election ``election.acquire`` and so on. Both are
    children of the span in which the call was made. A wait is linked to the holds of this process that
    were in its way. A write of a value, a counter or a latch has no span: it is an event of the span in
    which the call was made. A call of a barrier is a span ``barrier.wait``.

    Args:
        tracer_provider: None is the global one.

    Returns:
        A function that ends it; holds that last are ended as spans as well.

    Raises:
        ImportError: OpenTelemetry is missing: ``pip install 'coordination-recipes[otel]'``.
    """
    from opentelemetry import trace  # noqa: PLC0415 - an extra

    spans = _Spans(trace.get_tracer("recipes", __version__, tracer_provider), trace)
    end = events.subscribe(spans.tell)

    def stop() -> None:
        end()
        spans.end_all()

    return stop


@dataclass(slots=True, eq=False)
class _Held:
    """A grant, its span, and which event in a row ended it."""

    span: Any
    shared: bool
    ended: int | None = None

    def in_the_way(self, transition: Transition, since: int) -> bool:
        """Whether it was, of a call that queued with an event: not where both are readers."""
        both_read = self.shared and transition.together
        return not both_read and (self.ended is None or self.ended > since)


class _Spans(Recorder):
    """The spans of grants that last, and who held each lock of late."""

    def __init__(self, tracer: Any, trace: Any) -> None:
        super().__init__()
        self._tracer = tracer
        self._trace = trace
        self._held: OrderedDict[tuple[Any, ...], _Held] = OrderedDict()
        self._of_late: OrderedDict[tuple[Any, ...], deque[_Held]] = OrderedDict()
        self._queued: OrderedDict[tuple[Any, ...], int] = OrderedDict()
        self._told = 0

    def tell(self, transition: Transition) -> None:
        with self._order:
            self._told += 1
            match transition.what:
                case "queued":
                    self._queued.setdefault(_caller(transition), self._told)
                    if len(self._queued) > MOST:
                        self._queued.popitem(last=False)
                case "acquired":
                    self._acquired(transition)
                case "timeout" | "cancelled":
                    self._asked(transition, time.time_ns()).end()
                case "released" | "lost":
                    self._ended(transition)
                case "suspect" | "downgraded":
                    self._noted(transition)
                case "passed" | "broken":
                    now = time.time_ns()
                    self._call(transition, "wait", now).end(now)
                case _ if transition.noun in events.SHARED:
                    self._trace.get_current_span().add_event(transition.event, _attributes(transition))
                case _:
                    pass

    def forget(self) -> None:
        self._held.clear()
        self._of_late.clear()
        self._queued.clear()

    def end_all(self) -> None:
        """End the spans of all grants that last."""
        with self._order:
            while self._held:
                self._held.popitem()[1].span.end()

    def _acquired(self, transition: Transition) -> None:
        now = time.time_ns()
        asked = self._asked(transition, now)
        asked.end(now)
        link = self._trace.Link(asked.get_span_context())
        span = self._tracer.start_span(
            f"{transition.noun}.hold", links=[link], start_time=now, attributes=_attributes(transition)
        )
        held = _Held(span, transition.together)
        self._held[_grant(transition)] = held
        if len(self._held) > MOST:
            self._held.popitem(last=False)[1].span.end()
        self._line(transition).append(held)

    def _asked(self, transition: Transition, now: int) -> Any:
        """Return the span of a call that has just come to its end."""
        queued = self._queued.pop(_caller(transition), None)
        links = [
            self._trace.Link(held.span.get_span_context())
            for held in self._line(transition)
            if queued is not None and held.in_the_way(transition, queued)
        ]
        return self._call(transition, "acquire", now, links)

    def _call(self, transition: Transition, what: str, now: int, links: Any = ()) -> Any:
        """Return the span of a call that has just come to its end, well or not."""
        outcome = transition.what
        span = self._tracer.start_span(
            f"{transition.noun}.{what}",
            links=links,
            start_time=now - int((transition.waited_s or 0) * NS),
            attributes={**_attributes(transition), "recipes.outcome": outcome},
        )
        if outcome not in ("acquired", "passed"):
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, transition.reason or outcome))
        return span

    def _ended(self, transition: Transition) -> None:
        held = self._held.pop(_grant(transition), None)
        if held is None:
            return
        held.ended = self._told
        if transition.what == "lost":
            held.span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, transition.reason))
        held.span.end()
        held.span = self._trace.NonRecordingSpan(held.span.get_span_context())  # all that is of use now

    def _noted(self, transition: Transition) -> None:
        held = self._held.get(_grant(transition))
        if held is not None:
            held.shared = held.shared or transition.what == "downgraded"
            held.span.add_event(transition.event)

    def _line(self, transition: Transition) -> deque[_Held]:
        key = _of(transition)
        line = self._of_late.setdefault(key, deque(maxlen=LINKS))
        self._of_late.move_to_end(key)
        if len(self._of_late) > MOST:
            self._of_late.popitem(last=False)
        return line


def _caller(transition: Transition) -> tuple[Any, ...]:
    """Return who acquires what: an event of a call is emitted in its thread or task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        task = None
    return (threading.get_ident(), id(task), *_of(transition))


def _grant(transition: Transition) -> tuple[Any, ...]:
    return (*_of(transition), held_as(transition))


def _of(transition: Transition) -> tuple[Any, ...]:
    return (transition.store, transition.noun, transition.name)


def _attributes(transition: Transition) -> dict[str, Any]:
    fields = transition.fields()
    return {f"recipes.{name}": fields[name] for name in ATTRIBUTES if name in fields}
