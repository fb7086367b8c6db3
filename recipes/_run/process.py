"""What concerns all clients of a process: its forks, and its exit.

At exit every client that is still open is closed, so that what it holds is free for others
at once and not after its session's timeout. That takes two seconds at most, for all clients
together, whatever the stores and the event loops do. The function is registered as this
package is imported, so it runs after those that an application registers by ``atexit``,
and after all threads that are not daemons: until then the clients work.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import math
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from recipes._mutex import new_lock
from recipes._run.clock import boot_time
from recipes._threads import new_thread
from recipes.events import log

__all__ = ["beat_at", "dropped", "join", "present"]

LEAVE_WITHIN_S = 2.0
MOST_NAMED = 5
APART_S = (math.sqrt(5) - 1) / 2  # whose multiples are spread evenly over any interval
_BEGUN_AT = boot_time()


class _Left:
    """A session whose client was collected, open as it was."""

    def __init__(self, until: float, end: Callable[[], object]) -> None:
        self.until = until
        self._end = end
        self._ending = new_lock()
        self._ended = False

    def end(self) -> None:
        """End it, once; a second caller waits for the first. Only in a thread made for this."""
        with self._ending:
            if not self._ended:
                self._end()
                self._ended = True

    def end_soon(self) -> bool:
        """Have a thread end it; False if none can be started."""
        try:  # not by `threading`, whose lock a finalizer's own thread may have
            _thread.start_new_thread(self._end_beside, ())
        except RuntimeError:
            return False
        return True

    def _end_beside(self) -> None:
        try:
            self.end()
        except Exception:
            log.warning("the session of a dropped client could not be ended", exc_info=True)
        else:
            self.forget()

    def forget(self) -> None:
        """Do nothing about it at exit."""
        with contextlib.suppress(ValueError):  # another thread was quicker
            _left.remove(self)


Runtime = Any  # its module imports this one
_runtimes: weakref.WeakSet[Any] = weakref.WeakSet()
_left: list[_Left] = []


def beat_at() -> float:
    """Return a moment of the beat on which the clients of this process renew.

    Another process has another: one that was forked, and one with the same id in another container.
    """
    return _BEGUN_AT + os.getpid() * APART_S


def join(runtime: Runtime) -> None:
    """Count a client among those of this process, as long as it is referred to."""
    _runtimes.add(runtime)


def present() -> list[Runtime]:
    """Return the clients of this process."""
    while True:
        try:
            return list(_runtimes)
        except RuntimeError:  # another thread has made one meanwhile
            continue


def dropped(runtime: Runtime, until: float | None, end: Callable[[], object]) -> None:
    """Note that a client is collected that nobody closed.

    Args:
        runtime: What it ran on.
        until: When its session runs out; None: never, for something keeps it alive, so it is ended now.
        end: Ends its session.
    """
    now = boot_time()
    for over in [one for one in _left if one.until <= now]:
        over.forget()
    left = _Left(math.inf if until is None else until, end)
    _left.append(left)
    if until is not None:
        _warn(runtime, "was dropped, and {held} stays held until the session runs out")
    elif left.end_soon():
        _warn(runtime, "was dropped while it held {held}; its session is being ended")
    else:
        _warn(runtime, "was dropped, and {held} stays held until the process ends")


def _warn(runtime: Runtime, what: str) -> None:
    now = runtime.now()
    held = [hold for hold in runtime.holds if hold.remaining(now) > 0]
    if held and runtime.client is not None:
        names = [hold.title for hold in held[:MOST_NAMED]]
        more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
        said = what.format(held=", ".join(names) + more)
        warnings.warn(
            f"unclosed {runtime.client!r} {said}", ResourceWarning, source=runtime.client, stacklevel=2
        )


def _leave() -> None:
    """Close what is open, all side by side."""
    until = boot_time() + LEAVE_WITHIN_S
    unclosed = [one for one in present() if one.state.session is not None or one.ends_sessions()]
    left = [one for one in _left if one.until > boot_time()]
    _left.clear()
    try:
        for runtime in unclosed:
            _warn(runtime, "held {held} at exit; close it, or enter it in a with statement")
    finally:  # a warning may be an error
        threads = [_beside(end) for end in (*(one.leave for one in unclosed), *(one.end for one in left))]
        for thread in threads:
            if thread is not None:
                thread.join(max(0.0, until - boot_time()))


def _beside(end: Callable[[], object]) -> threading.Thread | None:
    """End one client in a thread, which a dead server does not hold up the exit by."""

    def work() -> None:
        try:
            end()
        except Exception:
            log.warning("a client could not be closed at exit", exc_info=True)

    thread = new_thread("leaving", work)
    try:
        thread.start()
    except RuntimeError:  # Python 3.12.0 starts none from here on
        work()
        return None
    return thread


def _after_fork_in_child() -> None:
    _left.clear()
    for runtime in present():
        try:
            runtime.after_fork()
        except Exception:  # the others' grants are not to pass for the child's
            log.exception("a client does not know that its process was forked")


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
