from __future__ import annotations

import threading

import pytest

from recipes import StaleToken
from recipes.fencing import MemoryGate


def test_a_block_is_alone_and_who_waits_is_judged_when_it_gets_in() -> None:
    gate = MemoryGate()
    started = threading.Event()
    outcome: list[str] = []

    def late() -> None:
        started.set()
        try:
            with gate.admit("x", 6):
                outcome.append("inside")
        except StaleToken:
            outcome.append("refused")

    with gate.admit("x", 7):
        thread = threading.Thread(target=late)
        thread.start()
        assert started.wait(30)
        thread.join(0.1)  # it waits at the gate, or is about to: either is refused
        assert outcome == []
        with gate.admit("y", 1):
            pass  # another resource is another gate
    thread.join(10)
    assert outcome == ["refused"]


def test_the_same_thread_does_not_wait_for_itself() -> None:
    gate = MemoryGate()
    again = pytest.raises(RuntimeError, match="inside the gate of 'x' already")
    with gate.admit("x", 7), again, gate.admit("x", 8):
        pass
    with gate.admit("x", 7):
        pass
