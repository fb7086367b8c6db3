"""What a signal handler raises reaches the caller, wherever the handler struck.

A handler runs in the main thread between any two of its instructions, also inside of code that takes each
exception for a failure of its own: of a connection, or of a subscriber. An alarm, or the time limit of a
worker, would be lost there.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from types import FrameType

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
        frame = trace.tb_frame
        if frame.f_back is not None and any(_is_or_has(one, frame.f_back) for one in _given(frame)):
            return True
        trace = trace.tb_next
    return False


def _given(frame: FrameType) -> Iterator[object]:
    """Yield what a function was called with, as far as it still has that."""
    code = frame.f_code
    several = bool(code.co_flags & inspect.CO_VARARGS)
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + several]:
        yield frame.f_locals.get(name)


def _is_or_has(value: object, struck: object) -> bool:
    return value is struck or (type(value) is tuple and any(one is struck for one in value))


def of_a_wait(error: Exception) -> BaseException:
    """Return what to raise for what a wait for the store raised: `Struck` if it is a signal handler's."""
    return Struck(error) if of_a_handler(error) else error
