"""Metrics for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any
from weakref import WeakKeyDictionary

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

    provider = metrics.get_meter_provider() if meter_provider is None else meter_provider
    scope = metrics.get_meter("recipes", __version__, provider)
    made = {instrument: _made(scope, instrument) for instrument in INSTRUMENTS if instrument is not PENDING}

    def export(measure: Measure) -> None:
        attributes = {f"recipes.{name}": value for name, value in measure.labels.items()}
        made[measure.instrument](measure.value, attributes)

    end = record(Meter(name_label), export)
    going = _GOING.get(provider)
    if going is None:
        going = _GOING[provider] = set()
        words = {"unit": PENDING.unit, "description": PENDING.help}
        scope.create_observable_gauge(f"recipes.{PENDING.name}", [_pending(going)], **words)
    going.add(end)

    def stop() -> None:
        end()
        going.discard(end)

    return stop


_GOING: MutableMapping[Any, set[Any]] = WeakKeyDictionary()
"""What goes on for each provider, which asks the first callback of a gauge and none that come later."""


def _pending(going: set[Any]) -> Callable[[Any], Iterator[Any]]:
    """Return what a provider asks for the number of pending cleanups."""
    from opentelemetry import metrics  # noqa: PLC0415 - an extra

    def pending(_options: Any) -> Iterator[Any]:
        for store, count in pending_cleanups().items() if going else ():
            yield metrics.Observation(count, {"recipes.store": store})

    return pending


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
