"""A program that gevent patches: one client waits for another. ``python -m tests.run.greenlets URL``."""

# ruff: noqa: E402 - patching comes first

from gevent import monkey

monkey.patch_all()

import sys
import threading

import recipes


def main(url: str) -> None:
    """Hold, have a thread (here a greenlet) wait, release, and see it granted."""
    queued = threading.Event()

    def note(transition: recipes.events.Transition) -> None:
        if transition.event == "lock.queued":
            queued.set()

    recipes.events.subscribe(note)
    with recipes.connect(url) as one, recipes.connect(url) as other:
        granted: list[bool] = []

        def wait() -> None:
            with other.lock("x").acquire(timeout=20) as grant:
                granted.append(grant.held)

        held = one.lock("x").acquire(timeout=20)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert queued.wait(20)
        assert not granted
        assert held.release()
        waiting.join(20)
        assert granted == [True]
    print("granted")


if __name__ == "__main__":
    main(sys.argv[1])
