"""A thread that cannot be started is an error that transports know; an interrupt amid it is not that.

And none has anything of the context of the call that needs it.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import recipes
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


def test_all_threads_are_made_in_one_place() -> None:
    package = Path(recipes.__file__).parent
    made = [path for path in package.rglob("*.py") if "threading.Thread(" in path.read_text()]
    assert made == [package / "_threads.py"]


FIRST_CALL = """
import contextvars, gc, weakref
import recipes

class Body:
    'What a request refers to.'

REQUEST = contextvars.ContextVar("request", default=None)
seen = {}
recipes.events.subscribe(lambda event: seen.setdefault(event.event, REQUEST.get() is not None))

def first(client):
    body = Body()
    REQUEST.set(body)
    client.lock("x").acquire().release(wait=False)
    client.lock("y").acquire()
    return weakref.ref(body)

client = recipes.connect("memory://")
body = contextvars.copy_context().run(first, client)
gc.collect()
kept = body() is not None
client.close()
print(kept, seen["lock.acquired"], seen["session.started"])
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="before Python 3.14 a thread begins with no context")
def test_the_threads_of_a_client_have_nothing_of_the_context_of_its_first_call() -> None:
    command = [sys.executable, "-X", "thread_inherit_context=1", "-c", FIRST_CALL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "False True False\n", "")
