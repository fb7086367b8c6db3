"""Metrics for prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recipes._run.runtime import pending_cleanups
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

__all__ = ["prometheus"]


def prometheus(
    registry: Any = None, *, name_label: NameLabel = None, buckets: Sequence[float] = BUCKETS_S
) -> Callable[[], None]:
    """Keep metrics in a registry of prometheus_client, of all clients of this process.

    The names are those of `INSTRUMENTS` with underscores, ``recipes_`` before and the unit
    behind: ``recipes_lock_acquire_duration_seconds``, ``recipes_lock_lost_total``.

    Args:
        registry: A ``CollectorRegistry``; None is prometheus_client's own.
        name_label: What to call a lock, by its name, in a label ``name``; None has no such
            label. Return few different texts: each is a series of its own.
        buckets: Upper ends of the histograms' buckets, in seconds.

    Returns:
        A function that ends it, and takes the metrics out of the registry.

    Raises:
        ImportError: prometheus_client is missing: ``pip install 'coordination-recipes[prometheus]'``.
        ValueError: The registry has these metrics already.
    """
    from prometheus_client import REGISTRY  # noqa: PLC0415 - an extra

    registry = REGISTRY if registry is None else registry
    meter = Meter(name_label)
    made: dict[Instrument, Any] = {}
    pending = _Pending()
    try:
        for instrument in INSTRUMENTS:
            if instrument is not PENDING:
                made[instrument] = _made(instrument, meter.label_names(instrument), registry, buckets)
        registry.register(pending)
    except BaseException:
        _take_out(registry, made.values())
        raise

    def export(measure: Measure) -> None:
        series = made[measure.instrument].labels(**measure.labels)
        if measure.instrument.kind == "histogram":
            series.observe(measure.value)
        else:
            series.inc(measure.value)

    end = record(meter, export)

    registered = [*made.values(), pending]

    def stop() -> None:
        end()
        taken, registered[:] = registered[:], []
        _take_out(registry, taken)

    return stop


class _Pending:
    """A collector that asks the clients when it is asked."""

    def describe(self) -> list[Any]:
        return list(self._families({}))

    def collect(self) -> Iterator[Any]:
        return self._families(pending_cleanups())

    def _families(self, found: dict[str, int]) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

        family = GaugeMetricFamily(_name(PENDING), PENDING.help, labels=PENDING.labels)
        for store, count in found.items():
            family.add_metric([store], count)
        yield family


def _name(instrument: Instrument) -> str:
    name = f"recipes_{instrument.name.replace('.', '_')}"
    return f"{name}_seconds" if instrument.unit == "s" else name


def _made(instrument: Instrument, labels: tuple[str, ...], registry: Any, buckets: Sequence[float]) -> Any:
    from prometheus_client import Counter, Histogram  # noqa: PLC0415 - an extra

    name = _name(instrument)
    if instrument.kind == "histogram":
        return Histogram(name, instrument.help, labels, registry=registry, buckets=buckets)
    return Counter(name, instrument.help, labels, registry=registry)


def _take_out(registry: Any, collectors: Any) -> None:
    for collector in collectors:
        registry.unregister(collector)
