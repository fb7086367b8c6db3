"""Metrics for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from recipes._run.runtime import pending_cleanups
from recipes._version import __version__
from recipes.telemetry.instruments import (
    BUCKETS_S,
    INSTRUMENTS,
    PENDING,
    Instrument,
    Measure,
    Meter,
    NameLabel,
)
from recipes.telemetry.recording import record

__all__ = ["otel_metrics"]


def otel_metrics(meter_provider: Any = None, *, name_label: NameLabel = None) -> Callable[[], None]:
    """Keep metrics with a meter provider of OpenTelemetry, of all clients of this process.

    The names are those of `INSTRUMENTS` with ``recipes.`` before, and so are those of the attributes.

    Args:
        meter_provider: None is the global one.
        name_label: What to call a lock, by its name, in an attribute ``recipes.name``; None has no
            such attribute. Return few different texts: each is a series of its own.

    Returns:
        A function that ends it.

    Raises:
        ImportError: OpenTelemetry is missing: ``pip install 'coordination-recipes[otel]'``.
    """
    from opentelemetry import metrics  # noqa: PLC0415 - an extra

    scope = metrics.get_meter("recipes", __version__, meter_provider)
    made = {instrument: _made(scope, instrument) for instrument in INSTRUMENTS if instrument is not PENDING}

    def export(measure: Measure) -> None:
        attributes = {f"recipes.{name}": value for name, value in measure.labels.items()}
        made[measure.instrument](measure.value, attributes)

    end = record(Meter(name_label), export)
    going = [True]

    def pending(_options: Any) -> Iterator[Any]:
        for store, count in pending_cleanups().items() if going else ():
            yield metrics.Observation(count, {"recipes.store": store})

    scope.create_observable_gauge(
        f"recipes.{PENDING.name}", [pending], unit=PENDING.unit, description=PENDING.help
    )

    def stop() -> None:
        end()
        going.clear()

    return stop


def _made(scope: Any, instrument: Instrument) -> Callable[[float, dict[str, str]], None]:
    """Return what takes a value and attributes."""
    words = {"unit": instrument.unit, "description": instrument.help}
    name = f"recipes.{instrument.name}"
    if instrument.kind == "histogram":
        histogram = scope.create_histogram(name, explicit_bucket_boundaries_advisory=BUCKETS_S, **words)
        record_value: Callable[[float, dict[str, str]], None] = histogram.record
        return record_value
    add: Callable[[float, dict[str, str]], None] = scope.create_counter(name, **words).add
    return add
