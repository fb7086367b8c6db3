"""Feeding measures to an exporter, from whatever thread an event comes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from recipes import events
from recipes._run.clock import boot_time
from recipes.events import Transition
from recipes.telemetry.instruments import Measure, Meter

__all__ = ["record"]


def record(meter: Meter, export: Callable[[Measure], None]) -> Callable[[], None]:
    """Export the measures of every transition from now on; returns a function that ends it."""
    order = threading.RLock()  # a finalizer may emit something while its own thread is in here

    def hook(transition: Transition) -> None:
        with order:
            for measure in meter.measures(transition, boot_time()):
                export(measure)

    return events.subscribe(hook)
