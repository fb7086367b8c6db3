"""What the tests of interrupts do to the threads that they leave."""

from __future__ import annotations

import _thread
import threading
from contextvars import copy_context

import pytest

from integration.servers import eventually


@pytest.mark.usefixtures("nothing_in_limbo")
def test_a_thread_that_begins_after_it_was_forgotten_runs() -> None:
    ran = threading.Event()
    thread = threading.Thread(target=ran.set)
    thread._context = copy_context()  # type: ignore[attr-defined] # on Python 3.14 start() does that
    threading._limbo[thread] = thread  # type: ignore[attr-defined]
    threading._limbo.clear()  # type: ignore[attr-defined]
    _thread.start_new_thread(thread._bootstrap, ())  # type: ignore[attr-defined]
    assert ran.wait(20.0)
    assert eventually(lambda: thread not in threading.enumerate(), 20.0)
