"""The threads of the package, as tests count them."""

from __future__ import annotations

import threading

import pytest

from integration.harness.process import eventually

__all__ = ["named", "refuse", "until_ended"]


def named(beginning: str) -> list[threading.Thread]:
    """Return the threads with such a name, also those that are just being started."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(beginning)]


def until_ended(beginning: str, within_s: float) -> None:
    """Wait until no thread with such a name is left; one that is just being started cannot be joined."""
    assert eventually(lambda: not named(beginning), within_s, every_s=0.005), named(beginning)


def refuse(patch: pytest.MonkeyPatch, name: str) -> None:
    """Have the system start no thread of this name."""

    def start(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        original(thread)

    original = threading.Thread.start
    patch.setattr(threading.Thread, "start", start)
