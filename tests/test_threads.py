"""A thread that cannot be started is an error that transports know; an interrupt amid it is not that."""

from __future__ import annotations

import threading

import pytest

from recipes._threads import start
from tests.threads import refuse


def test_a_thread_that_cannot_be_started_is_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "x")
    with pytest.raises(OSError, match="can't start new thread"):
        start(threading.Thread(name="x"))
    try:
        int("another error, which is being handled")
    except ValueError:
        with pytest.raises(OSError, match="can't start new thread"):
            start(threading.Thread(name="x"))


def test_an_interrupt_that_threading_replaces_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def struck(_: threading.Thread) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError("release unlocked lock")

    monkeypatch.setattr(threading.Thread, "start", struck)
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        start(threading.Thread())
