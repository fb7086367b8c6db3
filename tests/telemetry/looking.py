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

__all__ = ["prometheus_text", "seen_by_otel", "seen_by_prometheus", "spans_of"]

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]

COUNTS = {
    ("acquire.duration", "acquired", "exclusive"): 2,
    ("acquire.duration", "timeout", "exclusive"): 1,
    ("acquire.duration", "acquired", "shared"): 1,
    ("hold.duration", "released", "exclusive"): 2,
    ("hold.duration", "released", "shared"): 1,
    ("handover.duration", "", "exclusive"): 1,
    ("contended", "", "exclusive"): 2,
}
"""How often each was measured in a scene."""


def prometheus_text(scene: Callable[[], None], **options: Any) -> str:
    """Return the text that Prometheus would scrape after a scene."""
    registry = CollectorRegistry()
    stop = telemetry.prometheus(registry, **options)
    try:
        scene()
        return generate_latest(registry).decode()
    finally:
        stop()


def seen_by_prometheus(scene: Callable[[], None]) -> None:
    """See that a scene leaves what it should in Prometheus's text."""
    text = prometheus_text(scene, lock_label=lambda name: name.partition("/")[0])
    samples = {
        (sample.name, sample.labels.get("outcome", ""), sample.labels.get("mode", "")): sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith(("_bucket", "_created"))
    }
    for (name, outcome, mode), times in COUNTS.items():
        suffix = "seconds_count" if name.endswith("duration") else "total"
        sample = samples[f"recipes_lock_{name.replace('.', '_')}_{suffix}", outcome, mode]
        assert sample.value == times, sample
        assert sample.labels["lock"] == "reports"
        assert "://" in sample.labels["store"]
    assert samples["recipes_lock_acquire_duration_seconds_sum", "timeout", "exclusive"].value >= 0.05
    assert "recipes_cleanups_pending{" in text


def seen_by_otel(scene: Callable[[], None]) -> None:
    """See that a scene leaves what it should with a reader of OpenTelemetry."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    stop = telemetry.otel_metrics(provider)
    try:
        scene()
        points = _points(reader)
    finally:
        stop()
    for (name, outcome, mode), times in COUNTS.items():
        point = points[f"recipes.lock.{name}", outcome, mode]
        assert (point.count if name.endswith("duration") else point.value) == times
        assert "recipes.lock" not in point.attributes
    assert points["recipes.cleanups.pending", "", ""].value >= 0
    assert points["recipes.lock.acquire.duration", "timeout", "exclusive"].sum >= 0.05
    bounds = points["recipes.lock.hold.duration", "released", "shared"].explicit_bounds
    assert tuple(bounds) == telemetry.BUCKETS_S
    assert "recipes.cleanups.pending" not in {name for name, _, _ in _points(reader)}
    provider.shutdown()


def _points(reader: InMemoryMetricReader) -> dict[tuple[str, str, str], Any]:
    data = reader.get_metrics_data()
    return {
        (
            metric.name,
            point.attributes.get("recipes.outcome", ""),
            point.attributes.get("recipes.mode", ""),
        ): point
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


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
