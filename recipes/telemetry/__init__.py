"""Metrics and spans from the events of locks and sessions: for Prometheus, and for OpenTelemetry.

::

    from recipes import telemetry

    telemetry.prometheus()              # into prometheus_client's own registry
    telemetry.otel_metrics()            # into OpenTelemetry's global meter provider
    telemetry.otel_spans()              # into its global tracer provider

Each covers every client of this process, blocking and asyncio, on every store, from the
call on; and returns a function that ends it. All are made from `recipes.events`.
"""

from __future__ import annotations

from recipes.telemetry.instruments import BUCKETS_S, INSTRUMENTS, Instrument
from recipes.telemetry.otel import otel_metrics
from recipes.telemetry.otel_spans import otel_spans
from recipes.telemetry.prometheus import prometheus

__all__ = ["BUCKETS_S", "INSTRUMENTS", "Instrument", "otel_metrics", "otel_spans", "prometheus"]
