"""Feeding measures to an exporter, from whatever thread an event comes."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable

from recipes import events
from recipes._mutex import new_rlock
from recipes._run.clock import boot_time
from recipes.events import Transition
from recipes.telemetry.instruments import Measure, Meter

__all__ = ["Recorder", "record"]


class Recorder(ABC):
    """Takes notice of transitions one by one; in a forked child it begins anew."""

    def __init__(self) -> None:
        self._order = new_rlock()  # a finalizer may emit something while its own thread is in here
        _recorders.add(self)

    @abstractmethod
    def tell(self, transition: Transition) -> None:
        """Take notice of a transition; their order counts, for each is emitted a little late."""

    @abstractmethod
    def forget(self) -> None:
        """Forget what is held, and what waits."""

    def after_fork(self) -> None:
        """In the child: a thread that is not there may have the lock, and the grants are the parent's."""
        self._order = new_rlock()
        self.forget()


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


class _Metering(Recorder):
    """Exports the measures of every transition."""

    def __init__(self, meter: Meter, export: Callable[[Measure], None]) -> None:
        super().__init__()
        self._meter = meter
        self._export = export

    def tell(self, transition: Transition) -> None:
        with self._order:
            for measure in self._meter.measures(transition, boot_time()):
                self._export(measure)

    def forget(self) -> None:
        self._meter.forget()


def record(meter: Meter, export: Callable[[Measure], None]) -> Callable[[], None]:
    """Export the measures of every transition from now on; returns a function that ends it."""
    return events.subscribe(_Metering(meter, export).tell)


def _after_fork_in_child() -> None:
    for recorder in list(_recorders):
        recorder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
