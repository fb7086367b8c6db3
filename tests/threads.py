"""The threads of the package, as tests count them."""

from __future__ import annotations

import threading

from integration.harness.process import eventually

__all__ = ["named", "until_ended"]


def named(beginning: str) -> list[threading.Thread]:
    """Return the threads with such a name, also those that are just being started."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(beginning)]


def until_ended(beginning: str, within_s: float) -> None:
    """Wait until no thread with such a name is left; one that is just being started cannot be joined."""
    assert eventually(lambda: not named(beginning), within_s, every_s=0.005), named(beginning)
