"""After fork, while a thread of the parent is inside an exporter: the child goes on, and holds nothing."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from recipes import events, telemetry
from tests.run.test_fork import in_child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

HUNG_AFTER_S = 30


def tell(event: str, name: str, token: int | None = None) -> None:
    fields = {"recipe": "lock", "mode": "exclusive", "store": "s", "waited_s": 0.0}
    events.emit(events.Transition(event, name=name, token=token, **fields))


class Slow:
    """An exporter that takes its time over what is called "slow"."""

    def __init__(self) -> None:
        self.entered, self.goes_on = threading.Event(), threading.Event()

    def export(self, name: str) -> None:
        if name == "slow":
            self.entered.set()
            assert self.goes_on.wait(60)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Have a thread be inside while the block lasts."""
        thread = threading.Thread(target=tell, args=("lock.acquired", "slow", 9))
        thread.start()
        try:
            assert self.entered.wait(60)
            yield
        finally:
            self.goes_on.set()
            thread.join(60)


def in_child_in_time(look: Callable[[], Any]) -> Any:
    """Return what it returns in a forked child, which is killed if it hangs."""

    def limited() -> Any:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HUNG_AFTER_S)
        return look()

    return in_child(limited)


def test_a_child_measures_what_is_its_own() -> None:
    slow, registry = Slow(), CollectorRegistry()

    def called(name: str) -> str:
        slow.export(name)
        return name

    stop = telemetry.prometheus(registry, name_label=called)

    def times(instrument: str, outcome: str) -> float | None:
        labels = {"recipe": "lock", "mode": "exclusive", "store": "s", "outcome": outcome, "name": "x"}
        return registry.get_sample_value(f"recipes_lock_{instrument}_duration_seconds_count", labels)

    def look() -> list[float | None]:
        tell("lock.lost", "x", 1)  # of the parent's grant
        seen = [times("hold", "lost")]
        tell("lock.acquired", "x", 2)
        tell("lock.lost", "x", 2)
        return [*seen, times("hold", "lost"), times("acquire", "acquired")]

    tell("lock.acquired", "x", 1)
    with slow.busy():
        assert in_child_in_time(look) == [None, 1, 2]
    stop()


def test_a_child_traces_what_is_its_own_and_ends_no_span_of_its_parent() -> None:
    slow, exporter = Slow(), InMemorySpanExporter()

    class Slowly(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            slow.export(span.attributes["recipes.name"])

    provider = TracerProvider()
    for processor in (Slowly(), SimpleSpanProcessor(exporter)):
        provider.add_span_processor(processor)
    stop = telemetry.otel_spans(provider)

    def ended() -> list[list[Any]]:
        return [[span.name, span.attributes["recipes.name"]] for span in exporter.get_finished_spans()]

    def look() -> list[list[Any]]:
        exporter.clear()
        tell("lock.acquired", "x", 3)
        stop()
        return [*ended(), [len(span.links) for span in exporter.get_finished_spans()]]

    tell("lock.acquired", "x", 1)
    tell("lock.queued", "x")
    with slow.busy():
        assert in_child_in_time(look) == [["lock.acquire", "x"], ["lock.hold", "x"], [0, 1]]
    exporter.clear()
    stop()
    assert ["lock.hold", "x"] in ended(), "the parent ends its own"
    provider.shutdown()
