"""How an acquire waits, as its caller asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Literal

from recipes._callback import check_callback
from recipes._contract.deadline import duration

__all__ = ["AT_ONCE_S", "DEFAULTS", "AcquireOptions", "OnPosition", "refuse"]

AT_ONCE_S = 0.2  # that much later than 0 a call may return, whatever the network does
OnPosition = Callable[[int], object]


def refuse(unknown: Mapping[str, object]) -> None:
    """Refuse options that `acquire` does not have, and say which does what their user wants.

    Raises:
        TypeError: There is one.
    """
    for name in unknown:
        if name in ("blocking", "block"):
            instead = (
                "use try_acquire(), which returns None at once if it is not free, or acquire(timeout=...), "
                "which raises LockTimeout"
            )
        else:
            from difflib import get_close_matches  # noqa: PLC0415 - for a mistake only

            near = get_close_matches(name, [one.name for one in fields(AcquireOptions)], n=1)
            instead = f"did you mean {near[0]}=?" if near else "see its documentation"
        raise TypeError(f"acquire() has no option {name!r}; {instead}")


@dataclass(frozen=True, slots=True)
class AcquireOptions:
    """How an acquire waits, and what its contender says to others; raises unless it fits."""

    timeout: float | None = None
    max_waiters: int | None = None
    on_session_lost: Literal["requeue", "fail"] = "requeue"
    on_queued: OnPosition | None = None
    on_position: OnPosition | None = None
    data: bytes = b""

    def __post_init__(self) -> None:
        duration("timeout", self.timeout)
        if self.max_waiters is not None:
            if isinstance(self.max_waiters, bool) or not isinstance(self.max_waiters, int):
                raise TypeError(f"max_waiters is a number of waiters or None, not {self.max_waiters!r}")
            if self.max_waiters < 0:
                raise ValueError(f"max_waiters is at least 0, not {self.max_waiters}")
        for what in ("on_queued", "on_position"):
            if getattr(self, what) is not None:
                check_callback(what, getattr(self, what), "the number of those ahead")
        if self.on_session_lost not in ("requeue", "fail"):
            raise ValueError(f"on_session_lost is 'requeue' or 'fail', not {self.on_session_lost!r}")

    @property
    def needs_queue(self) -> bool:
        """Whether it asks for what only a queue can tell."""
        return self.max_waiters is not None or self.on_position is not None

    @property
    def calls_back(self) -> bool:
        """Whether there is anything to call while it waits."""
        return self.on_queued is not None or self.on_position is not None


DEFAULTS = AcquireOptions()
