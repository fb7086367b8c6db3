"""What concerns all clients of a process: its forks, and its exit.

At exit every client that is still open is closed, so that what it holds is free for others
at once and not after its session's timeout. That takes two seconds at most, for all clients
together, whatever the stores and the event loops do. The function is registered as this
package is imported, so it runs after those that an application registers by ``atexit``,
and after all threads that are not daemons: until then the clients work.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recipes._run.clock import boot_time

__all__ = ["dropped", "join", "present"]

LEAVE_WITHIN_S = 2.0
MOST_NAMED = 5
log = logging.getLogger("recipes")


@dataclass(frozen=True, slots=True)
class _Left:
    """A session that nobody keeps: its client was collected, open as it was."""

    until: float
    end: Callable[[], object]


Runtime = Any  # its module imports this one
_runtimes: weakref.WeakSet[Any] = weakref.WeakSet()
_left: list[_Left] = []


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


def dropped(runtime: Runtime, until: float, end: Callable[[], object]) -> None:
    """Note that a client is collected that nobody closed: ``end`` ends its session, which lasts ``until``."""
    now = boot_time()
    _left[:] = [*(left for left in _left if left.until > now), _Left(until, end)]
    _warn(runtime, "was dropped, and {held} stays locked until the session runs out")


def _warn(runtime: Runtime, what: str) -> None:
    now = runtime.now()
    held = [hold for hold in runtime.holds if hold.remaining(now) > 0]
    if held and runtime.face is not None:
        names = [f"{hold.labels['lock']!r} (token {hold.place.token})" for hold in held[:MOST_NAMED]]
        more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
        said = what.format(held=", ".join(names) + more)
        warnings.warn(f"unclosed {runtime.face!r} {said}", ResourceWarning, source=runtime.face, stacklevel=2)


def _leave() -> None:
    """Close what is open, all side by side."""
    until = boot_time() + LEAVE_WITHIN_S
    unclosed = [one for one in present() if one.board.closed is None and one.board.epoch is not None]
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

    thread = threading.Thread(target=work, name="recipes-leaving", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # Python 3.12.0 starts none from here on
        work()
        return None
    return thread


def _after_fork_in_child() -> None:
    _left.clear()
    for runtime in present():
        runtime.after_fork()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
