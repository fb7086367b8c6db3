"""What fault tests hear of the package: its events."""

from __future__ import annotations

import threading
from typing import Any, Self

from recipes import events
from recipes.events import Transition

__all__ = ["Seen"]


class Seen:
    """Every transition of the clients of this process whose URL ends so; a context manager."""

    def __init__(self, of: str = "") -> None:
        self._of = of
        self._all: list[Transition] = []
        self._more = threading.Condition()

    def __call__(self, transition: Transition) -> None:
        if (transition.store or "").endswith(self._of):
            with self._more:
                self._all.append(transition)
                self._more.notify_all()

    def __enter__(self) -> Self:
        self._unsubscribe = events.subscribe(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()

    def of(self, event: str, **wanted: Any) -> list[Transition]:
        """Return what was told so far of that event."""
        with self._more:
            return self._found(event, wanted)

    def wait(self, event: str, *, within_s: float = 20.0, count: int = 1, **wanted: Any) -> list[Transition]:
        """Wait until it was told so often; AssertionError if it was not."""
        with self._more:
            there = self._more.wait_for(lambda: len(self._found(event, wanted)) >= count, within_s)
            found = self._found(event, wanted)
        assert there, f"{event} {wanted} was told {len(found)} times within {within_s} s"
        return found

    def _found(self, event: str, wanted: dict[str, Any]) -> list[Transition]:
        return [
            transition
            for transition in self._all
            if transition.event == event
            and all(getattr(transition, name) == value for name, value in wanted.items())
        ]
