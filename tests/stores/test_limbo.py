"""What the tests of interrupts do to the threads that they leave."""

from __future__ import annotations

import _thread
import threading

import pytest


@pytest.mark.usefixtures("nothing_in_limbo")
def test_a_thread_that_begins_after_it_was_forgotten_runs() -> None:
    ran = threading.Event()
    thread = threading.Thread(target=ran.set)
    threading._limbo[thread] = thread  # type: ignore[attr-defined]
    threading._limbo.clear()  # type: ignore[attr-defined]
    _thread.start_new_thread(thread._bootstrap, ())  # type: ignore[attr-defined]
    assert ran.wait(20.0)
    thread.join()
