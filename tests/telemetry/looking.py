"""What a scene has to leave behind in each exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from recipes import telemetry

__all__ = ["points_of", "prometheus_text", "seen_by_otel", "seen_by_prometheus", "spans_of"]

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

COUNTS = {
    ("acquire.duration", "acquired", "exclusive"): 2,
    ("acquire.duration", "timeout", "exclusive"): 1,
    ("acquire.duration", "acquired", "shared"): 1,
    ("hold.duration", "released", "exclusive"): 2,
    ("hold.duration", "released", "shared"): 1,
    ("handover.duration", "", "exclusive"): 1,
}
"""How often each was measured in a scene; and how often ``contended`` was, that says itself."""
CONTENDED = ("contended", "", "exclusive")


def prometheus_text(scene: Callable[[], int], **options: Any) -> tuple[int, str]:
    """Return what a scene does, and the text that Prometheus would scrape after it."""
    registry = CollectorRegistry()
    stop = telemetry.prometheus(registry, **options)
    try:
        return scene(), generate_latest(registry).decode()
    finally:
        stop()


def seen_by_prometheus(scene: Callable[[], int]) -> int:
    """See that a scene leaves what it should in Prometheus's text; returns what it does."""
    queued, text = prometheus_text(scene, name_label=lambda name: name.partition("/")[0])
    samples = {
        (sample.name, sample.labels.get("outcome", ""), sample.labels.get("mode", "")): sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }
    for (name, outcome, mode), times in {**COUNTS, CONTENDED: queued}.items():
        suffix = "seconds_count" if name.endswith("duration") else "total"
        sample = samples[f"recipes_lock_{name.replace('.', '_')}_{suffix}", outcome, mode]
        assert sample.value == times, sample
        assert sample.labels["name"] == "reports"
        assert "://" in sample.labels["store"]
    assert samples["recipes_lock_acquire_duration_seconds_sum", "timeout", "exclusive"].value > 0
    return queued


def seen_by_otel(scene: Callable[[], int]) -> int:
    """See that a scene leaves what it should with a reader of OpenTelemetry; returns what it does."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    stop = telemetry.otel_metrics(provider)
    try:
        queued = scene()
        points = points_of(reader)
    finally:
        stop()
    for (name, outcome, mode), times in {**COUNTS, CONTENDED: queued}.items():
        point = points[f"recipes.lock.{name}", outcome, mode]
        assert (point.count if name.endswith("duration") else point.value) == times
        assert "recipes.name" not in point.attributes
    assert points["recipes.lock.acquire.duration", "timeout", "exclusive"].sum > 0
    bounds = points["recipes.lock.hold.duration", "released", "shared"].explicit_bounds
    assert tuple(bounds) == telemetry.BUCKETS_S
    provider.shutdown()
    return queued


def points_of(reader: InMemoryMetricReader, store: str | None = None) -> dict[tuple[str, str, str], Any]:
    """Return what a reader collects, of one store if need be, by name, outcome and mode."""
    data = reader.get_metrics_data()
    found = {}
    for resource in data.resource_metrics if data else ():
        metrics = [metric for scope in resource.scope_metrics for metric in scope.metrics]
        for name, point in ((metric.name, point) for metric in metrics for point in metric.data.data_points):
            told = {"recipes.outcome": "", "recipes.mode": "", **point.attributes}
            if store in (None, told["recipes.store"]):
                found[name, told["recipes.outcome"], told["recipes.mode"]] = point
    return found


def spans_of(scene: Callable[[Any], None]) -> list[ReadableSpan]:
    """Return the spans of a scene, which is handed a tracer of its own, in the order of their ends."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stop = telemetry.otel_spans(provider)
    try:
        scene(provider.get_tracer("test"))
    finally:
        stop()
    spans = list(exporter.get_finished_spans())
    provider.shutdown()
    return spans
