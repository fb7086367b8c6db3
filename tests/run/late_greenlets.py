"""A program that gevent patches after the import: each greenlet leaves what it entered itself, no other's.

``python -m tests.run.late_greenlets``
"""

# ruff: noqa: E402, I001 - patching comes late

import recipes

from gevent import monkey

monkey.patch_all()

import contextlib
import threading
from typing import Any


def main() -> None:
    """Enter a lock here while another greenlet is about to enter it, and have that one's block end."""
    about, go_on = threading.Event(), threading.Event()
    with recipes.connect("memory://") as client, contextlib.ExitStack() as stack:
        lock = client.rwlock("x").reader
        acquire = lock._acquire

        def enter() -> None:
            with lock:
                pass

        def wait_and_acquire(options: Any) -> recipes.Grant:
            about.set()
            assert go_on.wait(20)
            return acquire(options)

        lock._acquire = wait_and_acquire  # type: ignore[method-assign]
        other = threading.Thread(target=enter)
        other.start()
        assert about.wait(20)
        lock._acquire = acquire  # type: ignore[method-assign]
        grant = stack.enter_context(lock)
        go_on.set()
        other.join(20)
        client.lock("y").acquire().release()
        assert client.grants == [grant]
        assert grant.held
    print("held")


if __name__ == "__main__":
    main()
