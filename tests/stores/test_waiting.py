from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from recipes._run.waiting import SLICE_S, acquire

Acquire = Callable[[threading.Lock, float | None], bool]


def elsewhere(lock: threading.Lock, timeout_s: float | None) -> bool:
    got: list[bool] = []
    thread = threading.Thread(target=lambda: got.append(acquire(lock, timeout_s)))
    thread.start()
    thread.join(10)
    return got[0]


@pytest.mark.parametrize("where", [acquire, elsewhere])
@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 0.01, 2.5 * SLICE_S])
def test_a_lock_that_stays_taken_is_waited_for_as_long_as_asked(
    where: Acquire, timeout_s: float | None
) -> None:
    lock = threading.Lock()
    lock.acquire()
    began = time.monotonic()
    assert not where(lock, timeout_s)
    assert time.monotonic() - began >= (timeout_s or 0)


@pytest.mark.parametrize("where", [acquire, elsewhere])
@pytest.mark.parametrize("timeout_s", [None, 10.0, 1e12])
def test_a_lock_that_is_given_back_after_some_slices_is_taken(
    where: Acquire, timeout_s: float | None
) -> None:
    lock = threading.Lock()
    lock.acquire()
    timer = threading.Timer(2.5 * SLICE_S, lock.release)
    timer.start()
    assert where(lock, timeout_s)
    timer.join()
