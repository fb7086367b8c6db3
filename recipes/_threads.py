"""Making and starting threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextvars import Context
from typing import Any

__all__ = ["new_thread", "start"]


def new_thread(name: str, target: Callable[..., object], *args: Any) -> threading.Thread:
    """Return a daemon thread, to be started, that has nothing of the context of the call that needs it.

    From Python 3.14 on a thread may begin with a copy of that: by default where there is no GIL.
    """
    apart: dict[str, Any] = {"context": Context()} if sys.version_info >= (3, 14) else {}
    return threading.Thread(target=target, args=args, name=f"recipes-{name}", daemon=True, **apart)


def start(thread: threading.Thread) -> None:
    """Start a thread.

    Raises:
        OSError: This process has as many threads as it may.
    """
    handled = sys.exception()
    try:
        thread.start()
    except RuntimeError as error:
        if error.__context__ is not handled:  # it hides an interrupt: threading raises so as one strikes it
            raise
        raise OSError(str(error)) from error
