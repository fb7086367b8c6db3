"""Starting threads."""

from __future__ import annotations

import sys
import threading

__all__ = ["start"]


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
