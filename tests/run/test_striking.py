"""What strikes at chosen places, itself."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType

import pytest

from tests.run.striking import Handled


class Dropped:
    """Is in a cycle; calls a function as it is collected."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        finished()


def finished() -> None:
    """Be where it is struck."""


class AmidCollecting(Handled):
    """Strikes in what the collector of garbage calls."""

    within = (__file__,)

    def counts(self, frame: FrameType, event: str) -> bool:
        """Only there."""
        return frame.f_code is finished.__code__ and super().counts(frame, event)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="newer versions collect between instructions alone")
def test_a_strike_amid_a_collection_of_garbage_leaves_nothing_that_python_still_calls() -> None:
    """CPython 3.11 collects between the look at the profile function and its call: that function was gone."""
    kept = []
    before, enabled = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(5)
    try:
        for _ in range(500):
            struck = AmidCollecting(1, lambda: kept.extend(threading.Lock() for _ in range(5)))
            gc.disable()  # or it may be collected before
            Dropped()
            with struck:
                gc.enable()
                for _ in range(50):
                    some: list[object] = []
                    finished_not(some)
    finally:
        if not enabled:
            gc.disable()
        gc.set_threshold(*before)
    assert kept


def finished_not(some: list[object]) -> None:
    """Be called, with a new object."""
    some.append([])
