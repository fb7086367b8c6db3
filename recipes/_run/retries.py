"""How often, and after which pauses, an operation of which the answer was lost is asked again.

The policy is tenacity's: the default here is an exponential back-off with full jitter, for as long as the
call has time. A program may give its own (``connect(retry=...)``). The time that it sees is the runtime's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recipes.errors import StoreError

__all__ = ["LONGEST_PAUSE_S", "Retries", "policy"]

LONGEST_PAUSE_S = 1.0


def policy(retry: Any) -> tuple[Any, Any]:
    """Return the wait and the stop that a user gave, each None if it was not given.

    Raises:
        TypeError: It is neither, nor both.
        ValueError: There are two of a kind.
    """
    if retry is None:
        return None, None
    import tenacity  # noqa: PLC0415 - slow to import, and here the user has imported it

    given: dict[str, Any] = {}
    for one in retry if isinstance(retry, tuple | list) else (retry,):
        kind = "wait" if isinstance(one, tenacity.wait.wait_base) else "stop"
        if kind == "stop" and not isinstance(one, tenacity.stop.stop_base):
            raise TypeError(
                "retry is a wait of tenacity, such as tenacity.wait_fixed(0.5), a stop, such as "
                f"tenacity.stop_after_attempt(3), or both in a tuple; not {type(one).__name__}"
            )
        if kind in given:
            raise ValueError(f"retry has two of tenacity's {kind}s; combine them with {'+|'[kind == 'stop']}")
        given[kind] = one
    return given.get("wait"), given.get("stop")


class Retries:
    """The tries of one operation.

    Args:
        wait: Tenacity's; None: the default.
        stop: Tenacity's; None: never.
        started_at: When the operation was first asked, in seconds of the runtime's clock.

    Attributes:
        over: The policy says not to ask again.
    """

    def __init__(self, wait: Any, stop: Any, started_at: float) -> None:
        import tenacity  # noqa: PLC0415 - only where an answer was lost: it is slow to import

        self._wait = wait or tenacity.wait_random_exponential(multiplier=0.02, max=LONGEST_PAUSE_S)
        self._stop = stop
        self._state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        self._state.start_time = started_at
        self._future = tenacity.Future
        self.over = False

    def after(self, error: StoreError, now: float) -> float:
        """Return how many seconds to wait after a try that ended in ``error``; sets `over`."""
        state = self._state
        state.outcome = self._future(state.attempt_number)
        state.outcome.set_exception(error)
        state.outcome_timestamp = now
        state.upcoming_sleep = pause = max(float(self._wait(state)), 0.0)
        self.over = bool(self._stop is not None and self._stop(state))
        state.idle_for += pause
        state.attempt_number += 1
        return pause
