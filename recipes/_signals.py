"""What a signal handler raises reaches the caller, wherever the handler struck.

A handler runs in the main thread between any two of its instructions, also inside of code that takes each
exception for a failure of its own: of a connection, or of a subscriber. An alarm, or the time limit of a
worker, would be lost there.
"""

from __future__ import annotations

import threading

__all__ = ["Struck", "of_a_handler", "of_a_wait"]


class Struck(BaseException):
    """A signal handler raised something while a call waited for its store: no failure of the store's.

    The driver raises what it was in its place.

    Attributes:
        raised: What the handler raised.
    """

    def __init__(self, raised: BaseException) -> None:
        super().__init__(raised)
        self.raised = raised


def of_a_handler(error: BaseException) -> bool:
    """Return whether a signal handler raised an exception that is caught here.

    Python calls a handler with the frame that it struck, which is then the handler's calling frame, and
    calls nothing else so.
    """
    trace = error.__traceback__
    if trace is None or threading.current_thread() is not threading.main_thread():
        return False
    trace = trace.tb_next  # behind the frame that catches it, which may be a handler's own
    while trace is not None:
        struck = trace.tb_frame.f_back
        if struck is not None and any(_is_or_has(one, struck) for one in trace.tb_frame.f_locals.values()):
            return True
        trace = trace.tb_next
    return False


def _is_or_has(value: object, struck: object) -> bool:
    return value is struck or (type(value) is tuple and any(one is struck for one in value))


def of_a_wait(error: Exception) -> BaseException:
    """Return what to raise for what a wait for the store raised: `Struck` if it is a signal handler's."""
    return Struck(error) if of_a_handler(error) else error
